//! The health of a device, shared by the code that changes it and by all watches, and the counts of what lost epochs
//! left behind.
//!
//! A watch registers a waker, and a change of the health wakes it: nothing polls (I11).
//!
//! For a forked child the device is closed. It takes no lock to find that: a thread of the parent may have held it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millstream_sync::facade::{Mutex, MutexGuard, Statistic, lock};

use crate::block::block_until;
use crate::error::Error;
use crate::health::Health;
use crate::marks::is_runtime_thread;
use crate::process::Process;

/// The health of a device over all of its epochs.
pub struct HealthState {
    process: Process,
    state: Mutex<State>,
    pub(crate) remains: Remains,
}

/// What lost epochs of a device have left behind for ever.
#[derive(Default)]
pub struct Remains {
    /// Values that are kept for ever: they were to be dropped after work that will never complete.
    pub values_parked: Statistic,
    /// Bytes that a lost device keeps.
    pub bytes_left: Statistic,
}

struct State {
    health: Health,
    /// The number of changes so far.
    changes: u64,
    /// The wakers for the next change, by the number of their watch.
    wakers: BTreeMap<u64, Waker>,
    watches: u64,
}

impl Default for HealthState {
    fn default() -> Self {
        Self {
            process: Process::current(),
            state: Mutex::new(State {
                health: Health::Running { epoch: 0 },
                changes: 0,
                wakers: BTreeMap::new(),
                watches: 0,
            }),
            remains: Remains::default(),
        }
    }
}

impl HealthState {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the health of the device.
    pub fn health(&self) -> Health {
        match self.process.is_current() {
            true => self.state().health,
            false => Health::Closed,
        }
    }

    /// Returns `false` in a child that was forked since the device was opened. Takes no lock: a thread of the parent may have
    /// held any lock of the device.
    pub fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    /// Sets the health and wakes all watches. A closed device stays closed. Does nothing in a forked child.
    pub fn change(&self, health: Health) {
        self.change_if(health, || true);
    }

    /// Calls `change` under the lock, and then sets the health as [`HealthState::change`] does if `change` returned
    /// `true`. A reader observes the effect of `change` and the new health together.
    pub(crate) fn change_if(&self, health: Health, change: impl FnOnce() -> bool) {
        if !self.process.is_current() {
            return;
        }
        let mut state = self.state();
        if !change() {
            return;
        }
        if state.health == Health::Closed || state.health == health {
            return;
        }
        state.health = health;
        state.changes += 1;
        let woken = std::mem::take(&mut state.wakers);
        drop(state);
        // A waker is foreign code, so it is called without the lock, and outside of the device that was found lost.
        woken
            .into_values()
            .for_each(millstream_sync::deferred_wakes::wake);
    }

    /// Creates a watch for changes from now on.
    pub fn watch(self: &Arc<Self>) -> HealthWatch {
        let mut watch = HealthWatch {
            health_state: self.clone(),
            number: 0,
            seen: 0,
            over: true,
        };
        if self.process.is_current() {
            let mut state = self.state();
            state.watches += 1;
            (watch.number, watch.seen) = (state.watches, state.changes);
            watch.over = state.health == Health::Closed;
        }
        watch
    }
}

/// A watch of the health of a device. It reports that the health changed, and the latest value; of several changes
/// since the last poll it reports only the last.
pub struct HealthWatch {
    health_state: Arc<HealthState>,
    number: u64,
    seen: u64,
    /// The watch has reported the close, or was created after it.
    over: bool,
}

impl HealthWatch {
    /// Returns the current health.
    pub fn health(&self) -> Health {
        self.health_state.health()
    }

    /// Waits for the next change. Returns `None` once the device is closed and the watch has reported that.
    pub async fn changed(&mut self) -> Option<Health> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    /// Blocks until the next change, up to `timeout`. Returns `None` once the device is closed and the watch has
    /// reported that. Does not pump a driven device.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::WouldDeadlock`] on a thread that the device needs; [`Error::Forked`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Health>, Error> {
        if is_runtime_thread() {
            return Err(Error::WouldDeadlock);
        }
        if !self.health_state.process.is_current() {
            return Err(Error::Forked);
        }
        let deadline = Instant::now().checked_add(timeout);
        let changed = poll_fn(|context| self.poll_changed(context));
        block_until(changed, deadline).ok_or(Error::TimedOut { waited: timeout })
    }

    /// Polls for the next change; the waker of `context` is woken by it.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Option<Health>> {
        if self.over || !self.health_state.process.is_current() {
            return Poll::Ready(None);
        }
        // Cloning a waker runs foreign code: before the lock.
        let waker = context.waker().clone();
        let mut state = self.health_state.state();
        if state.changes != self.seen {
            self.seen = state.changes;
            self.over = state.health == Health::Closed;
            let health = state.health;
            drop(state);
            return Poll::Ready(Some(health));
        }
        let old = state.wakers.insert(self.number, waker);
        drop(state);
        drop(old);
        Poll::Pending
    }
}

impl Drop for HealthWatch {
    fn drop(&mut self) {
        if !self.health_state.process.is_current() {
            return;
        }
        let mut state = self.health_state.state();
        let left = state.wakers.remove(&self.number);
        drop(state);
        drop(left);
    }
}

impl fmt::Debug for HealthWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HealthWatch({:?})", self.health())
    }
}

#[cfg(test)]
mod tests {
    use std::task::{RawWaker, RawWakerVTable};

    use super::*;
    use crate::health::Recovery;

    const LOST: Health = Health::Lost {
        epoch: 0,
        recovery: Recovery::SameProcess,
    };

    /// I5: a watch reports a change that came before the poll, the latest of several changes, and the close once.
    #[test]
    fn watch_reports_the_latest_change_and_ends_with_the_close_i5() {
        let health_state = Arc::new(HealthState::default());
        let mut watch = health_state.watch();
        let mut poll = || watch.poll_changed(&mut Context::from_waker(Waker::noop()));
        assert_eq!(poll(), Poll::Pending);
        health_state.change(LOST);
        assert_eq!(poll(), Poll::Ready(Some(LOST)));
        assert_eq!(poll(), Poll::Pending);
        health_state.change(Health::Running { epoch: 1 });
        health_state.change(Health::Closed);
        health_state.change(Health::Running { epoch: 2 });
        assert_eq!(poll(), Poll::Ready(Some(Health::Closed)));
        assert_eq!(poll(), Poll::Ready(None));
        assert_eq!(
            health_state
                .watch()
                .poll_changed(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(None)
        );
    }

    /// I12: a watch has at most one waker, however often it is polled, and removes it when it is dropped.
    #[test]
    fn watch_keeps_one_waker_and_removes_it_on_drop_i12() {
        let health_state = Arc::new(HealthState::default());
        let mut watch = health_state.watch();
        for _ in 0..10 {
            assert!(
                watch
                    .poll_changed(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
        }
        assert_eq!(health_state.state().wakers.len(), 1);
        drop(watch);
        assert_eq!(health_state.state().wakers.len(), 0);
    }

    /// I5: a child that was forked while a thread held the lock learns that its device is closed.
    #[cfg(all(unix, not(any(miri, loom, shuttle))))]
    #[test]
    fn forked_child_takes_no_lock_i5() {
        use crate::process::tests::in_child;

        let health_state = Arc::new(HealthState::default());
        health_state.change_if(LOST, || {
            assert!(in_child(|| {
                let mut watch = std::mem::ManuallyDrop::new(health_state.watch());
                let next = watch.poll_changed(&mut Context::from_waker(Waker::noop()));
                health_state.health() == Health::Closed && next == Poll::Ready(None)
            }));
            true
        });
        assert_eq!(health_state.health(), LOST);
    }

    /// I5: cloning a waker runs foreign code, which may call the device.
    #[test]
    fn waker_is_cloned_without_the_lock_i5() {
        static CALLS: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});

        fn clone(health_state: *const ()) -> RawWaker {
            // SAFETY: the test keeps the state alive.
            let of = unsafe { &*health_state.cast::<HealthState>() };
            assert!(of.state.try_lock().is_ok());
            RawWaker::new(health_state, &CALLS)
        }

        let health_state = Arc::new(HealthState::default());
        let data = Arc::as_ptr(&health_state).cast();
        // SAFETY: the functions own nothing, and the state may be shared.
        let waker = unsafe { Waker::from_raw(RawWaker::new(data, &CALLS)) };
        let mut watch = health_state.watch();
        for _ in 0..2 {
            let polled = watch.poll_changed(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
    }

    #[test]
    fn waiting_thread_is_woken_by_a_change() {
        let health_state = Arc::new(HealthState::default());
        let mut watch = health_state.watch();
        assert!(matches!(
            watch.wait_timeout(Duration::ZERO),
            Err(Error::TimedOut { .. })
        ));
        let waiting = std::thread::spawn(move || watch.wait_timeout(Duration::from_secs(60)));
        health_state.change(LOST);
        assert!(matches!(waiting.join(), Ok(Ok(Some(LOST)))));
    }
}

//! The health of a device, as all who tell it and all who watch it share it, and what its lost epochs have left behind.
//!
//! Nothing polls: a watcher registers a waker, and a change wakes it (I11).

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millstream_sync::facade::{Mutex, MutexGuard, lock};

use crate::block::block_until;
use crate::error::Error;
use crate::health::Health;
use crate::marks::is_runtime_thread;

/// The health of a device, shared by all who tell it and all who watch it.
pub struct Vitals {
    state: Mutex<State>,
    remains: Remains,
}

/// What lost epochs of a device have left behind, for ever.
#[derive(Default)]
pub(crate) struct Remains {
    values_parked: AtomicU64,
    bytes_left: AtomicU64,
}

impl Remains {
    pub(crate) fn values_parked(&self) -> u64 {
        // Relaxed: a figure.
        self.values_parked.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_left(&self) -> u64 {
        // Relaxed: a figure.
        self.bytes_left.load(Ordering::Relaxed)
    }

    pub(crate) fn park_value(&self) {
        // Relaxed: a figure.
        self.values_parked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave_bytes(&self, bytes: u64) {
        // Relaxed: a figure.
        self.bytes_left.fetch_add(bytes, Ordering::Relaxed);
    }
}

struct State {
    health: Health,
    /// How often it changed.
    changes: u64,
    /// Who is to be woken by the next change, by watch.
    wakers: Vec<(u64, Waker)>,
    watches: u64,
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                health: Health::Running { epoch: 0 },
                changes: 0,
                wakers: Vec::new(),
                watches: 0,
            }),
            remains: Remains::default(),
        }
    }
}

impl Vitals {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// What lost epochs have left behind.
    pub(crate) fn remains(&self) -> &Remains {
        &self.remains
    }

    /// How the device is.
    pub fn health(&self) -> Health {
        self.state().health
    }

    /// The device is like this from now on. What was closed stays closed.
    pub fn change(&self, health: Health) {
        self.change_if(health, || true);
    }

    /// As [`Vitals::change`], unless `change` says no, which is asked before anybody can see how the device is:
    /// what it changes is seen together with that.
    pub(crate) fn change_if(&self, health: Health, change: impl FnOnce() -> bool) {
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
        // A waker is foreign code: after the lock.
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Watches from now on.
    pub fn watch(self: &Arc<Self>) -> HealthWatch {
        let mut state = self.state();
        state.watches += 1;
        HealthWatch {
            number: state.watches,
            seen: state.changes,
            over: state.health == Health::Closed,
            vitals: self.clone(),
        }
    }
}

/// Watches the health of a device. It tells changes, not every one of them: of several since the last look
/// the latest.
pub struct HealthWatch {
    vitals: Arc<Vitals>,
    number: u64,
    seen: u64,
    /// It has told that the device was closed, or was made after that.
    over: bool,
}

impl HealthWatch {
    /// How the device is now.
    pub fn health(&self) -> Health {
        self.vitals.health()
    }

    /// The next change, for async code; `None` once the device has been closed and the watch has said so.
    pub async fn changed(&mut self) -> Option<Health> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    /// The next change, if it comes within `timeout`; `None` once the device has been closed and the watch has
    /// said so. Blocks, and does not pump a driven device.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::WouldDeadlock`] on a thread that the device needs.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Health>, Error> {
        if is_runtime_thread() {
            return Err(Error::WouldDeadlock);
        }
        let deadline = Instant::now().checked_add(timeout);
        let changed = poll_fn(|context| self.poll_changed(context));
        block_until(changed, deadline).ok_or(Error::TimedOut { waited: timeout })
    }

    /// The next change, or the waker of `context` is woken by it.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Option<Health>> {
        if self.over {
            return Poll::Ready(None);
        }
        let mut state = self.vitals.state();
        if state.changes != self.seen {
            self.seen = state.changes;
            self.over = state.health == Health::Closed;
            return Poll::Ready(Some(state.health));
        }
        let waker = context.waker().clone();
        let old = match state
            .wakers
            .iter_mut()
            .find(|(number, _)| *number == self.number)
        {
            Some((_, kept)) => Some(std::mem::replace(kept, waker)),
            None => {
                state.wakers.push((self.number, waker));
                None
            }
        };
        drop(state);
        drop(old);
        Poll::Pending
    }
}

impl Drop for HealthWatch {
    fn drop(&mut self) {
        let mut state = self.vitals.state();
        let place = state
            .wakers
            .iter()
            .position(|(number, _)| *number == self.number);
        let left = place.map(|place| state.wakers.swap_remove(place));
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
    use super::*;
    use crate::health::Recovery;

    const LOST: Health = Health::Lost {
        epoch: 0,
        recovery: Recovery::SameProcess,
    };

    /// I5: a watcher sees a change that came before it looked, the latest of several changes, and the end once.
    #[test]
    fn a_watch_tells_the_latest_change_and_ends_with_the_close() {
        let vitals = Arc::new(Vitals::default());
        let mut watch = vitals.watch();
        let mut look = || watch.poll_changed(&mut Context::from_waker(Waker::noop()));
        assert_eq!(look(), Poll::Pending);
        vitals.change(LOST);
        assert_eq!(look(), Poll::Ready(Some(LOST)));
        assert_eq!(look(), Poll::Pending);
        vitals.change(Health::Running { epoch: 1 });
        vitals.change(Health::Closed);
        vitals.change(Health::Running { epoch: 2 });
        assert_eq!(look(), Poll::Ready(Some(Health::Closed)));
        assert_eq!(look(), Poll::Ready(None));
        assert_eq!(
            vitals
                .watch()
                .poll_changed(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(None)
        );
    }

    /// I12: a watch that is polled often, or dropped, leaves no wakers behind.
    #[test]
    fn a_watch_keeps_one_waker_and_takes_it_along() {
        let vitals = Arc::new(Vitals::default());
        let mut watch = vitals.watch();
        for _ in 0..10 {
            assert!(
                watch
                    .poll_changed(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
        }
        assert_eq!(vitals.state().wakers.len(), 1);
        drop(watch);
        assert_eq!(vitals.state().wakers.len(), 0);
    }

    #[test]
    fn a_thread_that_waits_is_woken_by_the_change() {
        let vitals = Arc::new(Vitals::default());
        let mut watch = vitals.watch();
        assert!(matches!(
            watch.wait_timeout(Duration::ZERO),
            Err(Error::TimedOut { .. })
        ));
        let waiting = std::thread::spawn(move || watch.wait_timeout(Duration::from_secs(60)));
        vitals.change(LOST);
        assert!(matches!(waiting.join(), Ok(Ok(Some(LOST)))));
    }
}

//! One sleeper, many wakers.
//!
//! Each side writes, fences, then reads what the other side wrote: the waker publishes its work, fences
//! and reads `asleep`; the sleeper sets `asleep`, fences and looks for work once more. One of the two
//! sees the other, so no wake is lost; and while the sleeper is awake a wake is a fence and a load.
//!
//! The gate carries no work: what there is to do, the caller's `poll` finds elsewhere. Two threads must
//! not sleep at one gate at the same time; one of them might not be woken.

use crate::facade::atomic::{AtomicU32, Ordering, fence};
use crate::facade::thread;
use crate::facade::{Mutex, Spinner, lock};
use crate::wait::Waiter;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// One sleeper, many wakers.
#[derive(Debug)]
#[repr(align(64))]
pub struct Gate {
    /// `ASLEEP` from before the sleeper's last look until somebody takes it upon himself to wake it.
    asleep: AtomicU32,
    /// Whom to wake. Written before `asleep` is set.
    owner: Mutex<Option<Waiter>>,
}

impl Gate {
    /// A gate without a sleeper.
    pub fn new() -> Self {
        Self {
            asleep: AtomicU32::new(AWAKE),
            owner: Mutex::new(None),
        }
    }

    /// Names the calling thread as the sleeper. Going to sleep does so too.
    pub fn attach(&self) {
        *lock(&self.owner) = Some(Waiter::Thread(thread::current()));
    }

    /// Lets the next wake wake `waker`, once, as if it slept here. The caller looks for work once more, and
    /// leaves the gate to the waker then. Not at a gate at which a thread sleeps, and not with a waker of
    /// somebody else: it is cloned and dropped under the gate's lock.
    pub fn arm(&self, waker: &Waker) {
        *lock(&self.owner) = Some(Waiter::Task(waker.clone()));
        // Release: as in `sleep`.
        self.asleep.swap(ASLEEP, Ordering::Release);
        // SeqCst: pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
    }

    /// Wakes the sleeper if it sleeps. Call it after publishing work.
    #[inline]
    pub fn wake(&self) {
        self.wake_unless(|| false);
    }

    /// As [`Self::wake`], but calls `instead` where a thread sleeps. If `instead` has done that thread's work, it returns
    /// true, and the thread sleeps on.
    #[inline]
    pub fn wake_unless(&self, instead: impl FnOnce() -> bool) {
        // SeqCst: pairs with the fence in `sleep`; publish-then-read here, set-then-look there.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        if self.asleep.load(Ordering::Relaxed) != AWAKE && !instead() {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&self) {
        // AcqRel: Acquire pairs with `sleep`'s Release, so `owner` is the sleeper of this sleep; Release
        // hands what was published to the sleeper, which reads `asleep` with Acquire.
        if self.asleep.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            let owner = lock(&self.owner).clone();
            if let Some(owner) = owner {
                owner.wake();
            }
        }
    }

    /// Polls until there is something: spins first, then sleeps. Blocks.
    #[inline]
    pub fn wait_until<R>(&self, spin: &mut Spinner, mut poll: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(found) = spin.spin(&mut poll) {
                return found;
            }
            if let Some(found) = self.sleep(spin, None, &mut poll) {
                return found;
            }
        }
    }

    /// Polls until there is something or the deadline has passed. Blocks. In a model no deadline comes.
    pub fn wait_until_deadline<R>(
        &self,
        spin: &mut Spinner,
        deadline: Instant,
        mut poll: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            if let Some(found) = spin.spin(&mut poll) {
                return Some(found);
            }
            if let Some(found) = self.sleep(spin, Some(deadline), &mut poll) {
                return Some(found);
            }
            if thread::is_past(deadline) {
                return poll();
            }
        }
    }

    /// Sleeps once: returns when woken, when the deadline has passed, or with what the last look found.
    fn sleep<R>(
        &self,
        spin: &mut Spinner,
        deadline: Option<Instant>,
        poll: &mut impl FnMut() -> Option<R>,
    ) -> Option<R> {
        self.attach();
        // Release: whoever sees ASLEEP sees the owner. A swap, not a store: wakers swap it too.
        self.asleep.swap(ASLEEP, Ordering::Release);
        // SeqCst: pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        if let Some(found) = poll() {
            // Relaxed: only this thread acts on it.
            self.asleep.swap(AWAKE, Ordering::Relaxed);
            return Some(found);
        }
        let nap = spin.nap_begins();
        // Acquire: pairs with the waker's Release.
        while self.asleep.load(Ordering::Acquire) != AWAKE {
            if !thread::park_until(deadline) {
                // Acquire: a waker may have been first.
                self.asleep.swap(AWAKE, Ordering::Acquire);
            }
        }
        spin.nap_ended(nap);
        None
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// So that a gate can be given where a waker is taken.
impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        Gate::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Gate::wake(self);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::facade::SpinPolicy;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;
    use std::time::Duration;

    #[test]
    fn no_wake_is_lost() {
        const ROUNDS: usize = if cfg!(miri) { 50 } else { 20_000 };
        let gate = Arc::new(Gate::new());
        let posted = Arc::new(AtomicUsize::new(0));
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let (gate, posted) = (gate.clone(), posted.clone());
                std::thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        posted.fetch_add(1, Ordering::Release);
                        Gate::wake(&gate);
                    }
                })
            })
            .collect();
        for policy in [SpinPolicy::never(), SpinPolicy::for_us(5)] {
            let mut spin = Spinner::new(policy);
            let mut seen = 0;
            while seen < 2 * ROUNDS {
                seen = gate.wait_until(&mut spin, || {
                    let now = posted.load(Ordering::Acquire);
                    (now > seen || now == 2 * ROUNDS).then_some(now)
                });
            }
        }
        wakers.into_iter().for_each(|w| w.join().unwrap());
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let gate = Gate::new();
        let until = Instant::now() + Duration::from_millis(2);
        let none: Option<()> =
            gate.wait_until_deadline(&mut Spinner::new(SpinPolicy::default()), until, || None);
        assert!(none.is_none() && Instant::now() >= until);
    }

    #[test]
    fn a_gate_is_a_waker() {
        let gate = Arc::new(Gate::new());
        let rung = Arc::new(AtomicUsize::new(0));
        let waker = Waker::from(gate.clone());
        let ringer = rung.clone();
        let other = std::thread::spawn(move || {
            ringer.store(1, Ordering::Release);
            waker.wake();
        });
        gate.wait_until(&mut Spinner::new(SpinPolicy::never()), || {
            (rung.load(Ordering::Acquire) == 1).then_some(())
        });
        other.join().unwrap();
    }
}

//! Parks one thread until another thread has work for it: one sleeper, any number of wakers.
//!
//! The gate carries no work. The sleeper passes `poll` to [`Gate::wait_until`], which looks for
//! work elsewhere, such as in a mailbox; a waker publishes its work there and then calls
//! [`Gate::wake`]. At most one thread may sleep at a gate at a time; of two, one might not be
//! woken.
//!
//! # States of `asleep`
//!
//! | from | to | by | access |
//! | --- | --- | --- | --- |
//! | `AWAKE` | `ASLEEP` | the sleeper, before its last poll; `arm` | swap, Release: publishes `owner` |
//! | `ASLEEP` | `AWAKE` | one waker, which then wakes `owner` | swap, AcqRel |
//! | `ASLEEP` | `AWAKE` | the sleeper, if its last poll found work | swap, Relaxed |
//! | `ASLEEP` | `AWAKE` | the sleeper, if its deadline has passed | swap, Acquire |
//!
//! # No wake is lost (I5)
//! Each side writes, fences, then reads what the other side wrote:
//!
//! ```text
//!   sleeper                                   waker
//!   owner = this thread                       publish work
//!   asleep = ASLEEP           (Release)       fence(SeqCst)
//!   fence(SeqCst)                             asleep == ASLEEP?            (Relaxed)
//!   poll()                                      no:  the sleeper polls later
//!     found:   asleep = AWAKE                   yes: asleep.swap(AWAKE)    (AcqRel)
//!     nothing: park while ASLEEP (Acquire)           unpark owner
//! ```
//! If the waker's fence comes first, the sleeper's poll finds the work; otherwise the waker reads
//! `ASLEEP`. While the sleeper is awake, a wake costs a fence and a load.
//!
//! The sleeper's Release swap pairs with the Acquire of the waker's swap: the waker wakes the owner
//! of this sleep. The Release of the waker's swap pairs with the sleeper's Acquire load: the work
//! is visible when the sleeper returns from parking.
//!
//! # Stepping in
//! [`Gate::wake_unless`] calls a function if the sleeper sleeps, and wakes the sleeper only if that
//! function returns `false`. So a waker can do the sleeper's work in its place, under the lock of
//! [`HandoffLock`](crate::handoff_lock::HandoffLock), whose protocol says why no work is left behind.
//!
//! Checked by the models in `loom-tests/tests/models/gate.rs`; the mutants `gate_*` remove each
//! fence and the last poll.

use crate::facade::atomic::{AtomicU32, Ordering, fence};
use crate::facade::thread;
use crate::facade::{Mutex, Spinner, lock};
use crate::wait::Waiter;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Parks one thread until another thread has work for it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gate {
    /// `ASLEEP` from before the sleeper's last poll until a waker or the sleeper itself resets it.
    asleep: AtomicU32,
    /// The waiter to wake. Written before `asleep` is set.
    owner: Mutex<Option<Waiter>>,
}

impl Gate {
    /// Creates a gate without a sleeper.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the calling thread as the sleeper. Going to sleep does so too.
    pub fn attach(&self) {
        *lock(&self.owner) = Some(Waiter::Thread(thread::current()));
    }

    /// Makes the next wake wake `waker`, once, as if it slept here. The caller looks for work once
    /// more afterwards and then leaves the gate to the waker. Do not call it on a gate at which a
    /// thread sleeps, nor with a foreign waker: it is cloned and dropped under the gate's lock.
    pub fn arm(&self, waker: &Waker) {
        *lock(&self.owner) = Some(Waiter::Own(waker.clone()));
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

    /// Wakes the sleeper if it sleeps and `instead` returns `false`. `instead` is called only if
    /// the sleeper sleeps; it returns `true` if it has done the sleeper's work, which then sleeps
    /// on.
    #[inline]
    pub fn wake_unless(&self, instead: impl FnOnce() -> bool) {
        // SeqCst: pairs with the fence in `sleep`. Here: publish, then read `asleep`; there: set
        // it, then poll.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.asleep.load(Ordering::Relaxed) != AWAKE && !instead() {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&self) {
        // AcqRel: Acquire pairs with the Release in `sleep`, so `owner` is that of this sleep;
        // Release publishes the work to the sleeper, which reads `asleep` with Acquire.
        if self.asleep.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            let owner = lock(&self.owner).clone();
            if let Some(owner) = owner {
                owner.wake();
            }
        }
    }

    /// Polls until `poll` returns a value: spins first, then sleeps. Blocks.
    #[inline]
    pub fn wait_until<R>(&self, spin: &mut Spinner, mut poll: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(found) = self.wait_until_deadline(spin, None, &mut poll) {
                return found;
            }
        }
    }

    /// Polls until `poll` returns a value or the deadline has passed. Blocks. In a model deadlines
    /// never pass.
    pub fn wait_until_deadline<R>(
        &self,
        spin: &mut Spinner,
        deadline: Option<Instant>,
        mut poll: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            if let Some(found) = spin.spin(&mut poll) {
                return Some(found);
            }
            if let Some(found) = self.sleep(spin, deadline, &mut poll) {
                return Some(found);
            }
            if deadline.is_some_and(thread::is_past) {
                return poll();
            }
        }
    }

    /// Sleeps once. Returns the last poll's value, or `None` if woken or past the deadline.
    fn sleep<R>(
        &self,
        spin: &mut Spinner,
        deadline: Option<Instant>,
        poll: &mut impl FnMut() -> Option<R>,
    ) -> Option<R> {
        self.attach();
        // Release: a waker that sees ASLEEP sees the owner. A swap, not a store: wakers swap it too.
        self.asleep.swap(ASLEEP, Ordering::Release);
        // SeqCst: pairs with the fence in `wake`.
        fence(Ordering::SeqCst);
        if let Some(found) = poll() {
            // Relaxed: only this thread depends on it.
            self.asleep.swap(AWAKE, Ordering::Relaxed);
            return Some(found);
        }
        let parked = spin.park_begins();
        // Acquire: pairs with the Release in `wake_sleeper`.
        while self.asleep.load(Ordering::Acquire) != AWAKE {
            if !thread::park_until(deadline) {
                // Acquire: a waker may have reset it first.
                self.asleep.swap(AWAKE, Ordering::Acquire);
            }
        }
        spin.park_ended(parked);
        None
    }
}

/// Lets a gate serve as a waker.
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
        let none: Option<()> = gate.wait_until_deadline(
            &mut Spinner::new(SpinPolicy::default()),
            Some(until),
            || None,
        );
        assert!(none.is_none() && Instant::now() >= until);
    }
}

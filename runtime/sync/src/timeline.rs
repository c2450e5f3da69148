//! A queue's published progress: "cursor c has completed" is one load.
//!
//! The publisher stores the cursor, fences, and reads `next_target`, the least cursor that anybody waits
//! for; a waiter enters its target, fences, and reads the cursor. One of the two sees the other, so nobody
//! waits for ever (I5), and publishing costs a store, a fence and a load while nobody waits.
//!
//! Who may do what: one publisher at a time; waiting, registering and ending from any thread.

use crate::facade::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::facade::{Mutex, Padded, SpinPolicy, Spinner, lock, thread};
use crate::wait::Waiter;
use std::fmt;
use std::task::Waker;
use std::time::Instant;
use waiters::Waiters;

pub use waiters::WaitKey;

mod waiters;

/// In `next_target`: nobody waits.
const NOBODY: u64 = u64::MAX;
/// How many are taken out of the list under one lock, to be woken after it.
const WAKES_PER_LOCK: usize = 8;

/// Nothing will be published any more, and the cursor waited for has not been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timeline has ended")
    }
}

impl std::error::Error for Ended {}

/// A queue's published progress.
pub struct Timeline {
    cursor: Padded<AtomicU64>,
    /// The least target in `waiters`, or `NOBODY`; written under their lock.
    next_target: AtomicU64,
    ended: AtomicBool,
    waiters: Mutex<Waiters>,
}

impl Timeline {
    /// At cursor 0, which has completed.
    pub fn new() -> Self {
        Self {
            cursor: Padded(AtomicU64::new(0)),
            next_target: AtomicU64::new(NOBODY),
            ended: AtomicBool::new(false),
            waiters: Mutex::new(Waiters::default()),
        }
    }

    /// The greatest cursor that has completed.
    #[inline]
    pub fn completed(&self) -> u64 {
        // Acquire: pairs with `publish`; what was done up to the cursor is seen.
        self.cursor.load(Ordering::Acquire)
    }

    /// Publishes progress and wakes those whose target is reached. One publisher at a time; a cursor that
    /// is not greater than the last one is ignored.
    #[inline]
    pub fn publish(&self, cursor: u64) {
        // Relaxed: the publisher's own store.
        if cursor <= self.cursor.load(Ordering::Relaxed) {
            return;
        }
        // Release: pairs with `completed`.
        self.cursor.store(cursor, Ordering::Release);
        // SeqCst: pairs with the fence in `register_waiter`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.next_target.load(Ordering::Relaxed) <= cursor {
            self.wake_up_to(cursor);
        }
    }

    /// Nothing will be published any more: everyone who waits is woken.
    pub fn end(&self) {
        // Release: pairs with `outcome`. No fence is needed: a waiter enters the list under the lock that
        // is taken next, and looks at `ended` afterwards.
        self.ended.store(true, Ordering::Release);
        self.wake_up_to(u64::MAX);
    }

    /// Whether nothing will be published any more.
    #[inline]
    pub fn has_ended(&self) -> bool {
        // Acquire: pairs with `end`; the last cursor is seen by whoever sees the end.
        self.ended.load(Ordering::Acquire)
    }

    #[cold]
    fn wake_up_to(&self, cursor: u64) {
        loop {
            let mut woken = [const { None }; WAKES_PER_LOCK];
            let mut waiters = lock(&self.waiters);
            for place in &mut woken {
                *place = waiters.pop_reached(cursor);
            }
            self.set_next_target(&waiters);
            drop(waiters);
            let full = woken[WAKES_PER_LOCK - 1].is_some();
            woken.into_iter().flatten().for_each(Waiter::wake);
            if !full {
                return;
            }
        }
    }

    fn set_next_target(&self, waiters: &Waiters) {
        // Relaxed: written under the lock; the publisher's look is ordered by fences.
        self.next_target
            .store(waiters.next_target().unwrap_or(NOBODY), Ordering::Relaxed);
    }

    /// What a wait for `cursor` would answer by now; `None`: it would wait. Never blocks.
    #[inline]
    pub fn look(&self, cursor: u64) -> Option<Result<(), Ended>> {
        if self.completed() >= cursor {
            return Some(Ok(()));
        }
        // The end first, then the cursor again: it may have been published just before the end.
        let ended = self.has_ended();
        if self.completed() >= cursor {
            return Some(Ok(()));
        }
        ended.then_some(Err(Ended))
    }

    /// Waits until the cursor has completed. Blocks.
    #[inline]
    pub fn wait(&self, cursor: u64, spin: &SpinPolicy) -> Result<(), Ended> {
        if self.completed() >= cursor {
            return Ok(());
        }
        self.wait_slow(cursor, *spin, None).unwrap_or(Err(Ended))
    }

    /// Waits until the cursor has completed or the deadline has passed (`None`). Blocks. In a model no
    /// deadline comes.
    pub fn wait_deadline(
        &self,
        cursor: u64,
        spin: &SpinPolicy,
        deadline: Instant,
    ) -> Option<Result<(), Ended>> {
        self.wait_slow(cursor, *spin, Some(deadline))
    }

    #[cold]
    fn wait_slow(
        &self,
        cursor: u64,
        spin: SpinPolicy,
        deadline: Option<Instant>,
    ) -> Option<Result<(), Ended>> {
        Spinner::of_thread(spin, |spin| {
            let outcome = spin.spin(&mut || self.look(cursor));
            if outcome.is_some() {
                return outcome;
            }
            let Some(key) = self.register_waiter(cursor, Waiter::Thread(thread::current())) else {
                return self.look(cursor);
            };
            let nap = spin.nap_begins();
            let mut outcome = self.look(cursor);
            while outcome.is_none() && thread::park_until(deadline) {
                outcome = self.look(cursor);
            }
            spin.nap_ended(nap);
            self.cancel(key);
            outcome
        })
    }

    /// Leaves a waker to be woken once when the cursor completes or the timeline ends. `None`: that is so
    /// already, and the waker is neither kept nor woken.
    pub fn register(&self, cursor: u64, waker: &Waker) -> Option<WaitKey> {
        if self.look(cursor).is_some() {
            return None;
        }
        self.register_waiter(cursor, Waiter::Task(waker.clone()))
    }

    /// Wakes a waiter once the cursor completes or the timeline ends, at once if that is so already.
    pub(crate) fn wake_at(&self, cursor: u64, waiter: Waiter) {
        let kept = match self.look(cursor) {
            Some(_) => None,
            None => self.register_waiter(cursor, waiter.clone()),
        };
        if kept.is_none() {
            waiter.wake();
        }
    }

    fn register_waiter(&self, cursor: u64, waiter: Waiter) -> Option<WaitKey> {
        let mut waiters = lock(&self.waiters);
        let key = waiters.insert(cursor, waiter);
        self.set_next_target(&waiters);
        drop(waiters);
        // SeqCst: pairs with the fence in `publish`.
        fence(Ordering::SeqCst);
        // Who publishes meanwhile may have taken it out to be woken; then it is kept, as far as anybody can tell.
        let is_kept = self.look(cursor).is_none() || !self.cancel(key);
        is_kept.then_some(key)
    }

    /// Replaces a waker that has not been woken yet. False: it has been woken, look again.
    pub fn replace(&self, key: WaitKey, waker: &Waker) -> bool {
        // Foreign code, cloning and dropping alike: before the lock and after it.
        let mut waiter = Waiter::Task(waker.clone());
        let mut waiters = lock(&self.waiters);
        let Some(place) = waiters.get_mut(key) else {
            return false;
        };
        std::mem::swap(place, &mut waiter);
        drop(waiters);
        drop(waiter);
        true
    }

    /// Removes a waker that has not been woken yet. False: it has been.
    pub fn cancel(&self, key: WaitKey) -> bool {
        let mut waiters = lock(&self.waiters);
        let removed = waiters.remove(key);
        self.set_next_target(&waiters);
        drop(waiters);
        // A waker is foreign code, its drop too: after the lock.
        removed.is_some()
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Timeline");
        out.field("completed", &self.completed())
            .field("ended", &self.has_ended());
        out.finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "timeline_tests.rs"]
mod tests;

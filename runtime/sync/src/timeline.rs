//! A queue's published progress: "cursor c has completed" is one load.
//!
//! One thread at a time publishes; any thread may wait, register wakers and end the timeline.
//!
//! # State
//! `cursor` only grows. `ended` is set once. `next_target` is the least cursor in the list of
//! waiters, or `NO_TARGET`; it is written under the list's lock, so that a publisher decides with
//! one load whether to take the lock. While no thread waits, a publication costs a store, a fence
//! and a load.
//!
//! # No wake is lost (I5)
//! Each side writes, fences, then reads what the other side wrote:
//!
//! ```text
//!   waiter for cursor t                         publisher of cursor c
//!   insert t, next_target = least               cursor = c               (Release)
//!   fence(SeqCst)                               fence(SeqCst)
//!   cursor >= t?                (Acquire)       next_target <= c?        (Relaxed)
//!     yes: cancel its entry, done                 yes: remove waiters up to c, wake them
//!     no:  park                                   no:  done
//! ```
//! If the publisher's fence comes first, the waiter reads the new cursor; otherwise the publisher
//! reads the target. The Release of the cursor pairs with the Acquire in `completed`: a thread that
//! reads the cursor sees what was done up to it.
//!
//! The end needs no fence: [`Timeline::end`] sets `ended` (Release), then takes the lock and wakes
//! the list. A waiter that is not in the list by then enters it under that lock later, and reads
//! `ended` afterwards.
//!
//! Checked by the models in `loom-tests/tests/models/timeline.rs`; the mutants `timeline_*` remove
//! the orderings of the cursor, each fence and the wake of the end.

use crate::facade::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::facade::{Mutex, Padded, SpinPolicy, Spinner, lock, thread};
use crate::wait::Waiter;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use std::time::Instant;

/// In `next_target`: no thread waits.
const NO_TARGET: u64 = u64::MAX;
/// The number of waiters that are removed under one lock, to be woken after it.
const WAKES_PER_LOCK: usize = 8;
/// The number of waiters whose memory is kept once none waits.
const WAITERS_KEPT: usize = 1_024;

/// The timeline ended before the cursor completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ended;

/// A registered waker of a timeline, to be cancelled or replaced. Of equal targets, the first to register is woken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "cancel the registration when it is no longer needed"]
pub struct WaitKey {
    target: u64,
    /// Unique and ascending.
    ticket: u64,
    slot: usize,
}

/// The waiters. The memory of a few of them is kept, so in the steady state nothing is allocated (I9).
#[derive(Default)]
struct Waiters {
    next_ticket: u64,
    /// With their tickets.
    list: Slab<(u64, Waiter)>,
    /// The order in which they are woken. Has keys of cancelled waiters too, at most one more than others (I12).
    order: BinaryHeap<Reverse<WaitKey>>,
}

impl Waiters {
    fn insert(&mut self, target: u64, waiter: Waiter) -> WaitKey {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let slot = self.list.insert((ticket, waiter));
        let key = WaitKey {
            target,
            ticket,
            slot,
        };
        self.order.push(Reverse(key));
        key
    }

    /// Returns a waiter that was neither woken nor cancelled.
    fn get_mut(&mut self, key: WaitKey) -> Option<&mut Waiter> {
        let (ticket, waiter) = self.list.get_mut(key.slot)?;
        (*ticket == key.ticket).then_some(waiter)
    }

    /// Removes a waiter that was neither woken nor cancelled.
    fn remove(&mut self, key: WaitKey) -> Option<Waiter> {
        self.get_mut(key)?;
        let (_, waiter) = self.list.remove(key.slot);
        if self.list.is_empty() && self.list.capacity() > WAITERS_KEPT {
            (self.list, self.order) = Default::default();
        } else if self.order.len() / 2 > self.list.len() {
            let list = &self.list;
            let waits = |Reverse(key): &Reverse<WaitKey>| {
                list.get(key.slot).is_some_and(|(it, _)| *it == key.ticket)
            };
            self.order.retain(waits);
        }
        Some(waiter)
    }

    /// Returns the key of the next waiter to wake.
    fn first(&mut self) -> Option<WaitKey> {
        loop {
            let Reverse(key) = *self.order.peek()?;
            if self.get_mut(key).is_some() {
                return Some(key);
            }
            self.order.pop();
        }
    }

    /// Removes the next waiter to wake, if its target is reached.
    fn pop_reached(&mut self, cursor: u64) -> Option<Waiter> {
        let key = self.first().filter(|key| key.target <= cursor)?;
        self.order.pop();
        self.remove(key)
    }
}

/// A queue's published progress.
pub struct Timeline {
    cursor: Padded<AtomicU64>,
    /// The least target in `waiters`, or `NO_TARGET`; written under their lock.
    next_target: AtomicU64,
    ended: AtomicBool,
    waiters: Mutex<Waiters>,
}

impl Timeline {
    /// Creates a timeline at cursor 0, which has completed.
    pub fn new() -> Self {
        Self {
            cursor: Padded(AtomicU64::new(0)),
            next_target: AtomicU64::new(NO_TARGET),
            ended: AtomicBool::new(false),
            waiters: Mutex::new(Waiters::default()),
        }
    }

    /// Returns the greatest cursor that has completed.
    #[inline]
    pub fn completed(&self) -> u64 {
        // Acquire: pairs with `publish`; what was done up to the cursor is visible.
        self.cursor.load(Ordering::Acquire)
    }

    /// Publishes progress and wakes the waiters whose target is reached. One publisher at a time.
    /// Ignores a cursor that is not greater than the last one.
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

    /// Ends the timeline: no cursor will be published any more. Wakes all waiters.
    pub fn end(&self) {
        // Release: pairs with `has_ended`. No fence is needed: a waiter enters the list under the
        // lock that is taken next, and reads `ended` afterwards.
        self.ended.store(true, Ordering::Release);
        self.wake_up_to(u64::MAX);
    }

    /// Returns `true` if the timeline has ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        // Acquire: pairs with `end`; a thread that sees the end sees the last cursor.
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
            self.set_next_target(&mut waiters);
            drop(waiters);
            let full = woken[WAKES_PER_LOCK - 1].is_some();
            woken.into_iter().flatten().for_each(Waiter::wake);
            if !full {
                return;
            }
        }
    }

    fn set_next_target(&self, waiters: &mut Waiters) {
        let target = waiters.first().map_or(NO_TARGET, |key| key.target);
        // Relaxed: written under the lock; the publisher's load is ordered by fences.
        self.next_target.store(target, Ordering::Relaxed);
    }

    /// Returns the result of a wait for `cursor`, or `None` if it would block. Never blocks.
    #[inline]
    pub fn look(&self, cursor: u64) -> Option<Result<(), Ended>> {
        if self.completed() >= cursor {
            return Some(Ok(()));
        }
        // `ended` first, then the cursor again: it may have been published just before the end.
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
        self.wait_until(cursor, spin, None).unwrap_or(Err(Ended))
    }

    /// Waits until the cursor has completed or the deadline, if any, has passed (`None`). Blocks. In a
    /// model deadlines never pass.
    #[cold]
    pub fn wait_until(
        &self,
        cursor: u64,
        spin: &SpinPolicy,
        deadline: Option<Instant>,
    ) -> Option<Result<(), Ended>> {
        Spinner::of_thread(*spin, |spin| {
            let outcome = spin.spin(&mut || self.look(cursor));
            if outcome.is_some() {
                return outcome;
            }
            let Some(key) = self.register_waiter(cursor, Waiter::Thread(thread::current())) else {
                return self.look(cursor);
            };
            let parked = spin.park_begins();
            let mut outcome = self.look(cursor);
            while outcome.is_none() && thread::park_until(deadline) {
                outcome = self.look(cursor);
            }
            spin.park_ended(parked);
            self.cancel(key);
            outcome
        })
    }

    /// Registers a waker, to be woken once when the cursor completes or the timeline ends. `None`
    /// if that is the case already; the waker is then neither kept nor woken.
    pub fn register(&self, cursor: u64, waker: &Waker) -> Option<WaitKey> {
        if self.look(cursor).is_some() {
            return None;
        }
        self.register_waiter(cursor, Waiter::Task(waker.clone()))
    }

    /// As [`Timeline::register`], for a waker of the runtime itself: it only unparks a thread, so a
    /// thread inside a device wakes it at once ([`deferred_wakes`](crate::deferred_wakes)).
    pub fn register_own(&self, cursor: u64, waker: &Waker) -> Option<WaitKey> {
        if self.look(cursor).is_some() {
            return None;
        }
        self.register_waiter(cursor, Waiter::Own(waker.clone()))
    }

    /// Wakes a waiter once the cursor completes or the timeline ends; at once if that is the case already.
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
        self.set_next_target(&mut waiters);
        drop(waiters);
        // SeqCst: pairs with the fence in `publish`.
        fence(Ordering::SeqCst);
        // A publisher may have removed the waiter to wake it; then the wake comes, and it counts as
        // registered.
        let is_kept = self.look(cursor).is_none() || !self.cancel(key);
        is_kept.then_some(key)
    }

    /// Replaces a waker. Returns `false` if it has been woken already; the caller then looks again.
    pub fn replace(&self, key: WaitKey, waker: &Waker) -> bool {
        // Cloning and dropping a waker run foreign code: before the lock and after it.
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

    /// Removes a waker. Returns `false` if it has been woken already.
    pub fn cancel(&self, key: WaitKey) -> bool {
        let mut waiters = lock(&self.waiters);
        let removed = waiters.remove(key);
        self.set_next_target(&mut waiters);
        drop(waiters);
        // Dropping a waker runs foreign code: after the lock.
        removed.is_some()
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "timeline_tests.rs"]
mod tests;

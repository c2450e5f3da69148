//! A one-shot channel: one value, one waiter. Dropping the sender is an answer too (I5).
//!
//! # States
//!
//! ```text
//!            register            send / drop
//!   EMPTY ------------> WAITING ------------> FULL / CLOSED   (terminal)
//!     ^  <--- unregister --+                     ^
//!     +------------------ send / drop -----------+
//! ```
//! `value` belongs to the sender until FULL, then to the receiver. `waiter` belongs to the receiver
//! in EMPTY. In WAITING it belongs to the side that leaves the state: the sender by its one swap,
//! or the receiver, which goes back to EMPTY to change its waker. Both sides share one allocation.
//!
//! # Orderings
//!
//! ```text
//!   receiver                                    sender
//!   waiter = this thread                        value = v
//!   EMPTY -> WAITING          (Release)         swap(FULL)              (AcqRel)
//!     failed, FULL: take      (Acquire)           was WAITING: take the waiter, wake it
//!   park until FULL           (Acquire)
//!   take the value
//! ```
//! The Release of `announce` pairs with the Acquire of the swap: the sender sees the waiter. The
//! Release of the swap pairs with the receiver's Acquire: it sees the value. Both sides change one
//! word, so no wake is lost: the swap comes before the announcement, which then fails, or reads
//! WAITING.
//!
//! Checked by the models in `loom-tests/tests/models/reply.rs`; the mutants `reply_*` remove each
//! ordering, the answer of a dropped sender and the return to EMPTY.

use crate::facade::atomic::{AtomicU32, Ordering};
use crate::facade::cell::UnsafeCell;
use crate::facade::{Arc, SpinPolicy, Spinner, thread};
use crate::timeline::Timeline;
use crate::wait::Waiter;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const FULL: u32 = 2;
const CLOSED: u32 = 3;

/// There is no answer: the sender was dropped, or the answer has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed;

struct Cell<T> {
    state: AtomicU32,
    value: UnsafeCell<Option<T>>,
    waiter: UnsafeCell<Option<Waiter>>,
}

// SAFETY: the value moves from the sender to the receiver, which `T: Send` allows; the state says
// which side may access which cell (see the head of the module).
unsafe impl<T: Send> Send for Cell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Cell<T> {}

/// Sends the answer, once.
pub struct ReplySender<T> {
    cell: Arc<Cell<T>>,
    sent: bool,
}

/// Receives the answer.
pub struct ReplyReceiver<T> {
    cell: Arc<Cell<T>>,
    taken: bool,
}

/// Creates both sides with one allocation.
pub fn reply<T>() -> (ReplySender<T>, ReplyReceiver<T>) {
    let cell = Arc::new(Cell {
        state: AtomicU32::new(EMPTY),
        value: UnsafeCell::new(None),
        waiter: UnsafeCell::new(None),
    });
    (
        ReplySender {
            cell: cell.clone(),
            sent: false,
        },
        ReplyReceiver { cell, taken: false },
    )
}

impl<T> Cell<T> {
    /// Ends the exchange: `end` is FULL or CLOSED. Returns the waiter, to be woken.
    #[inline]
    #[must_use]
    fn finish(&self, end: u32) -> Option<Waiter> {
        // AcqRel: Release publishes the value; Acquire pairs with the Release in `announce`, which
        // published the waiter.
        if self.state.swap(end, Ordering::AcqRel) != WAITING {
            return None;
        }
        // SAFETY: this swap moved the state out of WAITING, so the waiter is the sender's.
        self.waiter.with_mut(|waiter| unsafe { (*waiter).take() })
    }

    #[inline]
    fn is_finished(&self) -> bool {
        // Acquire: pairs with `finish`.
        self.state.load(Ordering::Acquire) >= FULL
    }

    /// Registers a waiter. Returns `false` if the exchange has ended meanwhile; it will not be woken then.
    #[must_use]
    fn register(&self, waiter: Waiter) -> bool {
        if !self.unregister() {
            return false;
        }
        // SAFETY: the state is EMPTY, so the waiter is the receiver's.
        let old = self
            .waiter
            .with_mut(|slot| unsafe { (*slot).replace(waiter) });
        drop(old);
        self.announce()
    }

    #[must_use]
    fn announce(&self) -> bool {
        // Release: publishes the waiter. Acquire on failure: pairs with `finish`.
        let (won, lost) = (Ordering::Release, Ordering::Acquire);
        match self.state.compare_exchange(EMPTY, WAITING, won, lost) {
            Ok(_) => true,
            Err(state) => state < FULL,
        }
    }

    /// Takes the waiter back, so that it may be changed. Returns `false` if the exchange has ended.
    #[must_use]
    fn unregister(&self) -> bool {
        // Relaxed on success: this side wrote the waiter. Acquire on failure: pairs with `finish`.
        let (won, lost) = (Ordering::Relaxed, Ordering::Acquire);
        match self.state.compare_exchange(WAITING, EMPTY, won, lost) {
            Ok(_) => true,
            Err(state) => state < FULL,
        }
    }

    /// Takes the value after the end of the exchange.
    fn take(&self) -> Result<T, Closed> {
        // Acquire: pairs with `finish`.
        if self.state.load(Ordering::Acquire) != FULL {
            return Err(Closed);
        }
        // SAFETY: FULL, so the value is the receiver's, and there is one receiver.
        self.value
            .with_mut(|value| unsafe { (*value).take() })
            .ok_or(Closed)
    }
}

impl<T> ReplySender<T> {
    /// Sends the answer and wakes the waiter.
    #[inline]
    pub fn send(self, value: T) {
        if let Some(waiter) = self.fill(value) {
            waiter.wake();
        }
    }

    /// Sends an answer that is useful only once `cursor` has completed. A parked thread is woken
    /// then and not before, so that it parks once. A task is woken now, since it may use the answer
    /// alone.
    pub fn send_for(self, value: T, timeline: &Timeline, cursor: u64) {
        match self.fill(value) {
            None => {}
            Some(thread @ Waiter::Thread(_)) => timeline.wake_at(cursor, thread),
            Some(task) => task.wake(),
        }
    }

    #[inline]
    #[must_use]
    fn fill(mut self, value: T) -> Option<Waiter> {
        self.sent = true;
        // SAFETY: before FULL the value is the sender's, and there is one sender.
        self.cell
            .value
            .with_mut(|slot| unsafe { *slot = Some(value) });
        self.cell.finish(FULL)
    }
}

impl<T> Drop for ReplySender<T> {
    fn drop(&mut self) {
        if !self.sent
            && let Some(waiter) = self.cell.finish(CLOSED)
        {
            waiter.wake();
        }
    }
}

impl<T> ReplyReceiver<T> {
    /// Returns `true` if [`Self::try_take`] would return an answer.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.taken || self.cell.is_finished()
    }

    /// Returns the answer if there is one; [`Closed`] after it has been taken.
    #[inline]
    pub fn try_take(&mut self) -> Option<Result<T, Closed>> {
        self.is_ready().then(|| self.take())
    }

    fn take(&mut self) -> Result<T, Closed> {
        if std::mem::replace(&mut self.taken, true) {
            return Err(Closed);
        }
        self.cell.take()
    }

    /// Returns the answer; blocks until there is one.
    pub fn wait(&mut self, spin: &SpinPolicy) -> Result<T, Closed> {
        self.wait_until(spin, None).unwrap_or(Err(Closed))
    }

    /// Returns the answer; blocks until there is one or the deadline, if any, has passed (`None`). In
    /// a model deadlines never pass.
    pub fn wait_until(
        &mut self,
        spin: &SpinPolicy,
        deadline: Option<Instant>,
    ) -> Option<Result<T, Closed>> {
        if !self.is_ready() {
            let cell = &*self.cell;
            Spinner::of_thread(*spin, |spin| {
                let ready = spin.spin(&mut || cell.is_finished().then_some(()));
                if ready.is_none() && cell.register(Waiter::Thread(thread::current())) {
                    let parked = spin.park_begins();
                    while !cell.is_finished() && thread::park_until(deadline) {}
                    spin.park_ended(parked);
                }
            });
            if deadline.is_some() && cell.unregister() {
                return None;
            }
        }
        Some(self.take())
    }

    /// Returns the answer, or registers the task's waker and returns `Pending`; only the last waker
    /// is woken.
    pub fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        if !self.is_ready() && self.cell.register(Waiter::Task(context.waker().clone())) {
            return Poll::Pending;
        }
        Poll::Ready(self.take())
    }
}

impl<T> Future for ReplyReceiver<T> {
    type Output = Result<T, Closed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_take(context)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "reply_tests.rs"]
mod tests;

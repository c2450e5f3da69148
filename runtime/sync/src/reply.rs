//! One value, one waiter: the answer to an ask. Dropping the sender is an answer too (I5).
//!
//! ```text
//!            register            send / drop
//!   EMPTY ------------> WAITING ------------> FULL / CLOSED   (terminal)
//!     ^  <--- unregister --+                     ^
//!     +------------------ send / drop -----------+
//! ```
//! `value` is the sender's until FULL, then the receiver's. `waiter` is the receiver's in EMPTY; whoever
//! moves the state out of WAITING owns it: the sender by its one swap, or the receiver, which goes back to
//! EMPTY to change its waker. One allocation, shared by both sides.

use crate::facade::atomic::{AtomicU32, Ordering};
use crate::facade::cell::UnsafeCell;
use crate::facade::{Arc, SpinPolicy, Spinner, thread};
use crate::timeline::Timeline;
use crate::wait::Waiter;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const FULL: u32 = 2;
const CLOSED: u32 = 3;

/// No answer comes: the sender was dropped, or the answer has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer comes")
    }
}

impl std::error::Error for Closed {}

struct Cell<T> {
    state: AtomicU32,
    value: UnsafeCell<Option<T>>,
    waiter: UnsafeCell<Option<Waiter>>,
}

// SAFETY: the value moves from the sender to the receiver, which `T: Send` allows; the state says who may
// touch which cell when (see the file's head).
unsafe impl<T: Send> Send for Cell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Cell<T> {}

/// Answers, once.
pub struct ReplySender<T> {
    cell: Arc<Cell<T>>,
    sent: bool,
}

/// Waits for the answer.
pub struct ReplyReceiver<T> {
    cell: Arc<Cell<T>>,
    taken: bool,
}

/// Makes both sides, with one allocation.
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
    /// The sender's last word: FULL or CLOSED. Whoever waits is to be woken.
    #[inline]
    #[must_use]
    fn finish(&self, end: u32) -> Option<Waiter> {
        // AcqRel: Release hands the value over; Acquire takes the waiter that WAITING announced.
        if self.state.swap(end, Ordering::AcqRel) != WAITING {
            return None;
        }
        // SAFETY: this swap took the state out of WAITING, so the waiter is the sender's.
        self.waiter.with_mut(|waiter| unsafe { (*waiter).take() })
    }

    #[inline]
    fn is_finished(&self) -> bool {
        // Acquire: pairs with `finish`.
        self.state.load(Ordering::Acquire) >= FULL
    }

    /// Leaves somebody to be woken. False: finished meanwhile, nobody will be.
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
        // Release: hands the waiter over. Acquire on failure: pairs with `finish`.
        let (won, lost) = (Ordering::Release, Ordering::Acquire);
        match self.state.compare_exchange(EMPTY, WAITING, won, lost) {
            Ok(_) => true,
            Err(state) => state < FULL,
        }
    }

    /// Takes the waiter back, so that it may be changed. False: finished meanwhile.
    #[must_use]
    fn unregister(&self) -> bool {
        // Relaxed on success: the waiter was written by this side. Acquire on failure: pairs with `finish`.
        let (won, lost) = (Ordering::Relaxed, Ordering::Acquire);
        match self.state.compare_exchange(WAITING, EMPTY, won, lost) {
            Ok(_) => true,
            Err(state) => state < FULL,
        }
    }

    /// Takes the answer of a finished cell.
    fn take(&self) -> Result<T, Closed> {
        // Acquire: pairs with `finish`.
        if self.state.load(Ordering::Acquire) != FULL {
            return Err(Closed);
        }
        // SAFETY: FULL, so the value is the receiver's, of which there is one.
        self.value
            .with_mut(|value| unsafe { (*value).take() })
            .ok_or(Closed)
    }
}

impl<T> ReplySender<T> {
    /// Answers, and wakes whoever waits.
    #[inline]
    pub fn send(self, value: T) {
        if let Some(waiter) = self.fill(value) {
            waiter.wake();
        }
    }

    /// Answers with what is of use once `cursor` has completed. A thread that is parked for the answer is woken then, and not before:
    /// it parks once. A task is woken now, as it may have something to do with the answer alone.
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
        // SAFETY: before FULL the value is the sender's, of which there is one.
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
    /// Whether [`Self::try_take`] would answer.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.taken || self.cell.is_finished()
    }

    /// The answer, if it is there. After it has been taken: `Closed`.
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

    /// The answer; blocks until it comes.
    pub fn wait(&mut self, spin: &SpinPolicy) -> Result<T, Closed> {
        self.wait_some(spin, None).unwrap_or(Err(Closed))
    }

    /// The answer; blocks until it comes or the deadline has passed (`None`). In a model no deadline comes.
    pub fn wait_deadline(
        &mut self,
        spin: &SpinPolicy,
        deadline: Instant,
    ) -> Option<Result<T, Closed>> {
        self.wait_some(spin, Some(deadline))
    }

    fn wait_some(
        &mut self,
        spin: &SpinPolicy,
        deadline: Option<Instant>,
    ) -> Option<Result<T, Closed>> {
        if !self.is_ready() {
            let cell = &*self.cell;
            Spinner::of_thread(*spin, |spin| {
                let ready = spin.spin(&mut || cell.is_finished().then_some(()));
                if ready.is_none() && cell.register(Waiter::Thread(thread::current())) {
                    let nap = spin.nap_begins();
                    while !cell.is_finished() && thread::park_until(deadline) {}
                    spin.nap_ended(nap);
                }
            });
            if deadline.is_some() && cell.unregister() {
                return None;
            }
        }
        Some(self.take())
    }

    /// The answer, or `Pending` with the waker kept; only the last waker is woken.
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

impl<T> fmt::Debug for ReplySender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplySender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ReplyReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ReplyReceiver");
        out.field("ready", &self.is_ready()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "reply_tests.rs"]
mod tests;

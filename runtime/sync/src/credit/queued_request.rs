//! [`QueuedRequest`]: a request for credit by a caller that waits by polling.

use super::Ticket;
use super::{AcquireError, Credit, Entered};
use crate::facade::lock;
use crate::wait::Waiter;
use std::ops::Deref;
use std::task::{Poll, Waker};

/// A place in the queue of a budget. Dropping it leaves the queue, and releases the credit if it
/// was granted meanwhile.
#[derive(Debug)]
pub struct QueuedRequest<C: Deref<Target = Credit>> {
    credit: C,
    amount: u64,
    is_ahead: bool,
    /// While the request is in the queue, or granted and not yet polled.
    ticket: Option<Ticket>,
}

impl<C: Deref<Target = Credit>> QueuedRequest<C> {
    /// Creates a place for `amount` of `credit`, for a caller that waits by polling. It enters the
    /// queue at its first poll.
    pub fn new(credit: C, amount: u64) -> Self {
        Self {
            credit,
            amount,
            is_ahead: false,
            ticket: None,
        }
    }

    /// Makes the request wait ahead of others if `is_ahead`: see the module [`credit`](super).
    #[must_use]
    pub fn ahead_if(mut self, is_ahead: bool) -> Self {
        self.is_ahead = is_ahead;
        self
    }

    /// Ready once the caller has the credit, or an error; otherwise registers `waker`. Never blocks.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        self.poll_with(|| Some(Waiter::Task(waker.clone())))
    }

    /// As [`poll`](Self::poll), but the waker of an earlier poll stays. Never blocks.
    pub fn look(&mut self) -> Poll<Result<(), AcquireError>> {
        self.poll_with(|| None)
    }

    /// Enters the queue, or reads the state of its request there.
    pub(super) fn poll_with(
        &mut self,
        waiter: impl FnOnce() -> Option<Waiter>,
    ) -> Poll<Result<(), AcquireError>> {
        if let Err(error) = self.credit.check(self.amount) {
            return Poll::Ready(Err(error));
        }
        let waiter = waiter();
        let Some(ticket) = self.ticket else {
            return match self.credit.enter((self.amount, self.is_ahead), waiter) {
                Entered::Granted => Poll::Ready(Ok(())),
                Entered::Ended => Poll::Ready(Err(AcquireError::Ended)),
                Entered::Waiting(ticket) => {
                    self.ticket = Some(ticket);
                    Poll::Pending
                }
            };
        };
        let mut queue = lock(&self.credit.queue);
        let Some(request) = queue.requests.get_mut(&ticket) else {
            self.ticket = None; // granted: it was removed
            return Poll::Ready(Ok(()));
        };
        if self.credit.has_ended() {
            drop(queue);
            self.leave();
            return Poll::Ready(Err(AcquireError::Ended));
        }
        let old = waiter.and_then(|waiter| request.waiter.replace(waiter));
        drop(queue);
        drop(old);
        Poll::Pending
    }

    /// Leaves the queue and grants those behind; releases the credit if it was granted already.
    fn leave(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let left = lock(&self.credit.queue).requests.remove(&ticket);
        match left {
            // Those behind may need less.
            Some(_) => self.credit.grant(),
            None => self.credit.release(self.amount),
        }
    }
}

impl<C: Deref<Target = Credit>> Drop for QueuedRequest<C> {
    fn drop(&mut self) {
        self.leave();
    }
}

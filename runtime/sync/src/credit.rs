//! A bounded budget in flight, of tasks or bytes (I12); first come, first served.
//!
//! One word holds what is in use and whether somebody waits. While nobody waits, acquiring is one
//! compare-and-swap and releasing one subtraction. Once somebody waits, all others queue up behind, so that
//! small requests do not starve a large one. Whoever releases grants on behalf of the waiters, in their
//! order and for as long as the room lasts: a woken waiter already has what it asked for.
//!
//! No wake is lost: a waiter sets WAITED_FOR by an exchange that proves that there was no room, and a
//! release that comes later sees it in the same word.

use crate::facade::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::facade::thread;
use crate::facade::{Mutex, Padded, SpinPolicy, Spinner, lock};
use crate::wait::Waiter;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::task::{Poll, Waker};
use std::time::Instant;

/// In `state`: somebody waits. The bits above count what is in use.
const WAITED_FOR: u64 = 1;
const ONE: u64 = 2;
/// The greatest budget.
const LIMIT_MAX: u64 = u64::MAX / ONE;

/// There is no room at the moment, or others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// In use at the moment.
    pub in_use: u64,
    /// The budget.
    pub limit: u64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} are in use", self.in_use, self.limit)
    }
}

impl std::error::Error for Exceeded {}

/// Why a wait for credit brought none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// The budget has ended: nobody waits any more.
    Ended,
    /// More than the whole budget was asked for.
    TooLarge {
        /// What was asked for.
        asked: u64,
        /// The budget.
        limit: u64,
    },
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the budget has ended"),
            Self::TooLarge { asked, limit } => {
                write!(f, "asked for {asked} of a budget of {limit}")
            }
        }
    }
}

impl std::error::Error for AcquireError {}

/// A bounded budget.
pub struct Credit {
    state: Padded<AtomicU64>,
    limit: u64,
    ended: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    next_ticket: u64,
    /// Those who wait. Being granted means being taken out.
    waiting: VecDeque<Request>,
}

struct Request {
    ticket: u64,
    amount: u64,
    /// `None` once the end has woken it.
    waiter: Option<Waiter>,
}

impl Queue {
    fn place(&self, ticket: u64) -> Option<usize> {
        self.waiting
            .iter()
            .position(|request| request.ticket == ticket)
    }
}

/// How entering the queue went.
enum Entered {
    Granted,
    Ended,
    Waiting(u64),
}

impl Credit {
    /// A budget of `limit`.
    pub fn new(limit: u64) -> Self {
        Self {
            state: Padded(AtomicU64::new(0)),
            limit: limit.min(LIMIT_MAX),
            ended: AtomicBool::new(false),
            queue: Mutex::new(Queue::default()),
        }
    }

    /// In use at the moment.
    #[inline]
    pub fn in_use(&self) -> u64 {
        // Relaxed: a figure.
        self.state.load(Ordering::Relaxed) / ONE
    }

    /// The budget.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn fits(&self, state: u64, amount: u64) -> bool {
        amount <= self.limit.saturating_sub(state / ONE)
    }

    /// Takes `amount` without waiting. Fails also while others wait, whose turn is first. It goes on
    /// counting after [`Self::end`].
    #[inline]
    pub fn try_acquire(&self, amount: u64) -> Result<(), Exceeded> {
        self.take(amount, |state| {
            state & WAITED_FOR == 0 && self.fits(state, amount)
        })
    }

    /// Takes `amount` without waiting, as long as no more than `headroom` beyond the limit is in use then: for a caller that
    /// cannot wait. It goes before those who wait, who get nothing until less than the limit is in use.
    pub fn try_acquire_beyond(&self, amount: u64, headroom: u64) -> Result<(), Exceeded> {
        let limit = self.limit.saturating_add(headroom).min(LIMIT_MAX);
        self.take(amount, |state| amount <= limit.saturating_sub(state / ONE))
    }

    /// Takes `amount` where `may` says so of the state.
    #[inline]
    fn take(&self, amount: u64, may: impl Fn(u64) -> bool) -> Result<(), Exceeded> {
        // Relaxed: a guess for the exchange.
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if !may(state) {
                return Err(Exceeded {
                    in_use: state / ONE,
                    limit: self.limit,
                });
            }
            // WAITED_FOR stays as it is.
            let next = state + amount * ONE;
            // Acquire: what was done before the room was given back comes before what is done with it.
            let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, next, won, lost) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
    }

    /// Takes `amount`; may block until there is room. Asking for more than the budget fails at once.
    #[inline]
    pub fn acquire(&self, amount: u64, spin: &SpinPolicy) -> Result<(), AcquireError> {
        match self.try_acquire(amount) {
            Ok(()) => Ok(()),
            // Without a deadline there is always an answer.
            Err(_) => self
                .acquire_slow(amount, *spin, None)
                .unwrap_or(Err(AcquireError::Ended)),
        }
    }

    /// Takes `amount`; blocks until there is room or the deadline has passed (`None`). In a model no
    /// deadline comes.
    pub fn acquire_deadline(
        &self,
        amount: u64,
        spin: &SpinPolicy,
        deadline: Instant,
    ) -> Option<Result<(), AcquireError>> {
        match self.try_acquire(amount) {
            Ok(()) => Some(Ok(())),
            Err(_) => self.acquire_slow(amount, *spin, Some(deadline)),
        }
    }

    #[cold]
    fn acquire_slow(
        &self,
        amount: u64,
        spin: SpinPolicy,
        deadline: Option<Instant>,
    ) -> Option<Result<(), AcquireError>> {
        if let Err(error) = self.check(amount) {
            return Some(Err(error));
        }
        Spinner::of_thread(spin, |spin| {
            if spin.spin(&mut || self.try_acquire(amount).ok()).is_some() {
                return Some(Ok(()));
            }
            let mut place = self.place(amount);
            let mut look = || place.look(|| Waiter::Thread(thread::current()));
            let nap = spin.nap_begins();
            let mut in_time = true;
            let outcome = loop {
                match look() {
                    Poll::Ready(outcome) => break Some(outcome),
                    Poll::Pending if !in_time => break None,
                    Poll::Pending => in_time = thread::park_until(deadline),
                }
            };
            spin.nap_ended(nap);
            outcome
        })
    }

    /// More than the budget is never there.
    fn check(&self, amount: u64) -> Result<(), AcquireError> {
        let (asked, limit) = (amount, self.limit);
        match asked > limit {
            true => Err(AcquireError::TooLarge { asked, limit }),
            false => Ok(()),
        }
    }

    /// A place in the queue for `amount`, for who waits by polling. It is taken by the first poll.
    pub fn place(&self, amount: u64) -> Place<&Self> {
        Place::new(self, amount)
    }

    /// Whether nobody waits any more.
    pub fn has_ended(&self) -> bool {
        // Acquire: pairs with `end`.
        self.ended.load(Ordering::Acquire)
    }

    fn enter(&self, amount: u64, waiter: Waiter) -> Entered {
        let mut queue = lock(&self.queue);
        if self.has_ended() {
            return Entered::Ended;
        }
        // Relaxed: a guess for the exchange.
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let has_room = queue.waiting.is_empty() && self.fits(state, amount);
            let next = if has_room {
                state + amount * ONE
            } else {
                state | WAITED_FOR
            };
            // Acquire: as in `try_acquire`.
            let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, next, won, lost) {
                Ok(_) if has_room => return Entered::Granted,
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push_back(Request {
            ticket,
            amount,
            waiter: Some(waiter),
        });
        Entered::Waiting(ticket)
    }

    /// Gives `amount` back, and grants those who wait and now fit.
    #[inline]
    pub fn release(&self, amount: u64) {
        // Release: pairs with the Acquire of whoever takes this room.
        let before = self.state.fetch_sub(amount * ONE, Ordering::Release);
        debug_assert!(
            before / ONE >= amount,
            "released more credit than is in use"
        );
        if before & WAITED_FOR != 0 {
            self.grant();
        }
    }

    /// Grants those in front for as long as they fit.
    #[cold]
    fn grant(&self) {
        // Woken outside the lock: a waker is foreign code, and may come back here.
        while let Some(granted) = self.grant_front() {
            if let Some(waiter) = granted.waiter {
                waiter.wake();
            }
        }
    }

    /// Grants the one in front if he fits; clears WAITED_FOR when nobody is left.
    fn grant_front(&self) -> Option<Request> {
        let mut queue = lock(&self.queue);
        let granted = match queue.waiting.front() {
            None => None,
            Some(front) => {
                let amount = front.amount;
                let taken = |state| self.fits(state, amount).then(|| state + amount * ONE);
                // Acquire and Release: the waiter comes after whoever made the room; it learns of the
                // grant by the lock.
                let (won, lost) = (Ordering::AcqRel, Ordering::Relaxed);
                self.state.fetch_update(won, lost, taken).ok()?;
                queue.waiting.pop_front()
            }
        };
        if queue.waiting.is_empty() {
            // Relaxed: only the holder of the lock sets it.
            self.state.fetch_and(!WAITED_FOR, Ordering::Relaxed);
        }
        granted
    }

    /// Everyone who waits gets `Ended`, and nobody will wait any more.
    pub fn end(&self) {
        // Release: pairs with `has_ended`.
        self.ended.store(true, Ordering::Release);
        // Whoever is not in the queue yet enters it under this lock, and sees `ended` there. They take
        // themselves out. Their wakers are taken, not cloned, and woken after the lock: both are foreign code.
        let waiting: Vec<_> = {
            let mut queue = lock(&self.queue);
            let requests = queue.waiting.iter_mut();
            requests
                .filter_map(|request| request.waiter.take())
                .collect()
        };
        waiting.into_iter().for_each(Waiter::wake);
    }
}

/// A place in the queue of those who wait for credit. Dropping it gives the place up, and what it was granted
/// meanwhile.
#[derive(Debug)]
pub struct Place<C: Deref<Target = Credit>> {
    credit: C,
    amount: u64,
    /// While it is in the queue, or granted and not told so.
    ticket: Option<u64>,
}

impl<C: Deref<Target = Credit>> Place<C> {
    /// A place in the queue for `amount` of `credit`, for who waits by polling. It is taken by the first poll.
    pub fn new(credit: C, amount: u64) -> Self {
        Self {
            credit,
            amount,
            ticket: None,
        }
    }

    /// The credit, which is the caller's then; or `waker` will be woken when there is an answer. Never blocks.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        if let Err(error) = self.credit.check(self.amount) {
            return Poll::Ready(Err(error));
        }
        self.look(|| Waiter::Task(waker.clone()))
    }

    /// Enters the queue, or looks how it stands there.
    fn look(&mut self, waiter: impl FnOnce() -> Waiter) -> Poll<Result<(), AcquireError>> {
        let waiter = waiter();
        let Some(ticket) = self.ticket else {
            return match self.credit.enter(self.amount, waiter) {
                Entered::Granted => Poll::Ready(Ok(())),
                Entered::Ended => Poll::Ready(Err(AcquireError::Ended)),
                Entered::Waiting(ticket) => {
                    self.ticket = Some(ticket);
                    Poll::Pending
                }
            };
        };
        let mut queue = lock(&self.credit.queue);
        let Some(place) = queue.place(ticket) else {
            self.ticket = None; // taken out: granted
            return Poll::Ready(Ok(()));
        };
        if self.credit.has_ended() {
            drop(queue);
            self.leave();
            return Poll::Ready(Err(AcquireError::Ended));
        }
        let old = queue.waiting[place].waiter.replace(waiter);
        drop(queue);
        drop(old);
        Poll::Pending
    }

    /// Leaves the queue, and what was granted to those behind.
    fn leave(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let mut queue = lock(&self.credit.queue);
        let left = queue
            .place(ticket)
            .and_then(|place| queue.waiting.remove(place));
        drop(queue);
        match left {
            // Those behind may be asking for less.
            Some(_) => self.credit.grant(),
            None => self.credit.release(self.amount),
        }
    }
}

impl<C: Deref<Target = Credit>> Drop for Place<C> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Credit");
        out.field("in_use", &self.in_use())
            .field("limit", &self.limit);
        out.finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "credit_tests.rs"]
mod tests;

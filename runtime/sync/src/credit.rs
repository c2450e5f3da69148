//! A bounded budget in flight, of tasks or bytes (I12); first come, first served.
//!
//! While no caller waits, acquiring is one compare-and-swap and releasing one subtraction. Once a
//! caller waits, all others queue behind it, so that small requests do not starve a large one. A
//! release grants on behalf of the waiters, in their order, while the front one fits: a woken
//! waiter already has its credit.
//!
//! # Transitions of `state` (the amount in use, and WAITED_FOR)
//!
//! | transition | condition | access |
//! | --- | --- | --- |
//! | take: + amount | no WAITED_FOR, and it fits | CAS, Acquire |
//! | take beyond: + amount | it fits the limit and the headroom; WAITED_FOR stays | CAS, Acquire |
//! | wait: set WAITED_FOR | it does not fit, or a request before it waits; under the lock | CAS, Acquire |
//! | release: - amount | | subtraction, Release; WAITED_FOR before: grant |
//! | grant: + amount | the front request fits; under the lock, which also removes it | CAS, AcqRel |
//! | clear WAITED_FOR | the queue is empty; under the lock | and, Relaxed |
//!
//! # No wake is lost (I5)
//!
//! ```text
//!   waiter                                      holder
//!   lock the queue
//!   CAS: no room, set WAITED_FOR                state -= amount          (Release)
//!   enter the queue, unlock                     WAITED_FOR was set:
//!   park                                          lock the queue
//!   not in the queue: granted                     front fits: state += its amount, remove it
//!                                                 unlock, wake it
//! ```
//! Both sides change the same word. If the release comes first, the waiter's CAS finds room and
//! takes it; otherwise the release reads WAITED_FOR, and the lock is free only once the waiter is
//! in the queue. The Release of a release pairs with the Acquire of the take that uses its room,
//! also through a grant, of which the waiter learns by the lock.
//!
//! **Ahead.** A request may wait *ahead*: before all requests that do not, and behind those that
//! do. It is for a caller that holds a part of the budget and gives it back only after it got more:
//! behind a request that waits for that part, neither would go on.
//!
//! A waiter that gives up leaves the queue and grants those behind it, which may fit; if it was
//! granted meanwhile, it releases. [`Credit::end`] wakes all waiters, which remove themselves.
//!
//! Checked by the models in `loom-tests/tests/models/credit.rs`; the mutants `credit_*` break
//! transitions and wakes.

mod queued_request;

pub use queued_request::QueuedRequest;

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Instant;

use crate::facade::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::facade::{Mutex, Padded, SpinPolicy, Spinner, lock, thread};
use crate::wait::Waiter;

/// In `state`: a caller waits. The bits above count the amount in use.
const WAITED_FOR: u64 = 1;
const ONE: u64 = 2;
/// The greatest budget.
const LIMIT_MAX: u64 = u64::MAX / ONE;

/// The amount does not fit at the moment, or other callers wait for credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The amount in use at the moment.
    pub in_use: u64,
    /// The budget.
    pub limit: u64,
}

/// Why a wait for credit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// The budget has ended.
    Ended,
    /// More than the whole budget was requested.
    TooLarge {
        /// The amount requested.
        requested: u64,
        /// The budget.
        limit: u64,
    },
}

/// A bounded budget.
pub struct Credit {
    state: Padded<AtomicU64>,
    limit: u64,
    ended: AtomicBool,
    queue: Mutex<Queue>,
}

/// The result of entering the queue.
enum Entered {
    Granted,
    Ended,
    Waiting(Ticket),
}

impl Credit {
    /// Creates a budget of `limit`.
    pub fn new(limit: u64) -> Self {
        Self {
            state: Padded(AtomicU64::new(0)),
            limit: limit.min(LIMIT_MAX),
            ended: AtomicBool::new(false),
            queue: Mutex::new(Queue::default()),
        }
    }

    /// Returns the amount in use.
    #[inline]
    pub fn in_use(&self) -> u64 {
        // Relaxed: a statistic.
        self.state.load(Ordering::Relaxed) / ONE
    }

    /// Returns the budget.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    fn fits(&self, state: u64, amount: u64) -> bool {
        amount <= self.limit.saturating_sub(state / ONE)
    }

    /// Takes `amount` without waiting. Fails if other callers wait, since they come first. Works
    /// after [`Self::end`] as well.
    #[inline]
    pub fn try_acquire(&self, amount: u64) -> Result<(), Exceeded> {
        self.take(amount, |state| {
            state & WAITED_FOR == 0 && self.fits(state, amount)
        })
    }

    /// Takes `amount` without waiting if at most `headroom` beyond the limit is in use afterwards.
    /// For a caller that cannot wait: it overtakes those that wait, which get nothing until their
    /// amounts fit the limit again.
    pub fn try_acquire_beyond(&self, amount: u64, headroom: u64) -> Result<(), Exceeded> {
        let limit = self.limit.saturating_add(headroom).min(LIMIT_MAX);
        self.take(amount, |state| amount <= limit.saturating_sub(state / ONE))
    }

    /// Takes `amount` if `may` returns `true` for the state.
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
            // Acquire: pairs with `release`; what was done before the room was given back happens before.
            let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, next, won, lost) {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
    }

    /// Takes `amount`; may block until there is room. Fails at once if `amount` exceeds the budget.
    #[inline]
    pub fn acquire(&self, amount: u64, spin: &SpinPolicy) -> Result<(), AcquireError> {
        let acquired = self.acquire_in_order((amount, false), spin, None);
        // Without a deadline it is never `None`.
        acquired.unwrap_or(Err(AcquireError::Ended))
    }

    /// As [`Self::acquire`], at most until the deadline, if there is one (`None` once it has passed);
    /// waits ahead of other requests if `is_ahead`. In a model deadlines never pass.
    pub fn acquire_in_order(
        &self,
        (amount, is_ahead): (u64, bool),
        spin: &SpinPolicy,
        deadline: Option<Instant>,
    ) -> Option<Result<(), AcquireError>> {
        match self.try_acquire(amount) {
            Ok(()) => Some(Ok(())),
            Err(_) => self.acquire_slow((amount, is_ahead), *spin, deadline),
        }
    }

    #[cold]
    fn acquire_slow(
        &self,
        (amount, is_ahead): (u64, bool),
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
            let mut place = self.place(amount).ahead_if(is_ahead);
            let mut poll = || place.poll_with(|| Some(Waiter::Thread(thread::current())));
            let parked = spin.park_begins();
            let mut in_time = true;
            let outcome = loop {
                match poll() {
                    Poll::Ready(outcome) => break Some(outcome),
                    Poll::Pending if !in_time => break None,
                    Poll::Pending => in_time = thread::park_until(deadline),
                }
            };
            spin.park_ended(parked);
            outcome
        })
    }

    /// Fails if `amount` exceeds the whole budget: such a request would wait forever.
    fn check(&self, amount: u64) -> Result<(), AcquireError> {
        let (requested, limit) = (amount, self.limit);
        match requested > limit {
            true => Err(AcquireError::TooLarge { requested, limit }),
            false => Ok(()),
        }
    }

    /// Returns a place for `amount`, for a caller that waits by polling. It enters the queue at its
    /// first poll.
    pub fn place(&self, amount: u64) -> QueuedRequest<&Self> {
        QueuedRequest::new(self, amount)
    }

    /// Returns `true` if the budget has ended.
    pub fn has_ended(&self) -> bool {
        // Acquire: pairs with `end`.
        self.ended.load(Ordering::Acquire)
    }

    fn enter(&self, (amount, is_ahead): (u64, bool), waiter: Option<Waiter>) -> Entered {
        let mut queue = lock(&self.queue);
        if self.has_ended() {
            return Entered::Ended;
        }
        let ticket = queue.ticket(is_ahead);
        let is_first = queue.is_first(ticket);
        // Relaxed: a guess for the exchange.
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            // WAITED_FOR stays if requests behind this one wait.
            let has_room = is_first && self.fits(state, amount);
            let next = if has_room {
                state + amount * ONE
            } else {
                state | WAITED_FOR
            };
            // Acquire: as in `take`.
            let (won, lost) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, next, won, lost) {
                Ok(_) if has_room => return Entered::Granted,
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        queue.requests.insert(ticket, Request { amount, waiter });
        Entered::Waiting(ticket)
    }

    /// Gives `amount` back, and grants waiting requests that fit now.
    #[inline]
    pub fn release(&self, amount: u64) {
        // Release: pairs with the Acquire of the take that uses this room.
        let before = self.state.fetch_sub(amount * ONE, Ordering::Release);
        debug_assert!(
            before / ONE >= amount,
            "released more credit than is in use"
        );
        if before & WAITED_FOR != 0 {
            self.grant();
        }
    }

    /// Grants requests from the front while they fit.
    #[cold]
    fn grant(&self) {
        // Woken after the lock: a waker is foreign code, and may call this budget.
        while let Some(granted) = self.grant_front() {
            if let Some(waiter) = granted.waiter {
                waiter.wake();
            }
        }
    }

    /// Grants the front request if it fits; clears WAITED_FOR if no request is left.
    fn grant_front(&self) -> Option<Request> {
        let mut queue = lock(&self.queue);
        let granted = match queue.requests.first_entry() {
            None => None,
            Some(front) => {
                let amount = front.get().amount;
                let taken = |state| self.fits(state, amount).then(|| state + amount * ONE);
                // AcqRel: the waiter comes after the threads that made the room; it learns of the
                // grant by the lock.
                let (won, lost) = (Ordering::AcqRel, Ordering::Relaxed);
                self.state.fetch_update(won, lost, taken).ok()?;
                Some(front.remove())
            }
        };
        if queue.requests.is_empty() {
            // Relaxed: it is set and cleared under the lock only.
            self.state.fetch_and(!WAITED_FOR, Ordering::Relaxed);
        }
        granted
    }

    /// Ends the budget: all waits fail with `Ended`, now and later.
    pub fn end(&self) {
        // Release: pairs with `has_ended`.
        self.ended.store(true, Ordering::Release);
        // A request that is not in the queue yet enters it under this lock and reads `ended` there.
        // Waiters remove themselves. Their wakers are taken, not cloned, and woken after the lock:
        // both run foreign code.
        let mut queue = lock(&self.queue);
        let requests = queue.requests.values_mut();
        let waiting: Vec<Waiter> = requests
            .filter_map(|request| request.waiter.take())
            .collect();
        drop(queue);
        waiting.into_iter().for_each(Waiter::wake);
    }
}

// The requests that wait for a budget, in the order in which they are granted: those that wait ahead, then all others,
// each in the order of their numbers.

/// Names a request in the queue, by its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    /// Whether requests that wait ahead come first.
    is_behind: bool,
    number: u64,
}

struct Request {
    amount: u64,
    /// `None` if it only looks, and once the end has woken it.
    waiter: Option<Waiter>,
}

/// The requests that wait. A granted request is removed. An empty map keeps its first node, so a few waiters allocate
/// once (I9).
#[derive(Default)]
struct Queue {
    next_number: u64,
    requests: BTreeMap<Ticket, Request>,
}

impl Queue {
    /// Returns the ticket of a request that enters now.
    fn ticket(&mut self, is_ahead: bool) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        Ticket {
            is_behind: !is_ahead,
            number,
        }
    }

    /// Returns `true` if no request comes before `ticket`.
    fn is_first(&self, ticket: Ticket) -> bool {
        let first = self.requests.first_key_value();
        first.is_none_or(|(first, _)| ticket < *first)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod queue_tests {
    use super::*;

    #[test]
    fn requests_ahead_come_first_and_each_kind_keeps_its_order() {
        let mut queue = Queue::default();
        let tickets = [false, true, false, true].map(|is_ahead| {
            let ticket = queue.ticket(is_ahead);
            let waiter = None;
            let amount = ticket.number;
            queue.requests.insert(ticket, Request { amount, waiter });
            ticket
        });
        let order: Vec<u64> = queue.requests.values().map(|one| one.amount).collect();
        assert_eq!(order, [1, 3, 0, 2]);
        queue.requests.remove(&tickets[1]);
        assert!(queue.is_first(tickets[1]) && !queue.is_first(tickets[0]));
        let last = [true, false].map(|is_ahead| queue.ticket(is_ahead));
        assert_eq!(last.map(|ticket| queue.is_first(ticket)), [false, false]);
        queue.requests.remove(&tickets[3]);
        assert!(queue.is_first(last[0]) && !queue.is_first(last[1]));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "credit_tests.rs"]
mod tests;

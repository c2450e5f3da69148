//! The requests that wait for a budget, in the order in which they are granted: those that wait ahead, then all others,
//! each in the order of their tickets.
//!
//! Any number of callers may wait, so no step visits all of them: a request is found by a binary search for its ticket.
//! One that leaves stays in its list, as it has left, until it is the first, or until more than half of the list have
//! left. So leaving moves no other request, and costs one step on average. A list keeps its memory, so waiting allocates
//! nothing in the steady state (I9).

use crate::wait::Waiter;
use std::collections::VecDeque;

/// Names a request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    is_ahead: bool,
    number: u64,
}

pub(super) struct Request {
    number: u64,
    pub(super) amount: u64,
    /// `None` once the end has woken it.
    pub(super) waiter: Option<Waiter>,
    has_left: bool,
}

/// The requests that wait. A granted request is removed.
#[derive(Default)]
pub(super) struct Queue {
    next_number: u64,
    ahead: List,
    others: List,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.front().is_none()
    }

    /// Returns `true` if a request that enters now is the first.
    pub(super) fn enters_first(&self, is_ahead: bool) -> bool {
        self.ahead.requests.is_empty() && (is_ahead || self.others.requests.is_empty())
    }

    pub(super) fn enter(&mut self, (amount, is_ahead): (u64, bool), waiter: Waiter) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        self.list(is_ahead).requests.push_back(Request {
            number,
            amount,
            waiter: Some(waiter),
            has_left: false,
        });
        Ticket { is_ahead, number }
    }

    pub(super) fn front(&self) -> Option<&Request> {
        let ahead = self.ahead.requests.front();
        ahead.or_else(|| self.others.requests.front())
    }

    pub(super) fn pop_front(&mut self) -> Option<Request> {
        self.ahead.pop_front().or_else(|| self.others.pop_front())
    }

    /// Returns a request, unless it was granted.
    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Request> {
        self.list(ticket.is_ahead).get_mut(ticket.number)
    }

    /// Removes a request, and returns whether it was there, with its waiter.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Option<Waiter>> {
        self.list(ticket.is_ahead).leave(ticket.number)
    }

    /// Takes the waiters of all requests, which stay in the queue.
    pub(super) fn take_waiters(&mut self) -> Vec<Waiter> {
        let requests = [&mut self.ahead, &mut self.others];
        let requests = requests.into_iter().flat_map(|list| &mut list.requests);
        requests
            .filter_map(|request| request.waiter.take())
            .collect()
    }

    fn list(&mut self, is_ahead: bool) -> &mut List {
        match is_ahead {
            true => &mut self.ahead,
            false => &mut self.others,
        }
    }
}

/// Requests in the order of their numbers. The first one has not left.
#[derive(Default)]
struct List {
    requests: VecDeque<Request>,
    /// The number of requests that have left.
    left: usize,
}

impl List {
    fn get_mut(&mut self, number: u64) -> Option<&mut Request> {
        let place = self
            .requests
            .binary_search_by_key(&number, |request| request.number);
        self.requests
            .get_mut(place.ok()?)
            .filter(|request| !request.has_left)
    }

    fn leave(&mut self, number: u64) -> Option<Option<Waiter>> {
        let request = self.get_mut(number)?;
        request.has_left = true;
        let waiter = request.waiter.take();
        self.left += 1;
        self.remove_left();
        Some(waiter)
    }

    fn pop_front(&mut self) -> Option<Request> {
        let first = self.requests.pop_front();
        self.remove_left();
        first
    }

    fn remove_left(&mut self) {
        if self.left * 2 > self.requests.len() {
            self.requests.retain(|request| !request.has_left);
            self.left = 0;
        }
        while self.requests.front().is_some_and(|first| first.has_left) {
            self.requests.pop_front();
            self.left -= 1;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::task::Waker;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Enter { is_ahead: bool },
        Pop,
        Leave(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<bool>().prop_map(|is_ahead| Step::Enter { is_ahead }),
            1 => Just(Step::Pop),
            3 => any::<prop::sample::Index>().prop_map(Step::Leave),
        ]
    }

    proptest! {
        /// The order is that of a plain list into which each request is inserted at its place.
        #[test]
        fn the_order_is_that_of_a_plain_list(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = Queue::default();
            let mut plain: Vec<(Ticket, u64)> = Vec::new();
            let mut gone: Vec<Ticket> = Vec::new();
            for (amount, step) in (0..).zip(steps) {
                match step {
                    Step::Enter { is_ahead } => {
                        let place = match is_ahead {
                            true => plain.partition_point(|(ticket, _)| ticket.is_ahead),
                            false => plain.len(),
                        };
                        prop_assert_eq!(queue.enters_first(is_ahead), place == 0);
                        let waiter = Waiter::Own(Waker::noop().clone());
                        plain.insert(place, (queue.enter((amount, is_ahead), waiter), amount));
                    }
                    Step::Pop => {
                        let first = (!plain.is_empty()).then(|| plain.remove(0));
                        let popped = queue.pop_front().map(|request| request.amount);
                        prop_assert_eq!(popped, first.map(|(_, amount)| amount));
                        gone.extend(first.map(|(ticket, _)| ticket));
                    }
                    Step::Leave(which) if !plain.is_empty() => {
                        let (ticket, _) = plain.remove(which.index(plain.len()));
                        prop_assert!(queue.leave(ticket).is_some());
                        gone.push(ticket);
                    }
                    Step::Leave(_) => {}
                }
                let first = plain.first().map(|(_, amount)| *amount);
                prop_assert_eq!(queue.front().map(|request| request.amount), first);
                prop_assert_eq!(queue.is_empty(), plain.is_empty());
                for (ticket, amount) in &plain {
                    prop_assert_eq!(queue.get_mut(*ticket).map(|request| request.amount), Some(*amount));
                }
                prop_assert!(gone.iter().all(|ticket| queue.leave(*ticket).is_none()));
                let kept = queue.ahead.requests.len() + queue.others.requests.len();
                prop_assert!(kept <= 2 * plain.len(), "requests that have left are removed");
            }
        }
    }
}

//! The requests that wait for a budget, in the order in which they are granted: those that wait ahead, then all others,
//! each in the order of their numbers.

use crate::wait::Waiter;
use std::collections::BTreeMap;

/// Names a request in the queue, by its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    /// Whether requests that wait ahead come first.
    is_behind: bool,
    number: u64,
}

pub(super) struct Request {
    pub(super) amount: u64,
    /// `None` if it only looks, and once the end has woken it.
    pub(super) waiter: Option<Waiter>,
}

/// The requests that wait. A granted request is removed. An empty map keeps its first node, so a few waiters allocate
/// once (I9).
#[derive(Default)]
pub(super) struct Queue {
    next_number: u64,
    pub(super) requests: BTreeMap<Ticket, Request>,
}

impl Queue {
    /// Returns the ticket of a request that enters now.
    pub(super) fn ticket(&mut self, is_ahead: bool) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        Ticket {
            is_behind: !is_ahead,
            number,
        }
    }

    /// Returns `true` if no request comes before `ticket`.
    pub(super) fn is_first(&self, ticket: Ticket) -> bool {
        let first = self.requests.first_key_value();
        first.is_none_or(|(first, _)| ticket < *first)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
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

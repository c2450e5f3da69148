//! A group of simulated ranks: its calls in flight.

use std::collections::HashMap;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, Operation};

use crate::collective::Collectives;
use crate::event::{Event, Id, Outcome, Side};
use crate::stall::Waiting;
use crate::transfer::Transfers;
use crate::wires::Wires;

/// The calls of a group. Its members are counted from 0; `ranks` are their ranks in the cluster.
pub(crate) struct GroupState {
    number: usize,
    ranks: Vec<usize>,
    /// By member: what its calls that have not begun belong to.
    tickets: Vec<Tickets>,
    collectives: Collectives,
    transfers: Transfers,
    /// Why it has no further calls.
    broken: Option<FailureRef>,
}

#[derive(Default)]
struct Tickets {
    next: u64,
    waiting: HashMap<u64, Ticket>,
}

#[derive(Clone, Copy)]
enum Ticket {
    Collective(u64),
    Send(Id),
    Receive(Id),
}

impl GroupState {
    pub(crate) fn new(number: usize, ranks: Vec<usize>) -> Self {
        Self {
            tickets: ranks.iter().map(|_| Tickets::default()).collect(),
            collectives: Collectives::new(number, &ranks),
            transfers: Transfers::new(number, &ranks),
            broken: None,
            number,
            ranks,
        }
    }

    /// A rank of the cluster is known to have ended. If it is a member, all calls fail.
    pub(crate) fn lose(&mut self, wires: &mut Wires, rank: usize) {
        let Some(member) = self.ranks.iter().position(|of| *of == rank) else {
            return;
        };
        let remote = Remote::Ended {
            rank: Some(member as u32),
        };
        let cause = Failure::not_run(&"cluster".into(), Reason::Remote(remote));
        self.break_off(wires, cause);
    }

    /// A member makes a call. Returns its ticket.
    pub(crate) fn announce(&mut self, wires: &mut Wires, member: usize, call: Announcement) -> u64 {
        let ticket = match (&self.broken, call.operation) {
            (Some(_), _) => None,
            (None, Operation::Send { from, to }) => {
                let id = self.transfers.announce(Side::Sender, (from, to), call);
                Some(Ticket::Send(id))
            }
            (None, Operation::Receive { from, to }) => {
                let id = self.transfers.announce(Side::Receiver, (from, to), call);
                Some(Ticket::Receive(id))
            }
            (None, _) => Some(Ticket::Collective(
                self.collectives.announce(wires, member, call),
            )),
        };
        let tickets = &mut self.tickets[member];
        let number = tickets.next;
        tickets.next += 1;
        tickets
            .waiting
            .extend(ticket.map(|ticket| (number, ticket)));
        number
    }

    /// The data of a member's call is ready, or its part has failed.
    pub(crate) fn begin(&mut self, wires: &mut Wires, member: usize, ticket: u64, part: Outcome) {
        let ticket = self.tickets[member].waiting.remove(&ticket);
        match (ticket, &self.broken) {
            (_, Some(cause)) => {
                if let Ok(part) = part {
                    wires.end(self.ranks[member], part, Some(cause.clone()));
                }
            }
            (Some(Ticket::Collective(number)), None) => {
                self.collectives.begin(wires, number, member, part);
            }
            (Some(Ticket::Send(id)), None) => self.transfers.begin_send(wires, id, part),
            (Some(Ticket::Receive(id)), None) => self.transfers.begin_receive(wires, id, part),
            (None, None) => debug_assert!(false, "a ticket begins once"),
        }
    }

    pub(crate) fn step(&mut self, wires: &mut Wires, event: Event) {
        match event {
            Event::Collective(number, member, step) => {
                self.collectives.step(wires, number, member, step);
            }
            Event::Transfer(id, leg) => self.transfers.step(wires, id, leg),
        }
    }

    /// Fails all calls in flight, and all later ones.
    pub(crate) fn break_off(&mut self, wires: &mut Wires, cause: FailureRef) {
        if self.broken.is_some() {
            return;
        }
        wires.forget(self.number);
        self.tickets
            .iter_mut()
            .for_each(|tickets| tickets.waiting.clear());
        let left = self.collectives.take_all();
        let left = left.into_iter().chain(self.transfers.take_all());
        for (member, part) in left {
            wires.end(self.ranks[member], part, Some(cause.clone()));
        }
        self.broken = Some(cause);
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let collectives = self.collectives.waiting();
        collectives.chain(self.transfers.waiting())
    }

    /// Returns the number of calls that have not ended on all members.
    pub(crate) fn in_flight(&self) -> usize {
        self.collectives.in_flight() + self.transfers.in_flight()
    }
}

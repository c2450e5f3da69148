//! A group of simulated ranks: its calls in flight.

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, Operation};
use slab::Slab;

use crate::collective::Collectives;
use crate::event::{Event, Id, Outcome, Side};
use crate::stall::Waiting;
use crate::transfer::Transfers;
use crate::wires::Wires;

/// The calls of a group. Its members are counted from 0; `ranks` are their ranks in the cluster.
pub(crate) struct GroupState {
    number: usize,
    ranks: Vec<usize>,
    /// What the calls that have not begun belong to.
    tickets: Slab<Ticket>,
    collectives: Collectives,
    transfers: Transfers,
    /// Why it has no further calls.
    broken: Option<FailureRef>,
}

#[derive(Clone, Copy)]
enum Ticket {
    Collective(u64),
    Transfer(Id, Side),
}

impl GroupState {
    pub(crate) fn new(number: usize, ranks: Vec<usize>) -> Self {
        Self {
            tickets: Slab::new(),
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
        if self.broken.is_some() {
            return 0;
        }
        let ticket = match call.operation {
            Operation::Send { from, to } => {
                let side = Side::Sender;
                Ticket::Transfer(self.transfers.announce(side, (from, to), call), side)
            }
            Operation::Receive { from, to } => {
                let side = Side::Receiver;
                Ticket::Transfer(self.transfers.announce(side, (from, to), call), side)
            }
            _ => Ticket::Collective(self.collectives.announce(wires, member, call)),
        };
        self.tickets.insert(ticket) as u64
    }

    /// The data of a member's call is ready, or its part has failed.
    pub(crate) fn begin(&mut self, wires: &mut Wires, member: usize, ticket: u64, part: Outcome) {
        if let Some(cause) = &self.broken {
            if let Ok(part) = part {
                wires.end(self.ranks[member], part, Some(cause.clone()));
            }
            return;
        }
        match self.tickets.try_remove(ticket as usize) {
            Some(Ticket::Collective(number)) => {
                self.collectives.begin(wires, number, member, part);
            }
            Some(Ticket::Transfer(id, side)) => self.transfers.begin(wires, (id, side), part),
            None => debug_assert!(false, "a ticket begins once"),
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
        self.tickets.clear();
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

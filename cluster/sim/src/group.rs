//! A group of simulated ranks: its calls in flight.

use std::collections::BTreeMap;

use millstream::{Failure, FailureRef, Reason, error::Remote};
use millstream_cluster::{Announcement, Operation};
use slab::Slab;

use crate::event::{Event, Kind, Outcome};
use crate::lane::Lane;
use crate::stall::Waiting;
use crate::wires::Wires;

/// The calls of a group. Its members are counted from 0; `ranks` are their ranks in the cluster.
pub(crate) struct GroupState {
    number: usize,
    ranks: Vec<usize>,
    lanes: BTreeMap<Kind, Lane>,
    /// The lanes, numbers and places of calls whose parts have not begun.
    tickets: Slab<(Kind, u64, usize)>,
    /// Why it has no further calls.
    broken: Option<FailureRef>,
}

impl GroupState {
    pub(crate) fn new(number: usize, ranks: Vec<usize>) -> Self {
        Self {
            number,
            ranks,
            lanes: BTreeMap::new(),
            tickets: Slab::new(),
            broken: None,
        }
    }

    /// A rank of the cluster is known to have ended. If it is a member, all calls fail.
    pub(crate) fn lose(&mut self, wires: &mut Wires, rank: usize) {
        if let Some(member) = self.ranks.iter().position(|of| *of == rank) {
            let rank = Some(member as u32);
            let reason = Reason::Remote(Remote::Ended { rank });
            self.break_off(wires, &Failure::not_run(&"cluster".into(), reason));
        }
    }

    /// A member makes a call. Returns its ticket.
    pub(crate) fn announce(&mut self, wires: &mut Wires, member: usize, call: Announcement) -> u64 {
        if self.broken.is_some() {
            return 0;
        }
        let (kind, place) = match call.operation {
            Operation::Send { from, to } => (Some((from, to)), 0),
            Operation::Receive { from, to } => (Some((from, to)), 1),
            _ => (None, member),
        };
        let new = || Lane::new(self.number, kind, &self.ranks);
        let lane = self.lanes.entry(kind).or_insert_with(new);
        let number = lane.announce(wires, place, call);
        self.tickets.insert((kind, number, place)) as u64
    }

    /// The data of a member's call is ready, or its part has failed.
    pub(crate) fn begin(&mut self, wires: &mut Wires, member: usize, ticket: u64, part: Outcome) {
        if let Some(cause) = &self.broken {
            if let Ok(part) = part {
                wires.end(self.ranks[member], part, Some(cause.clone()));
            }
            return;
        }
        let call = self.tickets.try_remove(ticket as usize);
        debug_assert!(call.is_some(), "a ticket begins once");
        if let Some((kind, number, place)) = call
            && let Some(lane) = self.lanes.get_mut(&kind)
        {
            lane.begin(wires, number, place, part);
        }
    }

    pub(crate) fn step(&mut self, wires: &mut Wires, event: Event) {
        if let Some(lane) = self.lanes.get_mut(&event.lane) {
            lane.step(wires, event);
        }
    }

    /// Fails all calls in flight, and all later ones.
    pub(crate) fn break_off(&mut self, wires: &mut Wires, cause: &FailureRef) {
        if self.broken.is_some() {
            return;
        }
        wires.forget(self.number);
        self.tickets.clear();
        for (rank, part) in self.lanes.values_mut().flat_map(Lane::take_all) {
            wires.end(rank, part, Some(cause.clone()));
        }
        self.broken = Some(cause.clone());
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.lanes.values().flat_map(Lane::waiting)
    }

    /// Returns the number of calls that have not ended on all members.
    pub(crate) fn in_flight(&self) -> usize {
        self.lanes.values().map(Lane::in_flight).sum()
    }
}

//! Everything that is on its way between the ranks, and what happens next.
//!
//! ```text
//!  a rank's part begins ──► its call ──► messages ──► events, in the order of virtual time ──► the part ends
//! ```
//! The devices are driven by [`SimCluster`](crate::SimCluster), which handles an event only when no device has an earlier
//! step. A message is thus sent after every message that is earlier in virtual time, and links serve them in that order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::FailureRef;
use slab::Slab;

use crate::event::{Happening, Outcome};
use crate::group::GroupState;
use crate::stall::Waiting;
use crate::wires::Wires;

/// The lock around the traffic: the networks of all ranks share it.
pub(crate) type Shared = Arc<Mutex<Traffic>>;

/// Locks the traffic.
pub(crate) fn lock(traffic: &Shared) -> MutexGuard<'_, Traffic> {
    traffic.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calls of all groups.
pub(crate) struct Traffic {
    pub(crate) wires: Wires,
    pub(crate) groups: Vec<GroupState>,
    /// Parts that begin later.
    later: Slab<Begun>,
}

/// A part that begins: its group, its member, its ticket.
type Begun = (usize, usize, u64, Outcome);

impl Traffic {
    pub(crate) fn new(wires: Wires) -> Self {
        Self {
            wires,
            groups: Vec::new(),
            later: Slab::new(),
        }
    }

    /// A part of a rank begins, at the time of its device. That is the present, except if the host waits for its device
    /// before the ranks are run: then the device is ahead of them.
    pub(crate) fn begin(&mut self, at_ns: u64, begun: Begun) {
        if at_ns > self.wires.now_ns {
            let number = self.later.insert(begun);
            return self.wires.at(at_ns, Happening::Begins(number));
        }
        let (group, member, ticket, part) = begun;
        self.groups[group].begin(&mut self.wires, member, ticket, part);
    }

    /// Adds a group of some ranks, and returns its number. If one is known to have ended, its calls fail.
    pub(crate) fn add_group(&mut self, ranks: &[usize]) -> usize {
        let number = self.groups.len();
        self.groups.push(GroupState::new(number, ranks.to_vec()));
        for rank in ranks {
            if self.wires.is_known[*rank] {
                self.groups[number].lose(&mut self.wires, *rank);
            }
        }
        number
    }

    /// Handles what happens now.
    pub(crate) fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Of(event) => self.groups[event.group].step(&mut self.wires, event),
            Happening::Hops(message) => self.wires.hop_on(message),
            Happening::Begins(number) => {
                if let Some(begun) = self.later.try_remove(number) {
                    self.begin(self.wires.now_ns, begun);
                }
            }
            Happening::Ends(rank) => {
                let detection_ns = self.wires.fabric.machine.detection_ns;
                let known_ns = self.wires.now_ns.saturating_add(detection_ns);
                self.wires.has_ended[rank] = true;
                self.wires.at(known_ns, Happening::IsKnown(rank));
            }
            Happening::IsKnown(rank) => {
                self.wires.is_known[rank] = true;
                for group in &mut self.groups {
                    group.lose(&mut self.wires, rank);
                }
            }
        }
    }

    /// Fails all calls of a group, and those that begin later.
    pub(crate) fn close(&mut self, group: usize, cause: &FailureRef) {
        self.groups[group].break_off(&mut self.wires, cause);
        for (_, (of, member, ticket, part)) in &mut self.later {
            if *of == group {
                // The number stays in use until it happens.
                let part = std::mem::replace(part, Err(cause.clone()));
                self.groups[group].begin(&mut self.wires, *member, *ticket, part);
            }
        }
    }

    /// Returns the calls that wait for a rank.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        self.groups.iter().flat_map(GroupState::waiting).collect()
    }

    /// Returns the number of calls that have not ended on all ranks.
    pub(crate) fn in_flight(&self) -> usize {
        self.groups.iter().map(GroupState::in_flight).sum()
    }
}

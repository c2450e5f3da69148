//! Everything that is on its way between the ranks, and what happens next.
//!
//! ```text
//!  a rank's part begins ──► its call ──► messages ──► events, in the order of virtual time ──► the part ends
//! ```
//! The devices are driven by [`SimCluster`](crate::SimCluster), which handles an event only when no device has an earlier
//! step. A message is thus sent after every message that is earlier in virtual time, and links serve them in that order.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::{Failure, FailureRef, Reason, Remote};
use millstream_cluster::NetworkPart;

use crate::fabric::Fabric;
use crate::group::{Event, GroupState, Outcome};
use crate::stall::Waiting;

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
    /// Parts that begin later, by their numbers.
    later: HashMap<u64, Begun>,
}

/// A part that begins: its group, its member, its ticket.
type Begun = (usize, usize, u64, Outcome);

/// What the calls of all groups share: time, links, and events.
pub(crate) struct Wires {
    pub(crate) now_ns: u64,
    pub(crate) fabric: Fabric,
    /// By rank: whether it has ended.
    pub(crate) has_ended: Vec<bool>,
    /// Whether bytes move. Otherwise only time passes.
    pub(crate) moves_data: bool,
    events: BinaryHeap<Reverse<Timed>>,
    /// The number of events so far: those of one time happen in the order in which they were made.
    made: u64,
    /// Parts that have ended. Their devices must learn of it.
    ends: Vec<End>,
}

/// A part that has ended.
pub(crate) struct End {
    /// The rank in the cluster.
    pub(crate) rank: usize,
    pub(crate) part: NetworkPart,
    pub(crate) failure: Option<FailureRef>,
}

/// What happens at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// Something of a group.
    Of(usize, Event),
    /// A part begins, by its number.
    Begins(u64),
    /// A rank ends.
    Ends(usize),
    /// The other ranks learn of it.
    IsKnown(usize),
}

struct Timed {
    at_ns: u64,
    number: u64,
    happening: Happening,
}

impl Timed {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Wires {
    /// Lets something happen after `ns` nanoseconds.
    pub(crate) fn after(&mut self, ns: u64, happening: Happening) {
        self.at(self.now_ns.saturating_add(ns), happening);
    }

    /// Lets something happen at a time.
    pub(crate) fn at(&mut self, at_ns: u64, happening: Happening) {
        self.made += 1;
        self.events.push(Reverse(Timed {
            at_ns: at_ns.max(self.now_ns),
            number: self.made,
            happening,
        }));
    }

    /// Forgets what would happen in a group.
    pub(crate) fn forget(&mut self, group: usize) {
        let is_other = |event: &Reverse<Timed>| !matches!(event.0.happening, Happening::Of(it, _) if it == group);
        self.events.retain(is_other);
    }

    /// Ends a part.
    pub(crate) fn end(&mut self, rank: usize, part: NetworkPart, failure: Option<FailureRef>) {
        self.ends.push(End {
            rank,
            part,
            failure,
        });
    }
}

impl Traffic {
    pub(crate) fn new(fabric: Fabric, ranks: usize, moves_data: bool) -> Self {
        Self {
            wires: Wires {
                now_ns: 0,
                fabric,
                has_ended: vec![false; ranks],
                moves_data,
                events: BinaryHeap::new(),
                made: 0,
                ends: Vec::new(),
            },
            groups: Vec::new(),
            later: HashMap::new(),
        }
    }

    /// A part of a rank begins, at the time of its device. That is the present, except if the host waits for its device
    /// before the ranks are run: then the device is ahead of them.
    pub(crate) fn begin(&mut self, at_ns: u64, begun: Begun) {
        if at_ns > self.wires.now_ns {
            let number = self.wires.made;
            self.wires.at(at_ns, Happening::Begins(number));
            self.later.insert(number, begun);
            return;
        }
        let (group, member, ticket, part) = begun;
        self.groups[group].begin(&mut self.wires, member, ticket, part);
    }

    /// Returns the time of the next event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.wires.events.peek()?.0.at_ns)
    }

    /// Takes the parts that have ended.
    pub(crate) fn take_ends(&mut self) -> Vec<End> {
        std::mem::take(&mut self.wires.ends)
    }

    /// Handles the next event. Returns a rank that ends with it.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let Reverse(Timed {
            at_ns, happening, ..
        }) = self.wires.events.pop()?;
        self.wires.now_ns = at_ns;
        match happening {
            Happening::Of(group, event) => self.groups[group].step(&mut self.wires, event),
            Happening::Begins(number) => {
                if let Some(begun) = self.later.remove(&number) {
                    self.begin(at_ns, begun);
                }
            }
            Happening::Ends(rank) => {
                let detection_ns = self.wires.fabric.machine().detection_ns;
                self.wires.has_ended[rank] = true;
                self.wires.after(detection_ns, Happening::IsKnown(rank));
                return Some(rank);
            }
            Happening::IsKnown(rank) => {
                for group in &mut self.groups {
                    let Some(member) = group.member_of(rank) else {
                        continue;
                    };
                    let remote = Remote::Ended {
                        rank: Some(member as u32),
                    };
                    let cause = Failure::not_run(&"collective".into(), Reason::Remote(remote));
                    group.break_off(&mut self.wires, cause);
                }
            }
        }
        None
    }

    /// Fails all calls of a group, and those that begin later.
    pub(crate) fn close(&mut self, group: usize, cause: &FailureRef) {
        self.groups[group].break_off(&mut self.wires, cause.clone());
        let mut later: Vec<_> = self.later.extract_if(|_, begun| begun.0 == group).collect();
        later.sort_unstable_by_key(|(number, _)| *number);
        for (_, (_, member, ticket, part)) in later {
            self.groups[group].begin(&mut self.wires, member, ticket, part);
        }
    }

    /// Returns the calls that wait for a rank.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        self.groups.iter().flat_map(GroupState::waiting).collect()
    }
}

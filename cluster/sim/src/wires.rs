//! Time, links and events: what the calls of all groups share.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use millstream::FailureRef;
use millstream_cluster::NetworkPart;

use crate::event::Happening;
use crate::fabric::Fabric;

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
    pub(crate) fn new(fabric: Fabric, ranks: usize, moves_data: bool) -> Self {
        Self {
            now_ns: 0,
            fabric,
            has_ended: vec![false; ranks],
            moves_data,
            events: BinaryHeap::new(),
            made: 0,
            ends: Vec::new(),
        }
    }

    /// Returns the time of the next event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.events.peek()?.0.at_ns)
    }

    /// Takes the next event, and advances the time to it.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let Reverse(event) = self.events.pop()?;
        self.now_ns = event.at_ns;
        Some(event.happening)
    }

    /// Takes the parts that have ended.
    pub(crate) fn take_ends(&mut self) -> Vec<End> {
        std::mem::take(&mut self.ends)
    }

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

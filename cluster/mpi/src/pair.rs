//! Sends and receives of a group.

use std::collections::VecDeque;

use millstream::FailureRef;
use millstream_cluster::{Announcement, EnteredContext, Operation};

use crate::pieces::{Spares, Step};
use crate::raw::{Comm, MpiError};
use crate::running::Outcome;
use crate::transfer::{Shared, Transfer};
use crate::waiting::Waiting;

/// The sends and receives of a group.
pub(crate) struct Pairs {
    comm: Comm,
    rank: usize,
    lanes: Vec<Lane>,
    /// Dropped after the transfers, which may use them.
    spares: Spares,
}

/// The transfers from a device of one rank to a device of another; this rank is one of them. They begin one after the
/// other, since the group has one stream for them; so only the first is polled, and their messages have the same tags.
struct Lane {
    sends: bool,
    /// The members that send and receive.
    members: (usize, usize),
    /// Whether the receiver needs pieces, once it has said so.
    receiver_cuts: Option<bool>,
    /// In the order of their tickets.
    calls: VecDeque<Transfer>,
}

impl Pairs {
    pub(crate) fn new(comm: Comm, rank: usize) -> Self {
        Self {
            comm,
            rank,
            lanes: Vec::new(),
            spares: Spares::default(),
        }
    }

    pub(crate) fn announce(&mut self, ticket: u64, call: Announcement) {
        let (members, sends) = match call.operation {
            Operation::Send { from, to } => ((from, to), true),
            Operation::Receive { from, to } => ((from, to), false),
            _ => return,
        };
        let (from, to) = members;
        let devices = call.devices;
        let pair = from % devices * devices + to % devices;
        let peer = if sends { to } else { from } / devices;
        let transfer = Transfer::new((ticket, call), (peer, sends), pair);
        self.lane(sends, members).calls.push_back(transfer);
    }

    fn lane(&mut self, sends: bool, members: (usize, usize)) -> &mut Lane {
        let is_it = |lane: &Lane| (lane.sends, lane.members) == (sends, members);
        let index = self.lanes.iter().position(is_it).unwrap_or_else(|| {
            self.lanes.push(Lane {
                sends,
                members,
                receiver_cuts: None,
                calls: VecDeque::new(),
            });
            self.lanes.len() - 1
        });
        &mut self.lanes[index]
    }

    /// Adds the part of a call. Returns it if there is no such call.
    pub(crate) fn begin(&mut self, ticket: u64, part: Outcome) -> Option<Outcome> {
        for lane in &mut self.lanes {
            if let Ok(index) = lane.calls.binary_search_by_key(&ticket, |call| call.ticket) {
                lane.calls[index].part = Some(part);
                return None;
            }
        }
        Some(part)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        let mut first = self.lanes.iter().filter_map(|lane| lane.calls.front());
        first.any(Transfer::is_polled)
    }

    /// Makes the context of the device current whose memory MPI accesses, if it does.
    pub(crate) fn enter(&mut self) -> Option<EnteredContext> {
        let mut first = self
            .lanes
            .iter_mut()
            .filter_map(|lane| lane.calls.front_mut());
        first.find_map(Transfer::enter)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.calls.is_empty())
    }

    /// Goes on as far as possible. Returns `true` if anything changed.
    pub(crate) fn step(&mut self) -> Result<bool, MpiError> {
        let mut changed = false;
        for lane in &mut self.lanes {
            while let Some(call) = lane.calls.front_mut() {
                let mut shared = Shared {
                    comm: self.comm,
                    rank: self.rank,
                    receiver_cuts: &mut lane.receiver_cuts,
                    spares: &mut self.spares,
                };
                match call.step(&mut shared)? {
                    Step::Waits => break,
                    Step::Changed => {}
                    Step::Done => drop(lane.calls.pop_front()),
                }
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Returns the transfers that are not over and that no other one of their direction and peer holds back.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Waiting> {
        let first = self.lanes.iter().filter_map(|lane| lane.calls.front());
        first.map(Transfer::waiting)
    }

    pub(crate) fn have_ended(&mut self) -> bool {
        let mut ended = true;
        for call in self
            .lanes
            .iter_mut()
            .filter_map(|lane| lane.calls.front_mut())
        {
            ended &= call.has_ended();
        }
        ended
    }

    /// Fails all calls. Only after [`Pairs::have_ended`].
    pub(crate) fn fail_all(&mut self, cause: &FailureRef) {
        let calls = self.lanes.iter_mut().flat_map(|lane| lane.calls.drain(..));
        for mut call in calls {
            call.fail_by(cause);
        }
    }
}

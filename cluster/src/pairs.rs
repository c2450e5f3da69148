//! Sends and receives: a stream for each direction between two members, and how the two calls of one transfer in one
//! process meet.

use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex};

use millstream::{Reason, Stream};

use crate::ClusterError;
use crate::announcement::Announcement;
use crate::call::Call;
use crate::lock;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Direction {
    Send,
    Receive,
}

impl Direction {
    /// Returns the name of the call.
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }

    /// Returns the ranks of the sender and the receiver.
    pub(crate) fn ranks(self, member: usize, peer: usize) -> (usize, usize) {
        match self {
            Self::Send => (member, peer),
            Self::Receive => (peer, member),
        }
    }

    /// Returns the place of the part among the two: the movement copies from the first.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Send => 0,
            Self::Receive => 1,
        }
    }
}

/// The sends and receives of a group.
#[derive(Default)]
pub(crate) struct Pairs {
    streams: Mutex<HashMap<(Direction, usize, usize), Stream>>,
    /// By sender and receiver: the calls whose other half has not been called.
    halves: Mutex<HashMap<(usize, usize), VecDeque<Half>>>,
}

/// A call that waits for its other half.
struct Half {
    direction: Direction,
    call: Arc<Call>,
    bytes: usize,
    place: &'static Location<'static>,
}

impl Pairs {
    /// Returns the stream of a direction between a member of this process and a rank. A stream of its own, since a send
    /// that waits for its receiver must not hold back a receive.
    pub(crate) fn stream(
        &self,
        direction: Direction,
        (member, peer): (usize, usize),
        like: &Stream,
    ) -> Stream {
        let mut streams = lock(&self.streams);
        let stream = streams.entry((direction, member, peer));
        stream.or_insert_with(|| like.client().new_stream()).clone()
    }

    /// Returns the call that a half belongs to: the one that waits for it, or a new one. Calls are made in one order, so the
    /// first half that waits is the one.
    pub(crate) fn meet(
        &self,
        direction: Direction,
        ranks: (usize, usize),
        what: &Announcement,
        new: impl FnOnce() -> Arc<Call>,
    ) -> Result<Arc<Call>, ClusterError> {
        let (bytes, place) = (what.bytes(), what.place);
        let mut halves = lock(&self.halves);
        let halves = halves.entry(ranks).or_default();
        let Some(other) = halves.pop_front_if(|half| half.direction != direction) else {
            let call = new();
            halves.push_back(Half {
                direction,
                call: call.clone(),
                bytes,
                place,
            });
            return Ok(call);
        };
        if other.bytes == bytes {
            return Ok(other.call);
        }
        let ((sent, sender), (received, receiver)) = match direction {
            Direction::Send => ((bytes, place), (other.bytes, other.place)),
            Direction::Receive => ((other.bytes, other.place), (bytes, place)),
        };
        let error = ClusterError::Unequal {
            sent: sent as u64,
            sender,
            received: received as u64,
            receiver,
        };
        let reason = Reason::Refused(error.to_string());
        other.call.fail(other.call.failure(reason));
        Err(error)
    }
}

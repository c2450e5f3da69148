//! Sends and receives: a stream for each direction between two members, and how the two calls of one transfer in one
//! process meet.

use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream::{Failure, FailureRef, Reason, Stream};

use crate::ClusterError;
use crate::call::{Call, Course};
use crate::unfinished::Unfinished;

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
    waiting: Mutex<Waiting>,
    /// Calls of which both halves were called. They may wait for each other, if a member sends and receives the same
    /// bytes.
    met: Unfinished,
}

#[derive(Default)]
struct Waiting {
    /// By sender and receiver: the calls whose other half has not been called.
    halves: HashMap<(usize, usize), VecDeque<Half>>,
    /// Whether the fleet was dropped: no half waits any more.
    ended: bool,
}

/// A call that waits for its other half.
struct Half {
    direction: Direction,
    call: Arc<Call>,
    bytes: u64,
    place: &'static Location<'static>,
}

impl Pairs {
    /// Fails the calls whose parts have not all begun, and all later ones.
    pub(crate) fn end(&self) {
        let mut waiting = self.waiting();
        waiting.ended = true;
        let halves = std::mem::take(&mut waiting.halves);
        drop(waiting);
        self.met.end();
        for half in halves.into_values().flatten() {
            half.call.fail(closed(half.direction));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stream of a direction between a member of this process and a rank. A stream of its own, since a send
    /// that waits for its receiver must not hold back a receive.
    pub(crate) fn stream(
        &self,
        direction: Direction,
        (member, peer): (usize, usize),
        like: &Stream,
    ) -> Stream {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = streams.entry((direction, member, peer));
        stream.or_insert_with(|| like.client().new_stream()).clone()
    }

    /// Returns the call that a half belongs to: the one that waits for it, or a new one with this course. Calls are made
    /// in one order, so the first half that waits is the one.
    pub(crate) fn meet(
        &self,
        direction: Direction,
        ranks: (usize, usize),
        bytes: u64,
        place: &'static Location<'static>,
        course: impl FnOnce() -> Course,
    ) -> Result<Arc<Call>, ClusterError> {
        let mut waiting = self.waiting();
        let ended = waiting.ended;
        let halves = waiting.halves.entry(ranks).or_default();
        let Some(other) = halves.pop_front_if(|half| half.direction != direction) else {
            let call = Call::new(direction.call(), course(), 2);
            match ended {
                true => call.fail(closed(direction)),
                false => halves.push_back(Half {
                    direction,
                    call: call.clone(),
                    bytes,
                    place,
                }),
            }
            return Ok(call);
        };
        drop(waiting);
        self.met.add(&other.call);
        if other.bytes == bytes {
            return Ok(other.call);
        }
        let ((sent, sender), (received, receiver)) = match direction {
            Direction::Send => ((bytes, place), (other.bytes, other.place)),
            Direction::Receive => ((other.bytes, other.place), (bytes, place)),
        };
        let error = ClusterError::Unequal {
            sent,
            sender,
            received,
            receiver,
        };
        let reason = Reason::Refused(error.to_string());
        other
            .call
            .fail(Failure::not_run(&other.direction.call().into(), reason));
        Err(error)
    }
}

/// The failure of a call whose other half cannot come any more.
fn closed(direction: Direction) -> FailureRef {
    Failure::not_run(&direction.call().into(), Reason::Closed)
}

//! Sends and receives: a stream for each direction between two members, and how the two calls of one transfer in one
//! process meet.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use millstream::{Reason, Stream};

use crate::ClusterError;
use crate::announcement::{Announcement, Operation};
use crate::call::Call;
use crate::lock;

/// The sends and receives of a group.
#[derive(Default)]
pub(crate) struct Pairs {
    /// One of each send and receive, since a send that waits for its receiver must not hold back a receive.
    streams: Mutex<HashMap<Operation, Stream>>,
    halves: Mutex<Halves>,
}

/// By sender and receiver: the calls whose other half has not been called.
type Halves = HashMap<(usize, usize), VecDeque<Arc<Call>>>;

impl Pairs {
    /// Returns the stream of a send or a receive, of the client of `like`.
    pub(crate) fn stream(&self, operation: Operation, like: &Stream) -> Stream {
        let mut streams = lock(&self.streams);
        let stream = streams.entry(operation);
        stream.or_insert_with(|| like.client().new_stream()).clone()
    }

    /// Returns the call that a half belongs to: the one that waits for it, or a new one. Calls are made in one order, so the
    /// first half that waits is the one.
    pub(crate) fn meet(
        &self,
        ranks: (usize, usize),
        what: &Announcement,
        new: impl FnOnce() -> Arc<Call>,
    ) -> Result<Arc<Call>, ClusterError> {
        let other = {
            let mut halves = lock(&self.halves);
            let halves = halves.entry(ranks).or_default();
            let Some(other) = halves.pop_front_if(|half| half.what.operation != what.operation)
            else {
                let call = new();
                halves.push_back(call.clone());
                return Ok(call);
            };
            other
        };
        if other.what.bytes() == what.bytes() {
            return Ok(other);
        }
        let (send, receive) = match what.operation {
            Operation::Send { .. } => (what, &other.what),
            _ => (&other.what, what),
        };
        let error = ClusterError::Unequal {
            sent: send.bytes() as u64,
            sender: send.place,
            received: receive.bytes() as u64,
            receiver: receive.place,
        };
        other.fail(other.failure(Reason::Refused(error.to_string())));
        Err(error)
    }
}

//! Requests to the device itself.

use std::time::Duration;

use millstream_sync::facade::{Mutex, lock};
use millstream_sync::reply::ReplySender;

use super::{Reply, Ticket};
use crate::error::Error;
use crate::id::{ClientId, Point, StreamId};
use crate::journal::SubmissionLog;
use crate::metrics::Metrics;
use crate::profile::Profile;
use crate::report::{MemoryReport, Stats, TraceSpan};

/// A query of the device, or a command that concerns no single stream.
pub enum DeviceRequest {
    /// Answers with the points at which all tasks of the scope have completed.
    Sync {
        /// The streams.
        scope: Scope,
        /// The receiver of the ticket.
        reply: Reply,
    },
    /// Submits the held tasks of the scope. Naming a stream twice has no further effect.
    Flush {
        /// The streams.
        scope: Scope,
    },
    /// Queries the counters.
    Stats(ReplySender<Result<Stats, Error>>),
    /// Queries everything that is counted and measured.
    Metrics {
        /// Messages in the mailbox when the request was made.
        mailbox_depth: u64,
        /// The receiver of the metrics.
        reply: ReplySender<Result<Metrics, Error>>,
    },
    /// Queries the memory usage, of the device and of each client.
    Memory(ReplySender<Result<MemoryReport, Error>>),
    /// Returns unused pages to the device; answers with their bytes.
    Cleanup(ReplySender<Result<u64, Error>>),
    /// Reports that a compilation found the device lost, which the device thread may not know yet.
    Lost(ReplySender<Result<(), Error>>),
    /// Takes the submission log so far.
    Log(ReplySender<Result<SubmissionLog, Error>>),
    /// Takes the spans recorded so far.
    Trace(ReplySender<Result<Vec<TraceSpan>, Error>>),
    /// Starts a profile of the tasks that these streams are sent from here on.
    StartProfile {
        /// The number of the profile's token.
        number: u64,
        /// The streams.
        scope: Scope,
    },
    /// Ends a profile: tasks that are sent from here on are not part of it.
    EndProfile {
        /// The number of the profile's token.
        number: u64,
        /// The time between the calls that started and ended the profile.
        calls: Duration,
        /// The receiver of the profile, after the last of its tasks has completed.
        reply: ReplySender<Result<Profile, Error>>,
    },
}

/// The streams that a request concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Some streams.
    Streams(Vec<StreamId>),
    /// All streams of a client.
    Client(ClientId),
    /// All streams of the device.
    Device,
}

// The answer to a sync over several streams whose tasks could not all be issued at once.
//
// Each of these streams carries one part, as a task in its own order. The part that is issued last sends the answer,
// so a sync needs no thread: neither its parts nor its answer run user code. If a part is dropped (the device is lost
// or closed), no answer can be sent, and dropping the last part drops the sender, which is an answer too (I5).
//
// If the parts were host functions, blocked host functions of other clients would hold up the answer.

/// What the parts of one sync share.
pub struct SyncParts(Mutex<Option<Missing>>);

struct Missing {
    reply: Reply,
    ticket: Ticket,
    /// The number of parts that were not issued.
    parts: usize,
}

impl SyncParts {
    /// Creates the answer of `parts` parts. `ticket` has the points of what was issued before.
    pub fn new(reply: Reply, ticket: Ticket, parts: usize) -> Self {
        Self(Mutex::new(Some(Missing {
            reply,
            ticket,
            parts,
        })))
    }

    /// Notes that a part was issued and ends at `point`. Returns the reply and its ticket if no part is missing any
    /// more.
    pub fn issued(&self, point: Point) -> Option<(Reply, Ticket)> {
        let mut place = lock(&self.0);
        let mut missing = place.take()?;
        let points = &mut missing.ticket.points;
        match points.iter_mut().find(|other| other.queue == point.queue) {
            Some(other) => other.cursor = other.cursor.max(point.cursor),
            None => points.push(point),
        }
        missing.parts -= 1;
        if missing.parts == 0 {
            return Some((missing.reply, missing.ticket));
        }
        *place = Some(missing);
        None
    }
}

//! Requests to the device itself.

use std::time::Duration;

use millstream_sync::reply::ReplySender;

use super::Reply;
use crate::error::Error;
use crate::id::{ClientId, StreamId};
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

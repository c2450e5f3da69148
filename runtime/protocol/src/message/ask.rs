//! Asks of the device itself.

use std::time::Duration;

use millstream_sync::reply::ReplySender;

use super::Reply;
use crate::error::Error;
use crate::id::{ClientId, StreamId};
use crate::journal::SubmissionLog;
use crate::metrics::Metrics;
use crate::profile::Profile;
use crate::report::{MemoryReport, Stats, TraceSpan};

/// A question to the device itself, or an order that concerns no stream.
pub enum Ask {
    /// When everything of these streams, of a client, or of all has completed.
    Sync {
        /// Whose work.
        scope: Scope,
        /// Who is told.
        reply: Reply,
    },
    /// Submit what these streams hold. Naming one twice is no different from naming it once.
    Flush {
        /// Whose work.
        scope: Scope,
    },
    /// Counters.
    Stats(ReplySender<Result<Stats, Error>>),
    /// Everything that is counted and measured.
    Metrics {
        /// Messages in the mailbox when it was asked.
        mailbox_depth: u64,
        /// Who is told.
        reply: ReplySender<Result<Metrics, Error>>,
    },
    /// Memory, whole and per client.
    Memory(ReplySender<Result<MemoryReport, Error>>),
    /// Give unused pages back; answers with the bytes.
    Cleanup(ReplySender<Result<u64, Error>>),
    /// A compilation met a lost device, which nobody on the device's thread may have met yet.
    Lost(ReplySender<Result<(), Error>>),
    /// The submissions logged so far.
    Log(ReplySender<Result<SubmissionLog, Error>>),
    /// The spans recorded so far.
    Trace(ReplySender<Result<Vec<TraceSpan>, Error>>),
    /// What these streams are sent from here on is a profile's.
    StartProfile {
        /// The number of its token.
        number: u64,
        /// Whose work.
        scope: Scope,
    },
    /// What is sent from here on is not.
    EndProfile {
        /// The number of its token.
        number: u64,
        /// Between the calls that started it and that ended it.
        calls: Duration,
        /// Who is told, once the last task of it is over.
        reply: ReplySender<Result<Profile, Error>>,
    },
}

/// Whose work an ask is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Some streams.
    Streams(Vec<StreamId>),
    /// All streams of a client.
    Client(ClientId),
    /// Everything.
    Device,
}

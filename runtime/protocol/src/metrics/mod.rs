//! What can be told of a device at one moment, as plain numbers: depths, sizes, waits, bytes, faults, lags, latencies.
//!
//! | file | what |
//! | --- | --- |
//! | `histogram` | how often which values were recorded |
//! | `faults` | failed tasks by reason |
//!
//! Counters are kept in any case: they are adds on the device's thread, and where a task fails. Times are taken only of a device that was
//! opened with [`DeviceOptions::sample_latencies`](crate::options::DeviceOptions::sample_latencies).

mod faults;
mod histogram;

use std::sync::Arc;

pub use faults::{FaultCounts, SharedFaults};
pub use histogram::{Histogram, SharedHistogram};

use crate::id::ClientId;
use crate::report::{ClientMemory, Stats};

/// Everything that a device counts and measures, as of one moment of its mailbox's order. Counters and histograms are of the epoch:
/// they begin at nothing when a lost device is opened again.
///
/// ```
/// # use millstream_client::ComputeClient;
/// # fn f(client: &ComputeClient) -> Result<(), millstream_protocol::error::Error> {
/// let metrics = client.metrics().wait()?;
/// for (number, queue) in metrics.stats.queues.iter().enumerate() {
///     println!("queue {number}: {} of {} in flight", queue.in_flight(), queue.in_flight_max);
/// }
/// println!("median batch: {} tasks", metrics.batch_sizes.quantile(0.5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Which epoch this is of.
    pub epoch: u64,
    /// Counters of the device, its memory, and depths of its queues.
    pub stats: Stats,
    /// Messages that were in the mailbox when this was asked for.
    pub mailbox_depth: u64,
    /// The most that it holds.
    pub mailbox_capacity: u64,
    /// How many cursors the batches had that queues were given. Tasks of a replay have one each.
    pub batch_sizes: Histogram,
    /// Each client that has, or had, a stream or memory, and is not gone; by number.
    pub clients: Vec<ClientMetrics>,
    /// Tasks that failed, by reason.
    pub faults: FaultCounts,
    /// Live slices whose data is wholly or partly the failure of a task.
    pub slices_poisoned: u64,
    /// What was dropped and is not free yet.
    pub collection: Collection,
    /// Latencies, where they are sampled.
    pub latencies: Option<Latencies>,
}

/// One client.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientMetrics {
    /// Its name; empty where the device was told none.
    pub name: Arc<str>,
    /// Its live streams.
    pub streams: u64,
    /// What its streams have issued or done: tasks, points, answers, host functions, and reservations that had to wait.
    pub tasks: u64,
    /// What its streams hold.
    pub tasks_held: u64,
    /// Its memory, padding included. Pages are shared, so there is none that is reserved for a client alone: what its slices take of
    /// them is in use, and what they have left free is anybody's.
    pub memory: ClientMemory,
}

impl ClientMetrics {
    /// Of a client with this name, memory and nothing else.
    pub fn new(name: Arc<str>, memory: ClientMemory) -> Self {
        Self {
            name,
            streams: 0,
            tasks: 0,
            tasks_held: 0,
            memory,
        }
    }

    /// Its number.
    pub fn client(&self) -> ClientId {
        self.memory.client
    }
}

/// What was dropped and is not free yet: how far the device is behind in cleaning up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Collection {
    /// Things whose last handle is gone, but not every message that could name them: the device has not dropped them.
    pub drops_ahead: u64,
    /// Slices that were dropped, and that a task uses which has not completed. Their bytes are
    /// [`MemoryUsage::waiting`](crate::report::MemoryUsage::waiting); those that a stream holds a task on are still counted as in use.
    pub slices_waiting: u64,
    /// Values that were given to be dropped after tasks, code of kernels among them, and have not been. Those that a lost device
    /// keeps for ever are not among them.
    pub values_waiting: u64,
    /// How long the slice has waited that has waited longest, in nanoseconds, where latencies are sampled and any waits.
    pub slice_waits_ns_max: Option<u64>,
}

/// How long things take, in nanoseconds of the host's clock: what a user of the device would see, not what it takes on the device, which
/// [profiles](crate::profile) tell.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Latencies {
    /// One task of so many was followed: launches, copies, fills, custom tasks, and replays as a whole. 1 means all.
    pub every: u64,
    /// Of those, tasks that could not be followed to their end, because 64 were in flight already. `queued_ns` has them nevertheless.
    pub missed: u64,
    /// From when the device took a task out of the mailbox until it gave it to a queue: for its stream's turn, for memory, behind others, or
    /// for room in the queue. Nothing, of one that went straight through.
    pub queued_ns: Histogram,
    /// From when a queue got a task until its completion was published.
    pub runs_ns: Histogram,
    /// From when the device dropped a slice that tasks still used until its memory and its place were free. Of each such slice.
    pub slice_waits_ns: Histogram,
    /// From when the GC actor was given a value until it dropped it. Of each value.
    pub value_waits_ns: Histogram,
}

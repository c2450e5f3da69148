//! The metrics of a device at one moment, as plain numbers: depths, sizes, waits, bytes, faults, lags, latencies.
//!
//! Counters are always kept: they are additions on the device thread, and where a task fails. Times are taken only if
//! the device was opened with [`DeviceOptions::sample_latencies`](crate::options::DeviceOptions::sample_latencies).

mod histogram;

use std::sync::Arc;

use millstream_sync::facade::{Mutex, lock};

use crate::failure::Reason;
use crate::id::ClientId;
use crate::report::{ClientMemory, Stats};

pub use histogram::Histogram;

/// Everything that a device counts and measures, as of one position in the order of its mailbox. Counters and
/// histograms cover the epoch: they start at zero when a lost device is opened again.
///
/// ```
/// # use millstream_client::ComputeClient;
/// # fn f(client: &ComputeClient) -> Result<(), millstream_protocol::Error> {
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
    /// The number of the epoch.
    pub epoch: u64,
    /// The counters of the device, its memory, and the depths of its queues.
    pub stats: Stats,
    /// Messages in the mailbox when the metrics were requested.
    pub mailbox_depth: u64,
    /// The capacity of the mailbox, in messages.
    pub mailbox_capacity: u64,
    /// The number of cursors in each batch that a queue received. Each task of a replay has a cursor.
    pub batch_sizes: Histogram,
    /// Each client that has, or had, a stream or memory, and is not dropped; by number.
    pub clients: Vec<ClientMetrics>,
    /// Tasks that failed, by reason.
    pub faults: FaultCounts,
    /// Live slices with poisoned ranges.
    pub slices_poisoned: u64,
    /// Objects that were dropped and are not free yet.
    pub collection: Collection,
    /// Latencies, if they are sampled.
    pub latencies: Option<Latencies>,
}

/// The metrics of one client.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientMetrics {
    /// Its name; empty if the device does not know it.
    pub name: Arc<str>,
    /// Its live streams.
    pub streams: u64,
    /// Tasks that its streams have issued or completed: tasks, points, answers, host functions, and reservations that
    /// had to wait.
    pub tasks: u64,
    /// Tasks that its streams hold.
    pub tasks_held: u64,
    /// Its memory, including padding. Clients share pages, so no page is reserved for one client: the slices of a
    /// client are in use, and any client may use the free rest of their pages.
    pub memory: ClientMemory,
}

impl ClientMetrics {
    /// Creates the metrics of a client with this name and memory, and zero elsewhere.
    pub fn new(name: Arc<str>, memory: ClientMemory) -> Self {
        Self {
            name,
            streams: 0,
            tasks: 0,
            tasks_held: 0,
            memory,
        }
    }

    /// Returns the number of the client.
    pub fn client(&self) -> ClientId {
        self.memory.client
    }
}

/// Objects that were dropped and are not free yet: the lag of cleaning up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Collection {
    /// Objects without handles that the device has not dropped yet, because messages that may name them are still in
    /// the mailbox.
    pub drops_ahead: u64,
    /// Dropped slices that a task uses which has not completed. Their bytes are
    /// [`MemoryUsage::waiting`](crate::report::MemoryUsage::waiting). Slices of held tasks still count as in use.
    pub slices_waiting: u64,
    /// Values that wait to be dropped after tasks, including the code of kernels. Values that a lost device keeps for
    /// ever do not count.
    pub values_waiting: u64,
    /// The age of the slice that has waited longest, in nanoseconds, if latencies are sampled and a slice waits.
    pub slice_waits_ns_max: Option<u64>,
}

/// Latencies in nanoseconds of the host's clock: as a user of the device observes them. [Profiles](crate::Profile)
/// have the times on the device.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Latencies {
    /// One task in `every` is sampled: launches, copies, fills, custom tasks, and replays as a whole. 1 means all
    /// tasks.
    pub every: u64,
    /// Sampled tasks whose end was not observed, because 64 samples were in flight already. They are part of
    /// `queued_ns`.
    pub missed: u64,
    /// The time from admission until the task is issued to a queue: the wait for its stream's turn, for memory,
    /// behind other tasks, or for room in the queue. Zero for a task that is issued at once.
    pub queued_ns: Histogram,
    /// The time from issue until the completion is published.
    pub runs_ns: Histogram,
    /// The time from the drop of a slice that tasks still used until its memory and its slot were free. Of every such
    /// slice.
    pub slice_waits_ns: Histogram,
    /// The time from when the server gave a value up until the GC actor dropped it. Of every value.
    pub value_waits_ns: Histogram,
}

// Failed tasks by reason, counted on the thread where they fail.

/// Failed tasks by [`Reason`], including slices that got no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FaultCounts {
    /// The device had no memory.
    pub out_of_memory: u64,
    /// User code panicked.
    pub panicked: u64,
    /// Data that they read was poisoned.
    pub input: u64,
    /// The device refused them, or another rank ended their collective.
    pub refused: u64,
    /// The device was lost.
    pub lost: u64,
    /// They were passed a parameter of a recording outside of a replay.
    pub parameter: u64,
    /// They were cancelled before they began.
    pub cancelled: u64,
    /// Their deadline passed before they began.
    pub deadline_passed: u64,
}

impl FaultCounts {
    /// Returns all counts with the names of their reasons, which label the metrics.
    pub fn by_reason(&self) -> [(&'static str, u64); 8] {
        [
            ("out_of_memory", self.out_of_memory),
            ("panicked", self.panicked),
            ("input", self.input),
            ("refused", self.refused),
            ("lost", self.lost),
            ("parameter", self.parameter),
            ("cancelled", self.cancelled),
            ("deadline_passed", self.deadline_passed),
        ]
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

/// Fault counts that any thread may increment.
#[derive(Default)]
pub struct SharedFaults(Mutex<FaultCounts>);

impl SharedFaults {
    /// Counts a task that failed for this reason.
    #[cold]
    pub fn count(&self, reason: &Reason) {
        let mut counts = lock(&self.0);
        let count = match reason {
            Reason::OutOfMemory { .. } => &mut counts.out_of_memory,
            Reason::Panicked(_) => &mut counts.panicked,
            Reason::Input => &mut counts.input,
            Reason::Refused(_) | Reason::Remote(_) => &mut counts.refused,
            // No metrics are requested of a closed device.
            Reason::Lost | Reason::Closed => &mut counts.lost,
            Reason::Parameter => &mut counts.parameter,
            Reason::Cancelled => &mut counts.cancelled,
            Reason::DeadlinePassed => &mut counts.deadline_passed,
        };
        *count += 1;
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> FaultCounts {
        *lock(&self.0)
    }
}

//! What a device tells of itself: asks, statistics, timelines, the report of a close.

use std::sync::Arc;
use std::time::Duration;

use crate::id::ClientId;

/// Counters of a device since it was opened. Plain numbers; taking them costs one message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Tasks issued to queues.
    pub tasks: u64,
    /// Batches: runs of tasks handed to a queue together.
    pub batches: u64,
    /// Kernel launches among the tasks.
    pub launches: u64,
    /// Event waits issued between queues.
    pub waits_issued: u64,
    /// Hazards between queues that needed no wait, because a clock or a completion implied it.
    pub waits_implied: u64,
    /// Tasks that had to be held in software behind a task that was not issued yet.
    pub tasks_parked: u64,
    /// Tasks that failed before they reached a queue.
    pub failures: u64,
    /// Tasks that were cancelled, or whose deadline passed, before they were issued.
    pub withdrawn: u64,
    /// How often a client went above its soft limit.
    pub soft_limit_crossings: u64,
    /// Values, given to be dropped after work of a lost epoch that will never have ended, that are kept for ever;
    /// of all epochs of the device.
    pub values_parked: u64,
    /// Bytes in pages that lost epochs were left with: nothing of them is touched any more.
    pub bytes_left: u64,
    /// Live streams.
    pub streams: u64,
    /// Tasks that streams hold right now.
    pub tasks_held: u64,
    /// Memory.
    pub memory: MemoryUsage,
    /// Per queue.
    pub queues: Vec<QueueStats>,
}

/// Counters of one queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Tasks issued.
    pub tasks: u64,
    /// Tasks completed.
    pub completed: u64,
    /// The most tasks that it has in flight; fewer while a profile is open, on some devices.
    pub in_flight_max: u64,
    /// Tasks that the streams which sit there hold.
    pub held: u64,
    /// Streams that sit there.
    pub streams: u64,
    /// Time in which the queue ran tasks, in nanoseconds, where the backend measures it.
    pub busy_ns: u64,
}

impl QueueStats {
    /// Tasks that it was given and that have not completed.
    pub fn in_flight(&self) -> u64 {
        self.tasks.saturating_sub(self.completed)
    }
}

/// Memory of a device, in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// In live slices, padding included.
    pub in_use: u64,
    /// In pages taken from the device.
    pub reserved: u64,
    /// Lost to rounding within live slices.
    pub padding: u64,
    /// In dropped slices whose last task has not completed.
    pub waiting: u64,
    /// The most that was ever in use.
    pub high_water: u64,
    /// Live slices.
    pub live_slices: u64,
}

/// Memory of a device and of each of its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The whole device.
    pub device: MemoryUsage,
    /// Each client that has had any, or has a soft limit.
    pub clients: Vec<ClientMemory>,
    /// Bytes of memory of the host that are kept for uploads to come
    /// ([`staging_bytes`](crate::options::DeviceOptions::staging_bytes)).
    pub staging: u64,
}

/// Memory of one client, in bytes, padding included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientMemory {
    /// Whose.
    pub client: ClientId,
    /// In its live slices.
    pub in_use: u64,
    /// The most it ever had.
    pub high_water: u64,
    /// How much it may have before others go first, if that was said.
    pub soft_limit: Option<u64>,
}

impl ClientMemory {
    /// Of a client that has none.
    pub fn of(client: ClientId) -> Self {
        Self {
            client,
            in_use: 0,
            high_water: 0,
            soft_limit: None,
        }
    }

    /// Bytes above its soft limit.
    pub fn above_soft_limit(&self) -> u64 {
        self.soft_limit
            .map_or(0, |limit| self.in_use.saturating_sub(limit))
    }
}

/// One task on the timeline, in nanoseconds since the device was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceSpan {
    /// The kernel's name, or what the task did.
    pub name: Arc<str>,
    /// The number of the stream's client.
    pub client: u32,
    /// What that client is called.
    pub client_name: Arc<str>,
    /// The stream's number.
    pub stream: u64,
    /// Whether the stream had ended when the span was told: its handles were dropped.
    pub stream_ended: bool,
    /// The queue.
    pub queue: u32,
    /// Its place in the queue: later tasks have greater ones.
    pub cursor: u64,
    /// When it started.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The tasks of other queues that the device was told to wait for before it. What needed no wait is not among them.
    pub waits: Vec<TraceWait>,
}

/// A task that another one waited for, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceWait {
    /// Its queue.
    pub queue: u32,
    /// Its place in the queue.
    pub cursor: u64,
}

/// What was left when a device was closed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Did everything drain within the time?
    pub drained: bool,
    /// How long it took.
    pub took: Duration,
    /// Tasks that were accepted and never issued; their outputs say so.
    pub tasks_left: u64,
    /// Slices that handles still hold.
    pub slices_held: u64,
    /// Bytes in pages that went back to the device, those of slices that handles still hold included.
    pub bytes_freed: u64,
    /// Bytes in pages that did not go back: a lost device keeps them, and one that did not drain while work in flight, user code or
    /// guards may use them.
    pub bytes_left: u64,
    /// Values, given to be dropped after work that will never have ended, that are kept for ever: the device
    /// may be using them.
    pub values_parked: u64,
    /// Threads of the device that have not ended. Where it did not drain, its own thread is one of them: it waits for the rest, then
    /// frees the memory and ends the others.
    pub threads_left: u64,
}

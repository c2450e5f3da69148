//! What a device reports about itself: statistics, memory usage, traces, and the report of a close.

use std::sync::Arc;
use std::time::Duration;

use crate::id::ClientId;

/// Counters of a device since it was opened. A query costs one message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Tasks issued to queues.
    pub tasks: u64,
    /// Batches: runs of tasks that a queue received together.
    pub batches: u64,
    /// Kernel launches among the tasks.
    pub launches: u64,
    /// Waits for events that were issued between queues.
    pub waits_issued: u64,
    /// Hazards between queues that needed no wait, because a clock or a completion implied the order.
    pub waits_implied: u64,
    /// Tasks that were held in software behind a task that was not issued yet.
    pub tasks_parked: u64,
    /// Tasks that failed before they reached a queue.
    pub failures: u64,
    /// Tasks that were cancelled, or whose deadline passed, before they began.
    pub withdrawn: u64,
    /// The number of times a client went above its soft limit.
    pub soft_limit_crossings: u64,
    /// Values that are kept for ever, because they were to be dropped after work of a lost epoch that will never
    /// complete; over all epochs of the device.
    pub values_parked: u64,
    /// Bytes of pages that lost epochs kept. They are not accessed any more.
    pub bytes_left: u64,
    /// Live streams.
    pub streams: u64,
    /// Tasks that streams hold at the moment.
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
    /// The most tasks that the queue may have in flight at once: an upper bound, not a target. A queue with fewer tasks
    /// in flight may well be busy all the time; `busy_ns` tells that. On some devices the bound is lower while a profile
    /// is open.
    pub in_flight_max: u64,
    /// Tasks that the streams of this queue hold.
    pub held: u64,
    /// Streams that are assigned to this queue.
    pub streams: u64,
    /// The time in which the queue ran tasks, in nanoseconds; 0 if the backend does not measure it.
    pub busy_ns: u64,
}

impl QueueStats {
    /// Returns the number of tasks that were issued and have not completed.
    pub fn in_flight(&self) -> u64 {
        self.tasks.saturating_sub(self.completed)
    }
}

/// Memory of a device, in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Bytes in live slices, including padding.
    pub in_use: u64,
    /// Bytes in pages allocated from the device.
    pub reserved: u64,
    /// Bytes lost to rounding within live slices.
    pub padding: u64,
    /// Bytes in dropped slices whose last task has not completed.
    pub waiting: u64,
    /// The maximum of `in_use` so far.
    pub high_water: u64,
    /// Live slices.
    pub live_slices: u64,
}

/// The memory of a device and of each of its clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The usage of the whole device.
    pub device: MemoryUsage,
    /// The usage of each client that has had any memory, or has a soft limit.
    pub clients: Vec<ClientMemory>,
    /// Bytes of host memory that are kept for future uploads
    /// ([`staging_bytes`](crate::options::DeviceOptions::staging_bytes)).
    pub staging: u64,
}

/// The memory of one client, in bytes, including padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientMemory {
    /// The client.
    pub client: ClientId,
    /// Bytes in its live slices.
    pub in_use: u64,
    /// The maximum of `in_use` so far.
    pub high_water: u64,
    /// The number of bytes that it may use before other clients are served first, if it has a soft limit.
    pub soft_limit: Option<u64>,
}

impl ClientMemory {
    /// Creates the report of a client without memory.
    pub fn of(client: ClientId) -> Self {
        Self {
            client,
            in_use: 0,
            high_water: 0,
            soft_limit: None,
        }
    }

    /// Returns the bytes above the soft limit.
    pub fn above_soft_limit(&self) -> u64 {
        self.soft_limit
            .map_or(0, |limit| self.in_use.saturating_sub(limit))
    }
}

/// One task in a trace, in nanoseconds since the device was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceSpan {
    /// The name of the kernel, or of the operation.
    pub name: Arc<str>,
    /// The number of the stream's client.
    pub client: u32,
    /// The name of that client.
    pub client_name: Arc<str>,
    /// The stream's number.
    pub stream: u64,
    /// Whether the stream had ended when the trace was taken: its handles were dropped.
    pub stream_ended: bool,
    /// The queue.
    pub queue: u32,
    /// The cursor: later tasks of the queue have greater ones.
    pub cursor: u64,
    /// The start.
    pub start_ns: u64,
    /// The end.
    pub end_ns: u64,
    /// The tasks of other queues that the device waited for before this one. Implied waits are not included.
    pub waits: Vec<TraceWait>,
}

/// The point of a task that another task waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceWait {
    /// The queue of the task.
    pub queue: u32,
    /// The cursor of the task.
    pub cursor: u64,
}

/// The state of a device after its close.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Whether all work completed within the time limit.
    pub drained: bool,
    /// The time that the close took.
    pub took: Duration,
    /// Tasks that were accepted and never issued; their outputs carry the failure. After a loss also host functions that
    /// were running.
    pub tasks_left: u64,
    /// Slices that handles still hold.
    pub slices_held: u64,
    /// Bytes of pages that were returned to the device, including those of slices that handles still hold.
    pub bytes_freed: u64,
    /// Bytes of pages that were not returned: a lost device keeps them, and so does one that did not drain while work
    /// in flight, user code or guards may use them.
    pub bytes_left: u64,
    /// Values that are kept for ever, because the device may still use them: they were to be dropped after work that
    /// will never complete.
    pub values_parked: u64,
    /// Threads of the device that have not ended. If the device did not drain, its own thread is one of them: it
    /// waits for the rest, then frees the memory and ends the other threads. If it drained, they run user code, or release
    /// what a driver releases only after other work.
    pub threads_left: u64,
}

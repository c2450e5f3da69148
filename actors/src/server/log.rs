//! Log messages, through `tracing`. They are formatted only if they are wanted: a silent log costs one comparison.

use millstream_protocol::{Backend, Binding, ClientId, ClientMemory, LogLevel, Point, QueueId};

use super::Server;
use super::admit::FlushReason;

impl<B: Backend> Server<B> {
    /// Level basic: a stream is flushed, and why.
    #[inline]
    pub(super) fn log_flush(&self, stream: u32, reason: FlushReason) {
        if self.observers.logs.streams >= LogLevel::Basic {
            let actor = self.scheduler.stream(stream);
            tracing::debug!(target: "millstream::streams", stream = actor.number, queue = actor.queue.0, tasks = actor.holds(), why = ?reason, "flush");
        }
    }

    /// Level basic: a queue waits for a point.
    #[inline]
    pub(super) fn log_wait(&self, queue: QueueId, point: Point) {
        if self.observers.logs.streams >= LogLevel::Basic {
            tracing::debug!(target: "millstream::streams", queue = queue.0, on = point.queue.0, cursor = point.cursor, "wait");
        }
    }

    /// Level full: a binding conflicts with a held task.
    #[inline]
    pub(super) fn log_conflict(&self, stream: u32, other: u32, binding: &Binding) {
        if self.observers.logs.streams >= LogLevel::Full {
            let (stream, other) = (
                self.scheduler.stream(stream).number,
                self.scheduler.stream(other).number,
            );
            tracing::trace!(target: "millstream::streams", stream, other, slice = binding.slice.index(), start = binding.offset, bytes = binding.len, access = %binding.access, "shared binding: the other stream holds a conflicting task");
        }
    }

    /// Always: a client has crossed its soft limit.
    #[cold]
    pub(super) fn log_crossing(&self, client: ClientId) {
        let ClientMemory {
            in_use, soft_limit, ..
        } = self.memory.accounts.of(client);
        tracing::warn!(target: "millstream::memory", client = client.0, in_use, soft_limit, "the client is above its soft limit");
    }

    /// Level basic: memory is reserved or freed, or a reservation fails.
    #[inline]
    pub(super) fn log_memory(&self, what: &'static str, bytes: u64) {
        if self.observers.logs.memory >= LogLevel::Basic {
            tracing::debug!(target: "millstream::memory", bytes, what);
        }
    }
}

//! Answers to queries about the device.

use std::sync::Arc;

use millstream_protocol::{
    Backend, DeviceRequest, Error, MemoryReport, Op, QueueStats, Reply, Scope, SyncParts, Task,
    Ticket,
};

use super::Server;
use super::op_flags::OpFlags;
use millstream_state::observers::log_writer::LogWriter;

impl<B: Backend> Server<B> {
    /// Answers a request. An answer to a caller that has gone away is dropped.
    pub(super) fn answer_request(&mut self, request: DeviceRequest) {
        // A caller that drops a value and then queries must observe the drop.
        self.process_all_drops();
        match request {
            DeviceRequest::Sync { scope, reply } => self.sync(&scope, reply),
            DeviceRequest::Flush { scope } => {
                let streams = self.streams_of(&scope);
                self.flush_keys(&streams);
            }
            DeviceRequest::Stats(reply) => {
                self.progress();
                reply.send(Ok(self.stats()));
            }
            DeviceRequest::Metrics {
                mailbox_depth,
                reply,
            } => {
                self.progress();
                reply.send(Ok(self.metrics(mailbox_depth)));
            }
            DeviceRequest::Memory(reply) => {
                self.progress();
                let mut report = MemoryReport::default();
                report.clients.extend(self.memory.accounts.iter());
                report.clients.sort_unstable_by_key(|memory| memory.client);
                report.device = self.memory.pools.usage();
                report.staging = self.table.sink().staging.bytes_kept();
                reply.send(Ok(report));
            }
            DeviceRequest::Cleanup(reply) => {
                self.progress();
                let bytes = self.free_pages();
                self.table.sink().staging.clear();
                reply.send(Ok(bytes));
            }
            DeviceRequest::Lost(reply) => {
                self.device.mark_lost("a compilation found the device lost");
                reply.send(Err(self.device.gone.error()));
            }
            DeviceRequest::Log(reply) => {
                let log = self.device.log().map(LogWriter::take);
                reply.send(log.ok_or(Error::NoLog));
            }
            DeviceRequest::Trace(reply) => reply.send(Ok(self.take_trace())),
            DeviceRequest::StartProfile { number, scope } => self.start_profile(number, scope),
            DeviceRequest::EndProfile {
                number,
                calls,
                reply,
            } => self.end_profile(number, calls, reply),
        }
    }

    /// Answers once all streams of the scope have issued the tasks that they hold now. Each stream that still holds
    /// tasks after a flush carries a part of the answer in its own order, and the last part sends the answer. A part is
    /// issued to a queue as a point is, so that host functions of others cannot delay it.
    fn sync(&mut self, scope: &Scope, reply: Reply) {
        let mut streams = self.streams_of(scope);
        // For a client these are the points of all queues: work of its dropped streams is there, too.
        let mut points = match scope {
            Scope::Streams(_) => self.scheduler.ends_of(&streams),
            Scope::Client(_) | Scope::Device => self.scheduler.ends(),
        };
        streams.retain(|key| self.scheduler.holds_any(*key));
        if !streams.is_empty() {
            self.flush_keys(&streams);
            streams.retain(|key| self.scheduler.holds_any(*key));
            points = self.scheduler.ends();
        }
        let ticket = Ticket {
            points: points.iter().collect(),
        };
        if streams.is_empty() {
            return reply.send(Ok(ticket));
        }
        let parts = Arc::new(SyncParts::new(reply, ticket, streams.len()));
        for stream in streams {
            let id = self.scheduler.stream(stream).id;
            let mut part = Task::new(Some(id), Op::SyncPart(parts.clone()));
            let flags = OpFlags::of(&part.op);
            self.admit_task(&mut part, flags, false);
        }
    }

    pub(super) fn flush_keys(&mut self, streams: &[u32]) {
        for stream in streams {
            self.flush_stream(*stream);
        }
    }

    pub(super) fn streams_of(&self, scope: &Scope) -> Vec<u32> {
        match scope {
            Scope::Streams(ids) => ids
                .iter()
                .filter_map(|id| self.objects.stream(*id))
                .collect(),
            Scope::Client(client) => self.scheduler.streams_of_client(*client),
            Scope::Device => self.scheduler.keys(),
        }
    }

    pub(super) fn queue_stats(&self) -> Vec<QueueStats> {
        let mut stats = self.scheduler.queue_stats();
        for (id, stats) in self.scheduler.queue_ids().zip(&mut stats) {
            stats.busy_ns = self.device.backend.busy_ns(id);
        }
        stats
    }
}

//! Control messages: answers to queries about the device, and registrations of objects.

use std::sync::Arc;

use millstream_protocol::{
    Backend, BoundPlan, ClientId, DeviceRequest, Error, Failure, MemoryReport, NewStream, Op,
    QueueStats, Reason, Registration, Reply, Scope, SliceId, SyncParts, Task, Ticket,
};
use millstream_state::objects::{Kind, Object, PreparedKernel, StoredRecording};
use millstream_state::observers::log_writer::LogWriter;

use super::Server;

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
            self.admit_any(&mut part, false);
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

    // Registration: how objects are added under their slots.
    //
    // An object is added by a registration or reservation, and lives while it has handles or held tasks. Then
    // `drops` removes it and recycles its slot.

    /// Adds an object under its slot.
    pub(super) fn register(&mut self, registration: Registration) {
        match registration {
            Registration::Kernel { id, kernel, code } => {
                let prints = kernel.prints();
                let prepared = PreparedKernel {
                    kernel,
                    code,
                    prints,
                };
                self.objects.add(id.0, Object::Kernel(prepared));
            }
            Registration::Parameter { id, bytes, client } => {
                let key = self.insert_slice(id, client, bytes);
                // A task that uses it outside of a replay fails.
                let name = &self.objects.names.parameter;
                self.hazards
                    .fail(key, Failure::not_run(name, Reason::Parameter));
            }
            Registration::Recording {
                id,
                tasks,
                order,
                stale,
            } => {
                let plan = self.objects.plan(tasks, order);
                let prepared = self.device.backend.prepare(&plan);
                let stored = StoredRecording {
                    plan,
                    prepared,
                    bound: BoundPlan::default(),
                    stale,
                };
                self.objects.add(id.0, Object::Recording(Box::new(stored)));
            }
            Registration::Stream(stream) => self.add_stream(stream),
        }
    }

    fn add_stream(&mut self, stream: NewStream) {
        let (id, client) = (stream.id, stream.client);
        // The first stream of a client opens its account, which is kept until the client's slot is dropped.
        if let Some(client_slot) = stream.client_slot
            && self.objects.at(client_slot.index()).is_none()
        {
            self.objects.add(client_slot.0, Object::Client(client));
            self.memory
                .accounts
                .open(client, stream.client_name.clone());
        }
        if let Some(bytes) = stream.soft_limit {
            self.memory.set_soft_limit(client, bytes);
        }
        let key = self.scheduler.add(stream);
        self.objects.link(id.0, Kind::Stream, key);
        if self.observers.has_work() {
            self.cover_new(key, client);
        }
    }

    /// Adds a slice that has no memory yet, and returns its key.
    pub(super) fn insert_slice(&mut self, id: SliceId, client: ClientId, bytes: u64) -> u32 {
        let key = self.hazards.insert(id, client, bytes);
        self.objects.link(id.0, Kind::Slice, key);
        key
    }
}

//! Registration: how objects are added under their slots.
//!
//! An object is added by a registration or reservation, and lives while it has handles or held tasks. Then
//! [`drops`](super::drops) removes it and recycles its slot.

use millstream_protocol::{
    Backend, BoundPlan, ClientId, Failure, NewStream, Reason, Registration, SliceId,
};

use super::Server;
use millstream_state::objects::{Kind, Object, PreparedKernel, StoredRecording};

impl<B: Backend> Server<B> {
    /// Adds an object under its slot.
    pub(super) fn register(&mut self, registration: Registration) {
        match registration {
            Registration::Kernel { id, kernel, code } => {
                let prepared = PreparedKernel { kernel, code };
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

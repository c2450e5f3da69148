//! Registration: how objects are added under their slots.
//!
//! An object is added by a registration or reservation, and lives while it has handles or held tasks. Then
//! [`drops`](super::drops) removes it and recycles its slot.

use std::sync::Arc;

use millstream_protocol::backend::Backend;
use millstream_protocol::failure::{Failure, Reason};
use millstream_protocol::id::{ClientId, ClientSlotId, SliceId};
use millstream_protocol::message::Registration;

use super::Server;
use crate::scheduler::NewStream;

impl<B: Backend> Server<B> {
    /// Adds an object under its slot.
    pub(super) fn register(&mut self, registration: Registration) {
        match registration {
            Registration::Kernel { id, kernel, code } => self.objects.add_kernel(id, kernel, code),
            Registration::Parameter { id, bytes, client } => {
                let key = self.insert_slice(id, client, bytes);
                // A task that uses it outside of a replay fails.
                let name = &self.objects.names().parameter;
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
                let prepared = self.device.prepare(&plan);
                self.objects.add_recording(id, plan, prepared, stale);
            }
            Registration::Stream {
                id,
                client,
                client_name,
                client_slot,
                priority,
                weight,
                soft_limit,
                credit,
                credit_is_shared,
            } => {
                self.add_client(client, &client_name, client_slot);
                if let Some(bytes) = soft_limit {
                    self.memory.set_soft_limit(client, bytes);
                }
                let key = self.scheduler.add(NewStream {
                    id,
                    client,
                    client_name,
                    priority,
                    weight,
                    credit,
                    credit_is_shared,
                });
                self.objects.link_stream(id, key);
                if self.observers.profiles.has_work() {
                    self.cover_new(key, client);
                }
            }
        }
    }

    /// Adds the client of a stream. Its account is kept until its slot is dropped.
    fn add_client(&mut self, client: ClientId, name: &Arc<str>, client_slot: Option<ClientSlotId>) {
        if client_slot.is_some_and(|client_slot| self.objects.add_client(client, client_slot)) {
            self.memory.accounts.open(client, name.clone());
        }
    }

    /// Adds a slice that has no memory yet, and returns its key.
    pub(super) fn insert_slice(&mut self, id: SliceId, client: ClientId, bytes: u64) -> u32 {
        let key = self.hazards.insert(id, client, bytes);
        self.objects.link_slice(id, key);
        key
    }
}

//! What a slot of the shared table stands for on the device thread.
//!
//! A thing becomes known by a registration or reservation, lives while it has handles or held tasks, and
//! gives its slot back at last, which is [`drops`](super::drops)'s. Where a slot leads is [`links`](super::links)'s.

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::backend::Backend;
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::{Failure, Reason};
use millstream_protocol::id::{ClientId, RecordingId, SeatId};
use millstream_protocol::kernel::BackendKernel;
use millstream_protocol::kernel::Kernel;
use millstream_protocol::message::{Op, Registration};
use millstream_protocol::recording::RecordedTask;

use super::Server;
use super::links::Kind;
use crate::hazard::log::AccessLog;
use crate::scheduler::NewStream;
use crate::scheduler::actor::NO_OBJECT;
use crate::slice::{Backing, Slice};

/// A kernel that is ready to launch.
pub(super) struct PreparedKernel {
    pub(super) slot: u32,
    pub(super) kernel: Arc<Kernel>,
    pub(super) code: BackendKernel,
    /// Tasks that streams hold and that launch it.
    pub(super) held_tasks: u32,
    pub(super) dropped: bool,
}

/// A recording that is ready to replay.
pub(super) struct StoredRecording {
    pub(super) id: RecordingId,
    pub(super) tasks: Arc<[RecordedTask]>,
    /// What launches run, in the order of `tasks`; nothing for copies and fills.
    pub(super) kernels: Vec<Option<(Arc<str>, BackendKernel)>>,
    /// How many of the tasks are launches.
    pub(super) launches: u64,
    /// Parameters of which a task may read what an earlier replay has left.
    pub(super) stale: Box<[u32]>,
    pub(super) held_tasks: u32,
    pub(super) dropped: bool,
}

impl<B: Backend> Server<B> {
    /// Makes a thing known under its slot.
    pub(super) fn register(&mut self, registration: Registration) {
        match registration {
            Registration::Kernel { id, kernel, code } => {
                let prepared = PreparedKernel {
                    slot: id.index(),
                    kernel,
                    code,
                    held_tasks: 0,
                    dropped: false,
                };
                let key = self.kernels.insert(prepared) as u32;
                self.links
                    .set(id.index(), id.generation(), Kind::Kernel, key);
            }
            Registration::Parameter { id, bytes, client } => {
                let whole = Binding::new(id, 0, bytes, Access::Write);
                let key = self.insert_slice(&whole, client);
                // Whoever uses it outside of a replay is told.
                let failure = Failure::not_run(&self.names.parameter, Reason::Parameter);
                self.slices[key as usize].memory = Backing::Failed(bytes, failure);
            }
            Registration::Recording { id, tasks, stale } => {
                let kernels: Vec<_> = tasks
                    .iter()
                    .map(|task| self.recorded_kernel(task))
                    .collect();
                let launches = tasks.iter().filter(|task| task.kernel().is_some()).count();
                let stored = StoredRecording {
                    id,
                    tasks,
                    kernels,
                    launches: launches as u64,
                    stale,
                    held_tasks: 0,
                    dropped: false,
                };
                let key = self.recordings.insert(stored) as u32;
                self.links
                    .set(id.index(), id.generation(), Kind::Recording, key);
            }
            Registration::Stream {
                id,
                client,
                client_name,
                seat,
                priority,
                weight,
                soft_limit,
                credit,
                credit_is_shared,
            } => {
                self.seat_client(client, &client_name, seat);
                if let Some(bytes) = soft_limit {
                    self.memory.accounts_mut().limit(client, bytes);
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
                self.links
                    .set(id.index(), id.generation(), Kind::Stream, key);
                if self.observers.profiles().are_any() {
                    self.cover_new(key);
                }
            }
        }
    }

    /// A client has a stream: what is kept of it is kept until its slot is dropped.
    fn seat_client(&mut self, client: ClientId, name: &Arc<str>, seat: Option<SeatId>) {
        if let Some(id) = seat.filter(|id| self.links.at(id.index()).is_none()) {
            let key = self.clients.insert(client) as u32;
            self.links
                .set(id.index(), id.generation(), Kind::Client, key);
            self.memory.accounts_mut().open(client, name.clone());
        }
    }

    fn recorded_kernel(&self, task: &RecordedTask) -> Option<(Arc<str>, BackendKernel)> {
        let key = self.links.kernel(task.kernel()?)?;
        let prepared = &self.kernels[key as usize];
        Some((prepared.kernel.name().clone(), prepared.code.clone()))
    }

    /// Makes a slice known that has no memory yet. Its log starts when it gets some.
    pub(super) fn insert_slice(&mut self, binding: &Binding, client: ClientId) -> u32 {
        let id = binding.slice;
        let key = self.slices.insert(Slice {
            id,
            client,
            memory: Backing::Pending(binding.len),
            log: AccessLog::default(),
            faults: Default::default(),
            held_tasks: 0,
            dropped: false,
            dropped_ns: 0,
        }) as u32;
        self.links
            .set(id.index(), id.generation(), Kind::Slice, key);
        key
    }

    /// Keeps the kernel or recording that a held task names, until the task is issued, and tells its key.
    pub(super) fn hold_object(&mut self, op: &Op) -> u32 {
        match op {
            Op::Launch { kernel, .. } => match self.links.kernel(*kernel) {
                Some(key) => {
                    self.kernels[key as usize].held_tasks += 1;
                    key
                }
                None => NO_OBJECT,
            },
            Op::Replay(recording) => match self.links.recording(*recording) {
                Some(key) => {
                    self.recordings[key as usize].held_tasks += 1;
                    key
                }
                None => NO_OBJECT,
            },
            _ => NO_OBJECT,
        }
    }

    /// The key of the kernel or recording that a task names, which no count keeps.
    #[inline]
    pub(super) fn object_of(&self, op: &Op) -> u32 {
        match op {
            Op::Launch { kernel, .. } => self.links.kernel(*kernel).unwrap_or(NO_OBJECT),
            Op::Replay(recording) => self.links.recording(*recording).unwrap_or(NO_OBJECT),
            _ => NO_OBJECT,
        }
    }
}

//! The objects that slots of the shared table stand for: slices, streams, kernels, recordings and clients.
//!
//! [`Objects`] owns the kernels and the recordings, and the [`links`] from slots to keys. The key of a slice belongs to
//! the [hazards](crate::hazards), the key of a stream to the scheduler.

pub(crate) mod links;

use std::sync::Arc;

use links::{Kind, Links};
use millstream_protocol::backend::{BoundPlan, Call, Plan, Prepared};
use millstream_protocol::hazard::order::Order;
use millstream_protocol::id::{ClientId, ClientSlotId, KernelId, RecordingId, SliceId, StreamId};
use millstream_protocol::kernel::{BackendKernel, Kernel};
use millstream_protocol::message::{Op, Task};
use millstream_protocol::recording::{RecordedOp, RecordedTask};
use slab::Slab;

/// The key of a task that names no kernel and no recording.
pub(crate) const NO_OBJECT: u32 = u32::MAX;

/// The objects with slots of the shared table.
pub(crate) struct Objects {
    links: Links,
    kernels: Slab<PreparedKernel>,
    recordings: Slab<StoredRecording>,
    /// The clients that have a slot and had a stream.
    clients: Slab<ClientId>,
    names: OpNames,
}

/// A kernel that is ready to launch.
pub(crate) struct PreparedKernel {
    slot: u32,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) code: BackendKernel,
    references: References,
}

/// A recording that is ready to replay.
pub(crate) struct StoredRecording {
    pub(crate) id: RecordingId,
    pub(crate) plan: Plan,
    /// The backend's data for replays.
    pub(crate) prepared: Prepared,
    /// The bindings of the last replay.
    pub(crate) bound: BoundPlan,
    /// The parameters of which a task may read bytes that an earlier replay has left.
    pub(crate) stale: Box<[u32]>,
    references: References,
}

/// The references that keep an object: its handles, and the held tasks that name it.
#[derive(Default)]
struct References {
    tasks: u32,
    dropped: bool,
}

impl References {
    fn is_unreferenced(&self) -> bool {
        self.dropped && self.tasks == 0
    }
}

/// An object that has no references any more.
pub(crate) enum Unreferenced {
    Kernel(PreparedKernel),
    Recording(StoredRecording),
}

/// The names of operations without a kernel, as shared strings, so that issuing a task allocates nothing (I9).
pub(crate) struct OpNames {
    pub(crate) copy_in: Arc<str>,
    pub(crate) copy_out: Arc<str>,
    pub(crate) copy: Arc<str>,
    pub(crate) fill: Arc<str>,
    pub(crate) other: Arc<str>,
    pub(crate) reserve: Arc<str>,
    pub(crate) replay: Arc<str>,
    pub(crate) parameter: Arc<str>,
}

impl Objects {
    /// Creates a registry without objects.
    pub(crate) fn new() -> Self {
        Self {
            links: Links::default(),
            kernels: Slab::new(),
            recordings: Slab::new(),
            clients: Slab::new(),
            names: OpNames {
                copy_in: "copy in".into(),
                copy_out: "copy out".into(),
                copy: "copy".into(),
                fill: "fill".into(),
                other: "task".into(),
                reserve: "reserve".into(),
                replay: "replay".into(),
                parameter: "parameter".into(),
            },
        }
    }

    /// Returns the key of a stream.
    #[inline(always)]
    pub(crate) fn stream(&self, id: StreamId) -> Option<u32> {
        self.links.get(id.0, Kind::Stream)
    }

    /// Returns the key of a slice.
    #[inline(always)]
    pub(crate) fn slice(&self, id: SliceId) -> Option<u32> {
        self.links.get(id.0, Kind::Slice)
    }

    /// Returns the key of the kernel or recording that an operation names, or [`NO_OBJECT`].
    #[inline(always)]
    pub(crate) fn key_of(&self, op: &Op) -> u32 {
        let key = match op {
            Op::Launch { kernel, .. } => self.links.get(kernel.0, Kind::Kernel),
            Op::Replay { recording, .. } => self.links.get(recording.0, Kind::Recording),
            _ => None,
        };
        key.unwrap_or(NO_OBJECT)
    }

    /// Returns the kind and the key of the object of a slot.
    pub(crate) fn at(&self, slot: u32) -> Option<(Kind, u32)> {
        self.links.at(slot)
    }

    /// Links a slot to the slice with this key.
    pub(crate) fn link_slice(&mut self, id: SliceId, key: u32) {
        self.links.set(id.0, Kind::Slice, key);
    }

    /// Links a slot to the stream with this key.
    pub(crate) fn link_stream(&mut self, id: StreamId, key: u32) {
        self.links.set(id.0, Kind::Stream, key);
    }

    /// Removes the link of a slot.
    pub(crate) fn unlink(&mut self, slot: u32) {
        self.links.take(slot);
    }

    /// Removes all links: the device is lost.
    pub(crate) fn unlink_all(&mut self) {
        self.links = Links::default();
    }

    /// Adds a kernel.
    pub(crate) fn add_kernel(&mut self, id: KernelId, kernel: Arc<Kernel>, code: BackendKernel) {
        let prepared = PreparedKernel {
            slot: id.index(),
            kernel,
            code,
            references: References::default(),
        };
        let key = self.kernels.insert(prepared) as u32;
        self.links.set(id.0, Kind::Kernel, key);
    }

    /// Returns the plan of a recording.
    pub(crate) fn plan(&self, tasks: Arc<[RecordedTask]>, order: Order) -> Plan {
        Plan::new(tasks, order, |task| {
            let kernel = task.kernel().and_then(|id| {
                let key = self.links.get(id.0, Kind::Kernel)?;
                self.kernel(key)
            });
            let name = match (kernel, &task.op) {
                (Some(prepared), _) => prepared.kernel.name(),
                (None, RecordedOp::Copy) => &self.names.copy,
                (None, RecordedOp::Fill(_)) => &self.names.fill,
                (None, RecordedOp::Launch { .. }) => &self.names.replay,
            };
            Call {
                name: name.clone(),
                kernel: kernel.map(|prepared| prepared.code.clone()),
            }
        })
    }

    /// Adds a recording.
    pub(crate) fn add_recording(
        &mut self,
        id: RecordingId,
        plan: Plan,
        prepared: Prepared,
        stale: Box<[u32]>,
    ) {
        let stored = StoredRecording {
            id,
            plan,
            prepared,
            bound: BoundPlan::default(),
            stale,
            references: References::default(),
        };
        let key = self.recordings.insert(stored) as u32;
        self.links.set(id.0, Kind::Recording, key);
    }

    /// Adds a client, unless it is known. Returns `true` if it is new; then the server keeps its account until its slot
    /// is dropped.
    pub(crate) fn add_client(&mut self, client: ClientId, client_slot: ClientSlotId) -> bool {
        let is_new = self.links.at(client_slot.index()).is_none();
        if is_new {
            let key = self.clients.insert(client) as u32;
            self.links.set(client_slot.0, Kind::Client, key);
        }
        is_new
    }

    /// Removes the client of a slot that was dropped.
    pub(crate) fn remove_client(&mut self, slot: u32, key: u32) -> ClientId {
        self.links.take(slot);
        self.clients.remove(key as usize)
    }

    /// Counts a held task that names a kernel or recording, which stays until the task is issued. Returns its key.
    pub(crate) fn hold(&mut self, op: &Op) -> u32 {
        let key = self.key_of(op);
        if let Some(references) = self.references_mut(op, key) {
            references.tasks += 1;
        }
        key
    }

    /// Counts one held task less that names this object, since it was issued. Removes and returns the object if that
    /// was its last reference.
    pub(crate) fn release(&mut self, op: &Op, key: u32) -> Option<Unreferenced> {
        if let Some(references) = self.references_mut(op, key) {
            references.tasks -= 1;
        }
        match op {
            Op::Replay { .. } => self.take_recording(key),
            _ => self.take_kernel(key),
        }
    }

    fn references_mut(&mut self, op: &Op, key: u32) -> Option<&mut References> {
        match op {
            Op::Launch { .. } => Some(&mut self.kernels.get_mut(key as usize)?.references),
            Op::Replay { .. } => Some(&mut self.recordings.get_mut(key as usize)?.references),
            _ => None,
        }
    }

    /// Records that the last handle of a kernel is gone. Removes and returns it if that was its last reference.
    pub(crate) fn drop_kernel(&mut self, key: u32) -> Option<Unreferenced> {
        self.kernels.get_mut(key as usize)?.references.dropped = true;
        self.take_kernel(key)
    }

    /// Records that the last handle of a recording is gone. Removes and returns it if that was its last reference.
    pub(crate) fn drop_recording(&mut self, key: u32) -> Option<Unreferenced> {
        self.recordings.get_mut(key as usize)?.references.dropped = true;
        self.take_recording(key)
    }

    fn take_kernel(&mut self, key: u32) -> Option<Unreferenced> {
        let is_unreferenced = self.kernels.get(key as usize)?.references.is_unreferenced();
        is_unreferenced.then(|| {
            let kernel = self.kernels.remove(key as usize);
            self.links.take(kernel.slot);
            Unreferenced::Kernel(kernel)
        })
    }

    fn take_recording(&mut self, key: u32) -> Option<Unreferenced> {
        let is_unreferenced = self
            .recordings
            .get(key as usize)?
            .references
            .is_unreferenced();
        is_unreferenced.then(|| {
            let recording = self.recordings.remove(key as usize);
            self.links.take(recording.id.index());
            Unreferenced::Recording(recording)
        })
    }

    /// Returns a kernel.
    #[inline]
    pub(crate) fn kernel(&self, key: u32) -> Option<&PreparedKernel> {
        self.kernels.get(key as usize)
    }

    /// Returns a recording.
    #[inline]
    pub(crate) fn recording(&self, key: u32) -> Option<&StoredRecording> {
        self.recordings.get(key as usize)
    }

    /// Returns a recording, mutable.
    #[inline]
    pub(crate) fn recording_mut(&mut self, key: u32) -> Option<&mut StoredRecording> {
        self.recordings.get_mut(key as usize)
    }

    /// Returns the names of operations.
    #[inline]
    pub(crate) fn names(&self) -> &OpNames {
        &self.names
    }

    /// Returns the number of consecutive tasks that a task is: more than one for a replay, or an answer of several
    /// copies.
    pub(crate) fn tasks_of(&self, task: &Task) -> usize {
        let object = self.key_of(&task.op);
        match (&task.op, self.recording(object)) {
            (Op::Replay { .. }, Some(stored)) => stored.plan.tasks().len(),
            (Op::CopyOut(copy), _) => copy.landings.len(),
            _ => 1,
        }
    }

    /// Returns the name of a task, for failures.
    pub(crate) fn name_of(&self, task: &Task) -> Arc<str> {
        let names = &self.names;
        let name = match &task.op {
            Op::Launch { .. } => match self.kernel(self.key_of(&task.op)) {
                Some(prepared) => prepared.kernel.name(),
                None => &names.other,
            },
            Op::Custom(custom) => &custom.name,
            Op::Host(work) => &work.name,
            Op::CopyIn(_) => &names.copy_in,
            Op::CopyOut(_) => &names.copy_out,
            Op::Copy => &names.copy,
            Op::Fill(_) => &names.fill,
            Op::Reserve { .. } => &names.reserve,
            Op::Replay { .. } => &names.replay,
            _ => &names.other,
        };
        name.clone()
    }

    /// Returns the name of part `index` of a task: the name of a recorded task if the task is a replay.
    pub(crate) fn name_of_part(&self, task: &Task, index: usize) -> Arc<str> {
        let stored = match &task.op {
            Op::Replay { .. } => self.recording(self.key_of(&task.op)),
            _ => None,
        };
        match stored {
            Some(stored) => stored.plan.call(index).name.clone(),
            None => self.name_of(task),
        }
    }

    /// Returns the number of kernels and of recordings.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.kernels.len(), self.recordings.len())
    }
}

impl PreparedKernel {
    /// Returns its slot.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }
}

//! What the slots of the shared table stand for on the device thread: slices, streams, kernels, recordings and clients.
//!
//! [`Objects`] owns the kernels, the recordings, and the [`links`] that lead from a slot to the key of what it stands for. A slice's key
//! is the [hazards](crate::hazards)', a stream's the scheduler's.

pub(crate) mod links;

use std::sync::Arc;

use links::{Kind, Links};
use millstream_protocol::backend::{BoundPlan, Call, Plan, Prepared};
use millstream_protocol::hazard::order::Order;
use millstream_protocol::id::{ClientId, KernelId, RecordingId, SeatId, SliceId, StreamId};
use millstream_protocol::kernel::{BackendKernel, Kernel};
use millstream_protocol::message::{Op, Task};
use millstream_protocol::recording::{RecordedOp, RecordedTask};
use slab::Slab;

/// The key of no kernel and no recording.
pub(crate) const NO_OBJECT: u32 = u32::MAX;

/// The things that have slots of the shared table.
pub(crate) struct Objects {
    links: Links,
    kernels: Slab<PreparedKernel>,
    recordings: Slab<StoredRecording>,
    /// Clients that have a slot and had a stream.
    clients: Slab<ClientId>,
    names: OpNames,
}

/// A kernel that is ready to launch.
pub(crate) struct PreparedKernel {
    slot: u32,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) code: BackendKernel,
    held: References,
}

/// A recording that is ready to replay.
pub(crate) struct StoredRecording {
    pub(crate) id: RecordingId,
    pub(crate) plan: Plan,
    /// What the backend keeps for replays.
    pub(crate) prepared: Prepared,
    /// The bindings of the last replay.
    pub(crate) bound: BoundPlan,
    /// Parameters of which a task may read what an earlier replay has left.
    pub(crate) stale: Box<[u32]>,
    held: References,
}

/// What keeps a thing: its handles, and the tasks that name it and that streams hold.
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

/// A thing that nothing names any more.
pub(crate) enum Unreferenced {
    Kernel(PreparedKernel),
    Recording(StoredRecording),
}

/// Names of operations without a kernel, as shared strings, so that issuing one allocates nothing.
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
    /// No things.
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

    /// The key of a stream.
    #[inline(always)]
    pub(crate) fn stream(&self, id: StreamId) -> Option<u32> {
        self.links.get(id.0, Kind::Stream)
    }

    /// The key of a slice.
    #[inline(always)]
    pub(crate) fn slice(&self, id: SliceId) -> Option<u32> {
        self.links.get(id.0, Kind::Slice)
    }

    /// The key of the kernel or recording that a task names.
    #[inline(always)]
    pub(crate) fn key_of(&self, op: &Op) -> u32 {
        let key = match op {
            Op::Launch { kernel, .. } => self.links.get(kernel.0, Kind::Kernel),
            Op::Replay { recording, .. } => self.links.get(recording.0, Kind::Recording),
            _ => None,
        };
        key.unwrap_or(NO_OBJECT)
    }

    /// What a slot stands for, and its key.
    pub(crate) fn at(&self, slot: u32) -> Option<(Kind, u32)> {
        self.links.at(slot)
    }

    /// A slot stands for the slice with this key.
    pub(crate) fn link_slice(&mut self, id: SliceId, key: u32) {
        self.links.set(id.0, Kind::Slice, key);
    }

    /// A slot stands for the stream with this key.
    pub(crate) fn link_stream(&mut self, id: StreamId, key: u32) {
        self.links.set(id.0, Kind::Stream, key);
    }

    /// A slot stands for nothing any more.
    pub(crate) fn unlink(&mut self, slot: u32) {
        self.links.take(slot);
    }

    /// No slot stands for anything any more: the device is lost.
    pub(crate) fn unlink_all(&mut self) {
        self.links = Links::default();
    }

    /// A kernel becomes known.
    pub(crate) fn add_kernel(&mut self, id: KernelId, kernel: Arc<Kernel>, code: BackendKernel) {
        let prepared = PreparedKernel {
            slot: id.index(),
            kernel,
            code,
            held: References::default(),
        };
        let key = self.kernels.insert(prepared) as u32;
        self.links.set(id.0, Kind::Kernel, key);
    }

    /// The plan of a recording.
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

    /// A recording becomes known.
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
            held: References::default(),
        };
        let key = self.recordings.insert(stored) as u32;
        self.links.set(id.0, Kind::Recording, key);
    }

    /// A client has a stream. Says whether it is new, so that something is kept of it until its slot is dropped.
    pub(crate) fn add_client(&mut self, client: ClientId, seat: SeatId) -> bool {
        let is_new = self.links.at(seat.index()).is_none();
        if is_new {
            let key = self.clients.insert(client) as u32;
            self.links.set(seat.0, Kind::Client, key);
        }
        is_new
    }

    /// The client of a slot that was dropped.
    pub(crate) fn remove_client(&mut self, slot: u32, key: u32) -> ClientId {
        self.links.take(slot);
        self.clients.remove(key as usize)
    }

    /// Keeps the kernel or recording that a held task names, until the task is issued, and tells its key.
    pub(crate) fn hold(&mut self, op: &Op) -> u32 {
        let key = self.key_of(op);
        if let Some(held) = self.held(op, key) {
            held.tasks += 1;
        }
        key
    }

    /// A task that was held and that names this thing is issued. The thing comes back if nothing names it any more.
    pub(crate) fn release(&mut self, op: &Op, key: u32) -> Option<Unreferenced> {
        if let Some(held) = self.held(op, key) {
            held.tasks -= 1;
        }
        match op {
            Op::Replay { .. } => self.take_recording(key),
            _ => self.take_kernel(key),
        }
    }

    fn held(&mut self, op: &Op, key: u32) -> Option<&mut References> {
        match op {
            Op::Launch { .. } => Some(&mut self.kernels.get_mut(key as usize)?.held),
            Op::Replay { .. } => Some(&mut self.recordings.get_mut(key as usize)?.held),
            _ => None,
        }
    }

    /// The last handle of a kernel is gone. It comes back if nothing names it any more.
    pub(crate) fn drop_kernel(&mut self, key: u32) -> Option<Unreferenced> {
        self.kernels.get_mut(key as usize)?.held.dropped = true;
        self.take_kernel(key)
    }

    /// The last handle of a recording is gone. It comes back if nothing names it any more.
    pub(crate) fn drop_recording(&mut self, key: u32) -> Option<Unreferenced> {
        self.recordings.get_mut(key as usize)?.held.dropped = true;
        self.take_recording(key)
    }

    fn take_kernel(&mut self, key: u32) -> Option<Unreferenced> {
        let is_unreferenced = self.kernels.get(key as usize)?.held.is_unreferenced();
        is_unreferenced.then(|| {
            let kernel = self.kernels.remove(key as usize);
            self.links.take(kernel.slot);
            Unreferenced::Kernel(kernel)
        })
    }

    fn take_recording(&mut self, key: u32) -> Option<Unreferenced> {
        let is_unreferenced = self.recordings.get(key as usize)?.held.is_unreferenced();
        is_unreferenced.then(|| {
            let recording = self.recordings.remove(key as usize);
            self.links.take(recording.id.index());
            Unreferenced::Recording(recording)
        })
    }

    /// A kernel.
    #[inline]
    pub(crate) fn kernel(&self, key: u32) -> Option<&PreparedKernel> {
        self.kernels.get(key as usize)
    }

    /// A recording.
    #[inline]
    pub(crate) fn recording(&self, key: u32) -> Option<&StoredRecording> {
        self.recordings.get(key as usize)
    }

    /// A recording that is to be replayed.
    #[inline]
    pub(crate) fn recording_mut(&mut self, key: u32) -> Option<&mut StoredRecording> {
        self.recordings.get_mut(key as usize)
    }

    /// What the operations are called.
    #[inline]
    pub(crate) fn names(&self) -> &OpNames {
        &self.names
    }

    /// How many tasks a task is, which follow each other: more than one where it is a replay, or an answer of several copies.
    pub(crate) fn tasks_of(&self, task: &Task) -> usize {
        let object = self.key_of(&task.op);
        match (&task.op, self.recording(object)) {
            (Op::Replay { .. }, Some(stored)) => stored.plan.tasks().len(),
            (Op::CopyOut(copy), _) => copy.landings.len(),
            _ => 1,
        }
    }

    /// The task's name, for failures.
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

    /// The name of the part `index` of a task: of a recorded task, where the task is a replay.
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

    /// How many kernels and recordings there are.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.kernels.len(), self.recordings.len())
    }
}

impl PreparedKernel {
    /// Its slot.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }
}

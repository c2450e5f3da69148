//! The objects that slots of the shared table stand for: slices, streams, kernels, recordings and clients.
//!
//! [`Objects`] owns the kernels, the recordings and the clients, and the links from slots to keys. The key of a slice
//! belongs to the [hazards](crate::hazards), the key of a stream to the scheduler.

use std::sync::Arc;

use millstream_protocol::hazard::order::Order;
use millstream_protocol::recording::{RecordedOp, RecordedTask};
use millstream_protocol::{
    BackendKernel, BoundPlan, Call, ClientId, Kernel, Op, Plan, Prepared, SliceId, StreamId, Task,
};
use millstream_sync::slots::SlotId;
use slab::Slab;

/// The key of a task that names no kernel and no recording.
pub const NO_OBJECT: u32 = u32::MAX;

/// The objects with slots of the shared table.
pub struct Objects {
    /// The object of each slot.
    links: Links,
    objects: Slab<Counted>,
    /// The names of operations without a kernel.
    pub names: OpNames,
}

/// An object and the references that keep it: its handles, and the held tasks that name it.
struct Counted {
    slot: u32,
    tasks: u32,
    dropped: bool,
    object: Object,
}

/// An object that is neither a slice nor a stream.
pub enum Object {
    /// A kernel.
    Kernel(PreparedKernel),
    /// A recording.
    Recording(Box<StoredRecording>),
    /// A client that had a stream. The server keeps its account until its slot is dropped.
    Client(ClientId),
}

/// A kernel that is ready to launch.
pub struct PreparedKernel {
    /// The kernel, as the client gave it.
    pub kernel: Arc<Kernel>,
    /// The backend's code of it.
    pub code: BackendKernel,
    /// Whether it prints.
    pub prints: bool,
}

/// A recording that is ready to replay.
pub struct StoredRecording {
    /// Its tasks, with the order between them.
    pub plan: Plan,
    /// The backend's data for replays.
    pub prepared: Prepared,
    /// The bindings of the last replay.
    pub bound: BoundPlan,
    /// The parameters of which a task may read bytes that an earlier replay has left.
    pub stale: Box<[u32]>,
}

/// The names of operations without a kernel, as shared strings, so that issuing a task allocates nothing (I9).
pub struct OpNames {
    /// An upload.
    pub copy_in: Arc<str>,
    /// A readback.
    pub copy_out: Arc<str>,
    /// A copy on the device.
    pub copy: Arc<str>,
    /// A fill.
    pub fill: Arc<str>,
    /// Any operation without a name of its own.
    pub other: Arc<str>,
    /// A reservation.
    pub reserve: Arc<str>,
    /// A replay.
    pub replay: Arc<str>,
    /// A write of a parameter of a replay.
    pub parameter: Arc<str>,
}

impl Default for Objects {
    /// Creates a registry without objects.
    fn default() -> Self {
        Self {
            links: Links::default(),
            objects: Slab::new(),
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
}

impl Objects {
    /// Returns the key of a stream.
    #[inline(always)]
    pub fn stream(&self, id: StreamId) -> Option<u32> {
        self.links.get(id.0, Kind::Stream)
    }

    /// Returns the key of a slice.
    #[inline(always)]
    pub fn slice(&self, id: SliceId) -> Option<u32> {
        self.links.get(id.0, Kind::Slice)
    }

    /// Returns the key of the kernel or recording that an operation names, or [`NO_OBJECT`].
    #[inline(always)]
    pub fn key_of(&self, op: &Op) -> u32 {
        let id = match op {
            Op::Launch { kernel, .. } => kernel.0,
            Op::Replay { recording, .. } => recording.0,
            _ => return NO_OBJECT,
        };
        self.links.get(id, Kind::Object).unwrap_or(NO_OBJECT)
    }

    /// Links a slot to the object of another machine with this key.
    pub fn link(&mut self, id: SlotId, kind: Kind, key: u32) {
        self.links.set(id, kind, key);
    }

    /// Returns the kind and the key of the object that a slot stands for.
    pub fn at(&self, slot: u32) -> Option<(Kind, u32)> {
        self.links.at(slot)
    }

    /// Removes the link of a slot.
    pub fn unlink(&mut self, slot: u32) {
        self.links.take(slot);
    }

    /// Removes all links: the slots name nothing of this epoch any more.
    pub fn unlink_all(&mut self) {
        self.links = Links::default();
    }

    /// As [`Self::key_of`], for a launch.
    #[inline(always)]
    pub fn key_of_launch(&self, op: &Op) -> u32 {
        let Op::Launch { kernel, .. } = op else {
            return NO_OBJECT;
        };
        let key = self.links.get(kernel.0, Kind::Object);
        key.unwrap_or(NO_OBJECT)
    }

    /// Adds an object under its slot.
    pub fn add(&mut self, id: SlotId, object: Object) {
        let key = self.objects.insert(Counted {
            slot: id.index,
            tasks: 0,
            dropped: false,
            object,
        });
        self.links.set(id, Kind::Object, key as u32);
    }

    /// Returns the plan of a recording.
    pub fn plan(&self, tasks: Arc<[RecordedTask]>, order: Order) -> Plan {
        Plan::new(tasks, order, |task| {
            let kernel = task.kernel().and_then(|id| {
                let key = self.links.get(id.0, Kind::Object)?;
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
                prints: kernel.is_some_and(|prepared| prepared.prints),
            }
        })
    }

    /// Counts a held task that names a kernel or recording, which stays until the task is issued. Returns its key.
    pub fn hold(&mut self, op: &Op) -> u32 {
        let key = self.key_of(op);
        if let Some(counted) = self.objects.get_mut(key as usize) {
            counted.tasks += 1;
        }
        key
    }

    /// Counts one held task less that names this object, since it was issued. Removes and returns the object and its
    /// slot if that was its last reference.
    pub fn release(&mut self, key: u32) -> Option<(u32, Object)> {
        self.objects.get_mut(key as usize)?.tasks -= 1;
        self.take_unreferenced(key)
    }

    /// Records that the last handle of an object is gone. Removes and returns the object and its slot if that was its
    /// last reference.
    pub fn drop_object(&mut self, key: u32) -> Option<(u32, Object)> {
        self.objects.get_mut(key as usize)?.dropped = true;
        self.take_unreferenced(key)
    }

    fn take_unreferenced(&mut self, key: u32) -> Option<(u32, Object)> {
        let counted = self.objects.get(key as usize)?;
        (counted.dropped && counted.tasks == 0).then(|| {
            let Counted { slot, object, .. } = self.objects.remove(key as usize);
            self.links.take(slot);
            (slot, object)
        })
    }

    /// Returns a kernel.
    #[inline]
    pub fn kernel(&self, key: u32) -> Option<&PreparedKernel> {
        match &self.objects.get(key as usize)?.object {
            Object::Kernel(prepared) => Some(prepared),
            _ => None,
        }
    }

    /// Returns a recording.
    #[inline]
    pub fn recording(&self, key: u32) -> Option<&StoredRecording> {
        match &self.objects.get(key as usize)?.object {
            Object::Recording(stored) => Some(stored),
            _ => None,
        }
    }

    /// Returns a recording, mutable.
    #[inline]
    pub fn recording_mut(&mut self, key: u32) -> Option<&mut StoredRecording> {
        match &mut self.objects.get_mut(key as usize)?.object {
            Object::Recording(stored) => Some(stored),
            _ => None,
        }
    }

    /// Returns the number of consecutive tasks that a task is: more than one for a replay, or an answer of several
    /// copies.
    pub fn tasks_of(&self, op: &Op) -> usize {
        match (op, self.recording(self.key_of(op))) {
            (Op::Replay { .. }, Some(stored)) => stored.plan.tasks().len(),
            (Op::CopyOut(copy), _) => copy.landings.len(),
            _ => 1,
        }
    }

    /// Returns the name of a task, for failures.
    pub fn name_of(&self, task: &Task) -> Arc<str> {
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
    pub fn name_of_part(&self, task: &Task, index: usize) -> Arc<str> {
        let stored = match &task.op {
            Op::Replay { .. } => self.recording(self.key_of(&task.op)),
            _ => None,
        };
        match stored {
            Some(stored) => stored.plan.call(index).name.clone(),
            None => self.name_of(task),
        }
    }

    /// Returns `true` if there is neither a kernel nor a recording.
    pub fn is_empty(&self) -> bool {
        let mut objects = self.objects.iter();
        objects.all(|(_, counted)| matches!(counted.object, Object::Client(_)))
    }

    /// Returns `true` if the object is a client.
    pub fn is_client(&self, key: u32) -> bool {
        let counted = self.objects.get(key as usize);
        counted.is_some_and(|counted| matches!(counted.object, Object::Client(_)))
    }
}

// Links from slots of the shared table to objects of the device thread.
//
// Clients take slots without the device, so an id exists before the device has seen it. `Links` maps a slot and its
// generation to the key of the object in its slab.

/// The kind of object that a slot stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A slice.
    Slice = 1,
    /// A stream.
    Stream = 2,
    /// A kernel, a recording or a client.
    Object = 3,
}

/// The number of low bits of a link that are the key: as many as handles need, of which there are fewer than 2^28.
const KEY_BITS: u32 = 28;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;

/// A link, from high to low bits: the generation of the slot, the kind and the key. So one comparison checks generation
/// and kind. Zero is no link.
#[derive(Clone, Copy, Default)]
struct Link(u64);

impl Link {
    /// Returns the part of a link above its key.
    #[inline(always)]
    fn head(generation: u32, kind: Kind) -> u64 {
        u64::from(generation) << 4 | kind as u64
    }

    fn new(generation: u32, kind: Kind, key: u32) -> Self {
        debug_assert!(u64::from(key) <= KEY_MASK, "a key has {KEY_BITS} bits");
        Self(Self::head(generation, kind) << KEY_BITS | u64::from(key))
    }

    #[inline(always)]
    fn key(self) -> u32 {
        (self.0 & KEY_MASK) as u32
    }

    fn kind(self) -> Option<Kind> {
        let kinds = [Kind::Slice, Kind::Stream, Kind::Object];
        let code = self.0 >> KEY_BITS & 0xf;
        kinds.into_iter().find(|kind| *kind as u64 == code)
    }
}

/// The links of all slots.
#[derive(Default)]
struct Links {
    /// By slot index.
    links: Vec<Link>,
}

impl Links {
    /// Links a slot to the object with this key.
    fn set(&mut self, slot: SlotId, kind: Kind, key: u32) {
        let index = slot.index as usize;
        if self.links.len() <= index {
            self.links.resize(index + 1, Link::default());
        }
        self.links[index] = Link::new(slot.generation, kind, key);
    }

    /// Returns the key of the object that a slot of this generation stands for, if it is of this kind.
    #[inline(always)]
    fn get(&self, slot: SlotId, kind: Kind) -> Option<u32> {
        let link = *self.links.get(slot.index as usize)?;
        (link.0 >> KEY_BITS == Link::head(slot.generation, kind)).then(|| link.key())
    }

    /// Returns the kind and the key of the object that the slot with this index stands for.
    fn at(&self, index: u32) -> Option<(Kind, u32)> {
        let link = *self.links.get(index as usize)?;
        Some((link.kind()?, link.key()))
    }

    /// Removes the link of a slot.
    fn take(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index as usize) {
            *link = Link::default();
        }
    }
}

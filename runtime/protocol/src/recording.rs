//! Recordings: tasks checked and resolved once, replayed as one message.
//!
//! A recording keeps real handles to what it was recorded with. Its parameters are the slices that
//! it touches, in order of first use; a replay may bind other handles to them. Those that were made as
//! parameters have no memory, and must be bound. Words of scalars may be slots, which each replay fills.

use std::ops::Range;

use smallvec::SmallVec;

use crate::access::Access;
use crate::binding::Binding;
use crate::hazard::order::{Order, Touch};
use crate::id::{KernelId, SliceId};
use crate::launch::TensorMap;
use crate::launch::{LaunchCount, Pattern};

/// One binding of a recorded task: a part of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedBinding {
    /// Index of the parameter.
    pub parameter: u32,
    /// First byte within the parameter.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How the task touches them.
    pub access: Access,
    /// May it overlap with another such binding of the task?
    pub aliases: bool,
}

/// What a recorded task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedOp {
    /// Runs a kernel.
    Launch {
        /// The kernel.
        kernel: KernelId,
        /// Its cubes.
        count: LaunchCount,
    },
    /// Copies the first binding to the second.
    Copy,
    /// Fills the binding.
    Fill(Pattern),
}

impl RecordedOp {
    /// Whether it is a launch with a count that is read on the device.
    pub(crate) fn is_dynamic(&self) -> bool {
        let dynamic = LaunchCount::Dynamic;
        matches!(self, RecordedOp::Launch { count, .. } if *count == dynamic)
    }
}

/// One word of the packed scalars of a recorded launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedWord {
    /// The same at every replay.
    Value(u64),
    /// What a replay gives in this place of its list of words.
    Slot(u32),
}

/// A word that each replay sets.
// The order of the fields is that of their bytes in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct WordSlot {
    /// Which of the task's words.
    pub word: u32,
    /// Which of the replay's.
    pub slot: u32,
}

/// One task of a recording.
#[derive(Clone, Debug)]
pub struct RecordedTask {
    /// What it does.
    pub op: RecordedOp,
    /// What it touches; the last one is the count of a dynamic launch.
    pub bindings: SmallVec<[RecordedBinding; 4]>,
    /// Packed scalars.
    pub scalars: Box<[u64]>,
    /// Those of them that a replay sets, in ascending order.
    pub slots: Box<[WordSlot]>,
    /// Metadata words.
    pub metadata: Vec<u32>,
    /// Tensor maps.
    pub tensor_maps: Vec<TensorMap>,
}

impl RecordedTask {
    /// The kernel that it launches.
    pub fn kernel(&self) -> Option<KernelId> {
        match self.op {
            RecordedOp::Launch { kernel, .. } => Some(kernel),
            RecordedOp::Copy | RecordedOp::Fill(_) => None,
        }
    }

    /// Whether the count of its cubes is read on the device.
    pub fn is_dynamic(&self) -> bool {
        self.op.is_dynamic()
    }
}

/// The order of recorded tasks, whose parameters do not overlap.
///
/// It is that of the [hazards](crate::hazard) by the ranges that tasks touch, also where the tasks are those of a compiled schedule: of
/// temporaries that share memory its own graph knows nothing.
pub fn order_of(tasks: &[RecordedTask]) -> Order {
    let touch = |binding: &RecordedBinding| Touch {
        space: binding.parameter,
        range: binding.offset..binding.offset + binding.len,
        access: binding.access,
    };
    let touches = tasks.iter().map(|task| task.bindings.iter().map(touch));
    let touches: Vec<Vec<Touch>> = touches.map(Iterator::collect).collect();
    Order::of(&touches)
}

/// What a recording needs of one parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The binding that it was recorded with: everything that the recording touches of the slice.
    pub binding: Binding,
    /// The greatest alignment that a task needs within it, in bytes. A handle that takes its place
    /// must lie the same way relative to it.
    pub align: u64,
    /// Was it made as a parameter, so that it has no memory of its own?
    pub is_formal: bool,
    /// May a replay bind fewer bytes than were recorded?
    pub may_be_shorter: bool,
}

impl Parameter {
    /// The byte of the recorded slice where the handle begins that takes its place: where a parameter that was made
    /// as such begins, and the first byte that is touched of any other.
    pub fn base(&self) -> u64 {
        match self.is_formal {
            true => 0,
            false => self.binding.offset,
        }
    }
}

/// The parameters of a recording while it is made.
#[derive(Default)]
pub struct Parameters {
    pub(crate) list: Vec<Parameter>,
    /// The slices that were made as parameters.
    pub formal: Vec<SliceId>,
    /// Those of them whose contents before a replay are nobody's.
    pub scratch: Vec<SliceId>,
    /// Those of them to which a replay may bind fewer bytes.
    pub shorter: Vec<SliceId>,
}

impl Parameters {
    /// Takes in what one task touches.
    ///
    /// A parameter that is first written whole needs nothing of what was there: it stays a `Write`.
    /// Parts written before the rest is read make it a `ReadWrite`, which is always right.
    pub fn add(&mut self, op: &RecordedOp, binding: &Binding, align: u64) {
        let mut binding = *binding;
        if op.is_dynamic() && binding.access == Access::Write {
            // The count may be zero: then what was there is there still.
            binding.access = Access::ReadWrite;
        }
        match self
            .list
            .iter_mut()
            .find(|parameter| parameter.binding.slice == binding.slice)
        {
            None => self.list.push(Parameter {
                binding,
                align,
                is_formal: self.formal.contains(&binding.slice),
                may_be_shorter: self.shorter.contains(&binding.slice),
            }),
            Some(parameter) => {
                parameter.align = parameter.align.max(align);
                let known = &mut parameter.binding;
                let end = (known.offset + known.len).max(binding.offset + binding.len);
                let start = known.offset.min(binding.offset);
                let grew = start < known.offset || end > known.offset + known.len;
                known.access = match (known.access, binding.access) {
                    (Access::Read, Access::Read) => Access::Read,
                    (Access::Write, _) if !grew => Access::Write,
                    _ => Access::ReadWrite,
                };
                (known.offset, known.len) = (start, end - start);
            }
        }
    }

    /// The parameters as replays are bound to them.
    pub fn finished(&self) -> Vec<Parameter> {
        let mut list = self.list.clone();
        for parameter in &mut list {
            let binding = &mut parameter.binding;
            if binding.access.writes() && self.scratch.contains(&binding.slice) {
                binding.access = Access::Write;
            }
        }
        list
    }

    /// The scratch parameters of which a task may read bytes that no task before it has defined: what is there is of an earlier
    /// replay.
    pub fn stale(&self, tasks: &[RecordedTask]) -> Box<[u32]> {
        let scratch = self.list.iter().enumerate();
        scratch
            .filter(|(_, parameter)| self.scratch.contains(&parameter.binding.slice))
            .map(|(index, _)| index as u32)
            .filter(|index| reads_undefined(tasks, *index))
            .collect()
    }

    /// A binding as a part of its parameter.
    pub fn relative(&self, binding: &Binding, aliases: bool) -> RecordedBinding {
        let position = self
            .list
            .iter()
            .position(|parameter| parameter.binding.slice == binding.slice);
        let parameter = position.unwrap_or(0);
        let start = self
            .list
            .get(parameter)
            .map_or(0, |parameter| parameter.binding.offset);
        RecordedBinding {
            parameter: parameter as u32,
            offset: binding.offset - start,
            len: binding.len,
            access: binding.access,
            aliases,
        }
    }
}

/// Whether some task reads bytes of a parameter that no task before it has defined.
fn reads_undefined(tasks: &[RecordedTask], parameter: u32) -> bool {
    let mut defined = Defined::default();
    for task in tasks {
        let bindings = task.bindings.iter();
        let mine = bindings.filter(|binding| binding.parameter == parameter);
        let (mut written, mut stale) = (Vec::new(), false);
        for binding in mine {
            let range = binding.offset..binding.offset + binding.len;
            stale |= binding.access.reads() && !defined.covers(&range);
            // A launch whose count is read on the device may define nothing.
            if binding.access == Access::Write && !task.is_dynamic() {
                written.push(range);
            }
        }
        if stale {
            return true;
        }
        written.into_iter().for_each(|range| defined.add(range));
    }
    false
}

/// Bytes that are defined: sorted ranges that do not touch.
#[derive(Default)]
struct Defined(Vec<Range<u64>>);

impl Defined {
    fn add(&mut self, mut range: Range<u64>) {
        let first = self.0.partition_point(|other| other.end < range.start);
        let behind = self.0[first..].partition_point(|other| other.start <= range.end);
        let touched = first..first + behind;
        if let (Some(low), Some(high)) = (
            self.0[touched.clone()].first(),
            self.0[touched.clone()].last(),
        ) {
            range = range.start.min(low.start)..range.end.max(high.end);
        }
        self.0.splice(touched, [range]);
    }

    fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self
                .0
                .iter()
                .any(|known| known.start <= range.start && range.end <= known.end)
    }
}

/// Offset and length of a part of a parameter, within the `bytes` that are bound to the parameter.
#[inline]
pub fn cut(offset: u64, len: u64, bytes: u64) -> (u64, u64) {
    let offset = offset.min(bytes);
    (offset, len.min(bytes - offset))
}

/// Two parameters that overlap where a task writes one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlapping {
    /// The first such task.
    pub task: usize,
    /// Index of the one parameter.
    pub first: usize,
    /// Index of the other.
    pub second: usize,
}

/// The first task of which two bindings overlap, with these handles as parameters, where one is
/// written and no kernel says that they may.
pub fn overlapping_task(tasks: &[RecordedTask], parameters: &[Binding]) -> Option<Overlapping> {
    let bound = |binding: &RecordedBinding| {
        let parameter = parameters[binding.parameter as usize];
        let (offset, len) = cut(binding.offset, binding.len, parameter.len);
        let offset = parameter.offset + offset;
        Binding::new(parameter.slice, offset, len, binding.access)
    };
    for (task, recorded) in tasks.iter().enumerate() {
        for (index, first) in recorded.bindings.iter().enumerate() {
            let conflicts = |second: &&RecordedBinding| {
                !(first.aliases && second.aliases) && bound(first).conflicts(&bound(second))
            };
            if let Some(second) = recorded.bindings[index + 1..].iter().find(conflicts) {
                return Some(Overlapping {
                    task,
                    first: first.parameter as usize,
                    second: second.parameter as usize,
                });
            }
        }
    }
    None
}

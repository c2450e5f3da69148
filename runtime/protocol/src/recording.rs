//! Recordings: tasks that are checked and resolved once, and replayed as one message.
//!
//! The parameters of a recording are the slices that it accesses, in order of first use. A recording keeps handles to
//! the slices that it was recorded with, and a replay may bind other handles. A *formal* parameter, made by
//! `Recorder::parameter`, has no memory, and every replay must bind it. Words of scalars may be slots, which each
//! replay sets.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::binding::Access;
use crate::binding::Binding;
use crate::hazard::order::{Order, Touch};
use crate::id::{KernelId, SliceId};
use crate::launch::TensorMap;
use crate::launch::{LaunchCount, Pattern};

/// One binding of a recorded task: a range of a parameter.
// The order of the fields, here and below, is their order in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct RecordedBinding {
    /// The index of the parameter.
    pub parameter: u32,
    /// The first byte within the parameter.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// How the task accesses the bytes.
    pub access: Access,
    /// Whether the binding may overlap another binding of the task with this flag.
    pub aliases: bool,
}

impl RecordedBinding {
    /// Returns the bytes within the parameter.
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len
    }
}

/// The operation of a recorded task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum RecordedOp {
    /// Runs a kernel.
    Launch {
        /// The kernel.
        kernel: KernelId,
        /// The cube count.
        count: LaunchCount,
    },
    /// Copies the first binding to the second.
    Copy,
    /// Fills the binding.
    Fill(Pattern),
}

impl RecordedOp {
    /// Returns `true` for a launch whose count is read on the device.
    pub(crate) fn is_dynamic(&self) -> bool {
        let dynamic = LaunchCount::Dynamic;
        matches!(self, RecordedOp::Launch { count, .. } if *count == dynamic)
    }
}

/// One word of the packed scalars of a recorded launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordedWord {
    /// The same value at every replay.
    Value(u64),
    /// The word of a replay at this index, which is less than [`SLOTS_MAX`].
    Slot(u32),
}

/// The greatest number of slots of a recording. A replay carries one word for each slot up to the greatest.
pub const SLOTS_MAX: u32 = 1 << 24;

/// A scalar of a task that each replay sets: a part of a word, or a whole one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct ScalarSlot {
    /// The index among the task's words.
    pub word: u32,
    /// The first byte within the word.
    pub byte: u8,
    /// The number of bytes. The scalar ends in the same word.
    pub len: u8,
    /// The index among the replay's words, of which the scalar is the low bytes.
    pub slot: u32,
}

impl ScalarSlot {
    /// Returns the slot for a whole word.
    pub fn of_word(word: u32, slot: u32) -> Self {
        let (byte, len) = (0, size_of::<u64>() as u8);
        Self {
            word,
            byte,
            len,
            slot,
        }
    }

    /// Sets the scalar to its value among the words of a replay. Returns `false` if either does not exist, which only a
    /// message that was built by hand can cause.
    #[inline]
    pub fn set(&self, scalars: &mut [u64], words: &[u64]) -> bool {
        let place = scalars.get_mut(self.word as usize);
        let (Some(place), Some(value)) = (place, words.get(self.slot as usize)) else {
            return false;
        };
        let mask = u64::MAX
            .checked_shr(64 - 8 * u32::from(self.len.min(8)))
            .unwrap_or(0);
        let shift = 8 * u32::from(self.byte % 8);
        *place = *place & !(mask << shift) | (value & mask) << shift;
        true
    }
}

/// One task of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub struct RecordedTask {
    /// The operation.
    pub op: RecordedOp,
    /// The ranges that the task accesses; the last one is the count of a dynamic launch.
    pub bindings: Box<[RecordedBinding]>,
    /// The packed scalars.
    pub scalars: Box<[u64]>,
    /// The scalars that a replay sets.
    pub slots: Box<[ScalarSlot]>,
    /// The metadata words.
    pub metadata: Box<[u32]>,
    /// The tensor maps.
    pub tensor_maps: Box<[TensorMap]>,
}

impl RecordedTask {
    /// Returns the kernel of a launch.
    pub fn kernel(&self) -> Option<KernelId> {
        match self.op {
            RecordedOp::Launch { kernel, .. } => Some(kernel),
            RecordedOp::Copy | RecordedOp::Fill(_) => None,
        }
    }

    /// Returns `true` if the cube count is read on the device.
    pub fn is_dynamic(&self) -> bool {
        self.op.is_dynamic()
    }
}

/// Computes the order of recorded tasks whose parameters do not overlap.
///
/// The order follows from the [hazards](crate::hazard) of the ranges that tasks access, also for the tasks of a
/// compiled schedule: its own graph has no edges for temporaries that share memory.
pub fn order_of(tasks: &[RecordedTask]) -> Order {
    let touch = |binding: &RecordedBinding| Touch {
        space: binding.parameter,
        range: binding.range(),
        access: binding.access,
    };
    let touches = tasks.iter().map(|task| task.bindings.iter().map(touch));
    let touches: Vec<Vec<Touch>> = touches.map(Iterator::collect).collect();
    Order::of(&touches)
}

/// The requirements of a recording on one parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The binding at recording: the range of the slice that the recording accesses.
    pub binding: Binding,
    /// The greatest alignment that a task needs within the parameter, in bytes. A handle that is bound to the
    /// parameter must have the same offset modulo this alignment.
    pub align: u64,
    /// Whether it was made as a parameter, and has no memory of its own.
    pub is_formal: bool,
    /// Whether a replay may bind fewer bytes than were recorded.
    pub may_be_shorter: bool,
}

impl Parameter {
    /// Returns the byte of the recorded slice at which a bound handle begins: 0 for a formal parameter, and the first
    /// byte that is accessed for any other.
    pub fn base(&self) -> u64 {
        match self.is_formal {
            true => 0,
            false => self.binding.offset,
        }
    }
}

/// The parameters of a recording that is being made.
#[derive(Default)]
pub struct Parameters {
    pub(crate) list: Vec<Parameter>,
    /// The index in `list` of each slice.
    indices: HashMap<SliceId, u32>,
    /// The slices of formal parameters.
    pub formal: HashSet<SliceId>,
    /// The formal parameters whose contents before a replay are irrelevant.
    pub scratch: HashSet<SliceId>,
    /// The formal parameters to which a replay may bind fewer bytes.
    pub shorter: HashSet<SliceId>,
}

impl Parameters {
    /// Adds the access of one task to a binding. Returns the binding with the offset within its slice, which
    /// [`Parameters::place`] changes.
    ///
    /// A parameter whose first access overwrites the whole range needs none of its old contents, and stays a `Write`.
    /// If parts are written before the rest is read, it becomes a `ReadWrite`, which is always correct.
    pub fn add(
        &mut self,
        op: &RecordedOp,
        binding: &Binding,
        (align, aliases): (u64, bool),
    ) -> RecordedBinding {
        let added = *binding;
        let mut binding = *binding;
        if op.is_dynamic() && binding.access == Access::Write {
            // The count may be zero; the old contents then remain.
            binding.access = Access::ReadWrite;
        }
        let next = self.list.len() as u32;
        let index = *self.indices.entry(binding.slice).or_insert(next);
        match self.list.get_mut(index as usize) {
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
        RecordedBinding {
            parameter: index,
            offset: added.offset,
            len: added.len,
            access: added.access,
            aliases,
        }
    }

    /// Makes the offsets of all bindings relative to their parameters, once all tasks were added.
    pub fn place(&self, tasks: &mut [RecordedTask]) {
        for binding in tasks.iter_mut().flat_map(|task| &mut task.bindings) {
            binding.offset -= self.list[binding.parameter as usize].binding.offset;
        }
    }

    /// Returns the parameters as replays bind them.
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

    /// Returns the scratch parameters of which a task may read bytes that no earlier task has defined. These bytes
    /// are left from an earlier replay.
    pub fn stale(&self, tasks: &[RecordedTask]) -> Box<[u32]> {
        let mut scratch: HashMap<u32, Scratch> = HashMap::new();
        for slice in &self.scratch {
            scratch.extend(
                self.indices
                    .get(slice)
                    .map(|index| (*index, Scratch::default())),
            );
        }
        for task in tasks {
            for binding in &task.bindings {
                if let Some(parameter) = scratch.get_mut(&binding.parameter) {
                    parameter.is_stale |=
                        binding.access.reads() && !parameter.defined.covers(&binding.range());
                }
            }
            // A launch whose count is read on the device may write nothing.
            for binding in task.bindings.iter().filter(|_| !task.is_dynamic()) {
                if binding.access == Access::Write
                    && let Some(parameter) = scratch.get_mut(&binding.parameter)
                {
                    parameter.defined.add(binding.range());
                }
            }
        }
        let stale = scratch.iter().filter(|(_, parameter)| parameter.is_stale);
        let mut stale: Box<[u32]> = stale.map(|(index, _)| *index).collect();
        stale.sort_unstable();
        stale
    }
}

/// A scratch parameter, as far as the tasks were read.
#[derive(Default)]
struct Scratch {
    defined: Defined,
    /// Whether a task reads bytes that no earlier task has defined.
    is_stale: bool,
}

/// Bytes that are defined: sorted ranges with gaps in between.
#[derive(Default)]
struct Defined(Vec<Range<u64>>);

impl Defined {
    fn add(&mut self, mut range: Range<u64>) {
        let first = self.0.partition_point(|other| other.end < range.start);
        let predecessors = self.0[first..].partition_point(|other| other.start <= range.end);
        let touched = first..first + predecessors;
        if let (Some(low), Some(high)) = (
            self.0[touched.clone()].first(),
            self.0[touched.clone()].last(),
        ) {
            range = range.start.min(low.start)..range.end.max(high.end);
        }
        self.0.splice(touched, [range]);
    }

    fn covers(&self, range: &Range<u64>) -> bool {
        let before = self.0.partition_point(|known| known.end < range.end);
        let known = self.0.get(before);
        range.is_empty() || known.is_some_and(|known| known.start <= range.start)
    }
}

/// Returns the offset and the length of a part of a parameter, clamped to the `bytes` that are bound to it.
#[inline]
pub fn cut(offset: u64, len: u64, bytes: u64) -> (u64, u64) {
    let offset = offset.min(bytes);
    (offset, len.min(bytes - offset))
}

/// Two overlapping parameters of one task, at least one of which it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlapping {
    /// The first such task.
    pub task: usize,
    /// The index of the first parameter.
    pub first: usize,
    /// The index of the second parameter.
    pub second: usize,
}

/// Returns the first task of which two bindings overlap when these handles are bound, if one of them is written and
/// the kernel does not allow aliases.
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

#[cfg(test)]
mod tests;

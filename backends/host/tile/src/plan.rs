//! A nest as the interpreter runs it: straight lists of instructions over slots.
//!
//! The same nest has up to three *templates*, which differ in what the lanes of a tile are:
//!
//! | template | for | lanes are | a step is |
//! | --- | --- | --- | --- |
//! | `Flat` | no inner axes | outer indices | - |
//! | `Row` | reductions along memory | inner indices of one row | the next lanes of the row |
//! | `Column` | reductions across memory | outer indices: many rows at once | the next inner index of all |
//!
//! A nest with reductions takes several *passes* over its inner axes, each of which computes what the reductions of the next
//! one need. What an earlier pass has computed is kept, as long as a row of it fits the cache, or computed again.

use millstream_ir::nest::{AccessId, Word};
use millstream_ir::{BinaryOp, DType};

use crate::kernels::reduce::Reducer;
use crate::level::Kernel;
use crate::slot::{Slot, SlotId};

/// What the lanes of a tile are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Template {
    Flat,
    Row,
    Column,
}

/// One loop over a tile.
#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    Loop(Loop),
    /// Several operations at once, which find their slots themselves.
    #[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
    Fused(std::sync::Arc<crate::fuse::Fused>),
}

/// A loop that does one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) run: Kernel,
    pub(crate) d: SlotId,
    pub(crate) a: SlotId,
    pub(crate) b: SlotId,
    pub(crate) c: SlotId,
    /// How many elements it is for, if not as many as there are lanes.
    pub(crate) fixed: Option<u8>,
}

/// How often something changes its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Never in a launch.
    Launch,
    /// With the outer index.
    Outer,
    /// With the inner index as well.
    Inner,
}

/// What a walk brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InputKind {
    /// The elements of an access.
    Elements(AccessId),
    /// Where they lie: how far behind the access's offset.
    Offsets(AccessId),
    /// The index along an axis.
    Index(u16),
    /// The elements of a gather in runs: which.
    Gathered(u16),
}

/// Something that is read lane by lane, or element by element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) kind: InputKind,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) scope: Scope,
    /// It is the same for all lanes.
    pub(crate) is_uniform: bool,
    pub(crate) slot: SlotId,
    /// Where it is brought if its memory cannot be used as it lies.
    pub(crate) staging: SlotId,
    /// The target that stores it as it is: it is brought straight there.
    pub(crate) direct_target: Option<u16>,
}

/// Something that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) access: AccessId,
    pub(crate) size: usize,
    /// `Outer`: once a row. `Inner`: for each element of it.
    pub(crate) scope: Scope,
    /// One element stands for all lanes.
    pub(crate) is_uniform: bool,
    pub(crate) slot: SlotId,
    /// Where it is computed if its memory cannot be used as it lies.
    pub(crate) staging: SlotId,
}

/// Elements of a row that will be asked soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prefetch {
    /// Those that a walk reads in the step after this one, or in the first of the next row.
    Input(u16),
    /// Those that a target writes in this step, in the last pass.
    Target(u16),
}

/// A gather whose index goes on evenly for many lanes, as far as can be known before it is run: its elements are read as those of
/// an access are, and where they lie in one piece, right there.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    pub(crate) access: AccessId,
    /// Which of the plan's indexed axes.
    pub(crate) indexed: usize,
    /// How the index comes to be; the last step is it.
    pub(crate) steps: Vec<Step>,
}

/// A step on the way to an index, of `i64`. Others are named by their place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Const(i64),
    Word(Word),
    /// The index that a walk counts.
    Index(u16),
    /// What a walk reads, of this type.
    Load(u16, DType),
    Binary(BinaryOp, u8, u8),
}

/// What a gather or scatter is told of the launch: four scalars, from this one on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedAxis {
    pub(crate) access: AccessId,
    pub(crate) stride: millstream_ir::nest::Stride,
    pub(crate) len: Word,
    pub(crate) scalar: u32,
    /// Is it a scatter?
    pub(crate) writes: bool,
}

/// An accumulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) reducer: Reducer,
    pub(crate) slot: SlotId,
    /// Its element, where it is an index.
    pub(crate) best: SlotId,
}

/// Many elements of a walk at once into an accumulator, or into one for each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectFold {
    pub(crate) run: Kernel,
    pub(crate) accumulator: SlotId,
    pub(crate) input: u16,
}

/// One pass over the inner axes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    /// The accumulators of its reductions.
    pub(crate) accumulators: Vec<Accumulator>,
    pub(crate) begin: Vec<Instruction>,
    /// Which walks change their place with every step.
    pub(crate) inputs: Vec<u16>,
    pub(crate) body: Vec<Instruction>,
    /// Where the body does nothing but fold what a walk reads: a long row at once, or several steps across rows.
    pub(crate) direct_fold: Option<DirectFold>,
    /// What the body fetches on its way, and the slots for where that is.
    pub(crate) prefetches: Vec<(Prefetch, SlotId)>,
    /// What follows the last step: results of reductions, and what is computed of them once a row.
    pub(crate) end: Vec<Instruction>,
}

/// A nest, compiled for one template. Its first scalar, which is its first slot, is the index of a step's first element.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) template: Template,
    pub(crate) slots: Vec<Slot>,
    /// Scalars as they are before a launch: constants.
    pub(crate) scalars: Vec<u64>,
    /// Words that are scalars: which, where to, and of how many bytes.
    pub(crate) words: Vec<(Word, u32, u32)>,
    pub(crate) indexed: Vec<IndexedAxis>,
    pub(crate) gathered: Vec<Gathered>,
    pub(crate) inputs: Vec<Input>,
    /// Walks that change their place once a launch, and once a row.
    pub(crate) launch_inputs: Vec<u16>,
    pub(crate) row_inputs: Vec<u16>,
    pub(crate) targets: Vec<Target>,
    /// What is the same for the whole launch.
    pub(crate) once: Vec<Instruction>,
    /// What is computed once a row, before the first pass.
    pub(crate) before: Vec<Instruction>,
    pub(crate) passes: Vec<Pass>,
    /// What is stored once a row.
    pub(crate) finish: Vec<Instruction>,
    /// Bytes of a lane of all registers, how many there are, and bytes of a lane of what is kept.
    pub(crate) unit: u32,
    pub(crate) registers: u32,
    pub(crate) retained: u32,
    /// About what an element costs, in 1 / `COST_UNIT` nanoseconds.
    pub(crate) cost: u64,
    /// Elements are only moved: each walk is stored as it is, and nothing is computed.
    pub(crate) moves: bool,
}

impl Plan {
    /// Is any of it machine code?
    pub(crate) fn is_fused(&self) -> bool {
        #[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
        return self
            .passes
            .iter()
            .flat_map(|pass| &pass.body)
            .any(|instruction| matches!(instruction, Instruction::Fused(_)));
        #[cfg(not(all(feature = "machine-code", target_arch = "x86_64")))]
        false
    }
}

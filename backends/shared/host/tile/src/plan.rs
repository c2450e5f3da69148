//! A nest as the interpreter runs it: lists of instructions over slots.
//!
//! | word | meaning |
//! | --- | --- |
//! | *tile* | the elements that one instruction processes |
//! | *lane* | one element of a tile |
//! | *slot* | where an instruction finds a tile or a scalar; its address may change with each row or step |
//! | *register* | memory of the thread for one tile |
//! | *scalar* | one element that stands for all lanes (*uniform*) |
//! | *input* | elements that are read: of an access, of a gather, or indices |
//! | *target* | elements that are stored |
//! | *direct* | used in place, in the binding's memory; otherwise copied through a *staging* register |
//! | *row*, *step* | one outer index; one tile of inner indices along a row, or one inner index across rows |
//! | *pass* | one loop over the inner axes |
//! | *retained* | computed in one pass and stored for later ones, for every element of a row |
//! | *run* | consecutive lanes of a gather whose index advances by a constant step |
//!
//! The same nest has up to two *templates*, which differ in what the lanes of a tile are:
//!
//! | template | for | lanes are | a step is |
//! | --- | --- | --- | --- |
//! | `Row` | reductions along memory | inner indices of one row | the next lanes of the row |
//! | `Column` | reductions across memory, and nests without inner axes: these have one step | outer indices: many rows at once | the next inner index of all |
//!
//! A nest with reductions takes several passes. Each computes what the reductions of the next one need. Values of an
//! earlier pass are retained as long as a row of them fits the cache, or computed again.

use millstream_ir::nest::{AccessId, Word};
use millstream_ir::{BinaryOp, DType};

use crate::slot::{Slot, SlotId};
use crate::space::Path;
use millstream_loops::level::{Kernel, Level};

/// What the lanes of a tile are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Template {
    Row,
    #[default]
    Column,
}

/// How a plan is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) template: Template,
    /// Whether values that later passes need are retained rather than computed again.
    pub(crate) retains: bool,
    pub(crate) level: Level,
    /// Whether values become machine code where possible.
    pub(crate) fuses: bool,
    /// Whether gathers are read in runs where possible.
    pub(crate) runs: bool,
}

/// One loop over a tile.
#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    Loop(Loop),
    /// Several operations in one loop of machine code, which has its own slots.
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
    /// The number of elements, if it is not the number of lanes.
    pub(crate) fixed: Option<u8>,
}

/// How often an address changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Never within a launch.
    Launch,
    /// With the outer index.
    Outer,
    /// With the inner index as well.
    Inner,
}

/// The kind of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InputKind {
    /// The elements of an access.
    Elements(AccessId),
    /// The offsets of the elements of an access, relative to the access's own offset.
    Offsets(AccessId),
    /// The index along an axis.
    Index(u16),
    /// The elements of a gather that is read in runs: its index in [`Plan::gathered`].
    Gathered(u16),
}

/// An input: elements that are read lane by lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) kind: InputKind,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) scope: Scope,
    /// The same element for all lanes.
    pub(crate) is_uniform: bool,
    pub(crate) slot: SlotId,
    /// The register that the elements are copied to if the input is not direct.
    pub(crate) staging: SlotId,
    /// The target that stores the input unchanged; the elements are copied straight there.
    pub(crate) direct_target: Option<u16>,
}

impl Input {
    /// Returns `true` if these lanes of the path are used in place.
    #[inline]
    pub(crate) fn is_in_place(&self, path: &Path, lanes: usize) -> bool {
        let is_whole = path.is_direct || self.is_uniform || lanes == 1;
        is_whole && matches!(self.kind, InputKind::Elements(_))
    }
}

/// A target: elements that are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) access: AccessId,
    pub(crate) size: usize,
    /// `Outer`: once a row. `Inner`: for each element of it.
    pub(crate) scope: Scope,
    /// The same element for all lanes.
    pub(crate) is_uniform: bool,
    pub(crate) slot: SlotId,
    /// The register that holds the elements until they are stored, if the target is not direct.
    pub(crate) staging: SlotId,
}

/// Elements of a row that are prefetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prefetch {
    /// The elements that an input reads in the next step, or in the first step of the next row.
    Input(u16),
    /// The elements that a target stores in this step, in the last pass.
    Target(u16),
}

/// A gather that may be read in runs. Its elements are read like those of an access, and in place if they are
/// contiguous.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    pub(crate) access: AccessId,
    /// The index of its axis in [`Plan::indexed`].
    pub(crate) indexed: usize,
    /// The computation of the index; the last step is the index.
    pub(crate) steps: Vec<Step>,
}

/// A step in the computation of an index, of type `i64`. Operands are the numbers of earlier steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Const(i64),
    Word(Word),
    /// The index of this input.
    Index(u16),
    /// The element of this input, of this type.
    Load(u16, DType),
    Binary(BinaryOp, u8, u8),
}

/// An axis that a gather or scatter indexes. Its parameters are four scalars, starting with `scalar`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedAxis {
    pub(crate) access: AccessId,
    pub(crate) stride: millstream_ir::nest::Stride,
    pub(crate) len: Word,
    pub(crate) scalar: u32,
    /// Whether it is a scatter.
    pub(crate) writes: bool,
}

/// Folds many elements of an input at once, into one accumulator or into one per lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectFold {
    pub(crate) run: Kernel,
    pub(crate) accumulator: SlotId,
    pub(crate) input: u16,
}

/// One pass over the inner axes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) begin: Vec<Instruction>,
    /// The inputs whose address changes with every step.
    pub(crate) inputs: Vec<u16>,
    pub(crate) body: Vec<Instruction>,
    /// Set if the body only folds an input: then a long row is folded at once, or several steps across rows.
    pub(crate) direct_fold: Option<DirectFold>,
    /// What the body prefetches, with the slots of the addresses.
    pub(crate) prefetches: Vec<(Prefetch, SlotId)>,
    /// What follows the last step: the results of reductions, and values computed from them once a row.
    pub(crate) end: Vec<Instruction>,
}

/// A nest, compiled for one template. Its first slot is a scalar: the index of the first element of a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) template: Template,
    pub(crate) slots: Vec<Slot>,
    /// The initial scalars of a launch, which are its constants.
    pub(crate) scalars: Vec<u64>,
    /// Words that are scalars, with their scalars.
    pub(crate) words: Vec<(Word, u32)>,
    pub(crate) indexed: Vec<IndexedAxis>,
    pub(crate) gathered: Vec<Gathered>,
    pub(crate) inputs: Vec<Input>,
    /// Inputs whose address changes once a launch, and once a row.
    pub(crate) launch_inputs: Vec<u16>,
    pub(crate) row_inputs: Vec<u16>,
    pub(crate) targets: Vec<Target>,
    /// Values that are the same for the whole launch.
    pub(crate) launch_values: Vec<Instruction>,
    /// Values that are computed once a row, before the first pass.
    pub(crate) row_values: Vec<Instruction>,
    pub(crate) passes: Vec<Pass>,
    /// Stores that happen once a row.
    pub(crate) row_stores: Vec<Instruction>,
    /// The bytes per lane of all registers, the number of registers, and the bytes per lane of retained values.
    pub(crate) unit: u32,
    pub(crate) registers: u32,
    pub(crate) retained: u32,
    /// The approximate cost of an element, in 1 / `COST_UNIT` nanoseconds.
    pub(crate) cost: u64,
    /// Whether a body has machine code.
    pub(crate) is_fused: bool,
    /// Whether elements are only moved: each input is stored unchanged, and nothing is computed.
    pub(crate) moves: bool,
}

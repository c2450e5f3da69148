//! Several operations in one loop of machine code, compiled at run time.
//!
//! Over tiles, each operation is a loop of its own that reads and writes the L1 cache, and no memory moves while it
//! computes. If the processor is supported, operations on `f32` that depend on each other become one loop instead,
//! whose values stay in registers. The loop is an instruction like any other: its inputs and outputs are slots.
//!
//! | module | contents |
//! | --- | --- |
//! | `function` | the function: prologue, epilogue, and the loop around the nodes |
//! | `assembler`, `codes` | instructions, registers, constants |
//! | `nodes` | the instructions of each operation, and masks |
//! | `folds` | sums, products and extremes of all lanes |
//! | `functions` | exponentials and functions made of them, bit-identical to [`millstream_loops::math`] |
//!
//! # From values to a loop
//! `build::fusing` selects the values of a body and makes a [`Recipe`] of them: nodes in the order of their
//! computation. The assembler walks the nodes once for each vector, and allocates a register from a node's
//! computation to its last read. For `(a * b + c).exp()`:
//!
//! ```text
//!  recipe                           loop over vectors (8 or 16 lanes)           over tiles, without fusing
//!  n0 = Lanes(a)  n1 = Lanes(b)     v0 = load a; v1 = load b                     tile t0 = a * b
//!  n2 = Mul(n0, n1)                 v2 = v0 * v1           (v0, v1 are free)     tile t1 = t0 + c
//!  n3 = Lanes(c)                    v0 = load c                                  out = exp(t1)
//!  n4 = Add(n2, n3)                 v1 = v2 + v0           (v2, v0 are free)
//!  n5 = Exp(n4)                     v0 = exp(v1), inline
//!  output n5 -> slot of `out`       store v0; the remaining lanes run once more, masked
//! ```
//! Compilation fails if a loop needs more registers than there are, on another processor, or if the system refuses
//! executable memory. Then the tiles run. Both give the same bits: functions are the same operation by operation,
//! folds combine partial results in the same order, and operations that users write are never contracted.
//!
//! # Machine code pages
//! Memory is never writable and executable at once (W^X). A function's life:
//!
//! 1. The assembler encodes into ordinary memory. The code is position independent; its constants lie in a separate
//!    allocation.
//! 2. `Function::compile` maps an anonymous page that is writable and not executable, and copies the code.
//! 3. `make_exec` makes the page readable and executable, and no longer writable. It stays so for its whole life.
//! 4. `Fused` owns the mapping, and its plan owns `Fused`: no launch runs the code after the page is unmapped.
//!
//! Without the feature `machine-code`, or with `Options::machine_code` off, nothing is mapped.
//! `backends/cpu/tests/machine_code.rs` reads the process's memory map to check both.
//!
//! `tests` compares each operation with its function, and folds with the loops over tiles, bit by bit, at each level
//! of the processor.

mod assembler;
mod codes;
mod folds;
mod function;
mod functions;
mod nodes;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;

use memmap2::{Mmap, MmapMut};
use millstream_ir::{BinaryOp, ReduceOp, UnaryOp};

use crate::kernels::reduce::SIDE_BY_SIDE;
use crate::slot::SlotId;
use assembler::Assembler;
pub(crate) use function::is_light;
use millstream_loops::level::Level;

/// The index of a node: that of the value in its nest.
pub(crate) type NodeId = u16;

/// A value of a fused loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Node {
    /// No value that the loop uses.
    Unused,
    /// The elements of a tile.
    Lanes(SlotId),
    /// One element for all lanes.
    Scalar(SlotId),
    Const(f32),
    Unary(UnaryOp, NodeId),
    Binary(BinaryOp, NodeId, NodeId),
}

impl Node {
    pub(crate) fn operands(self) -> impl Iterator<Item = NodeId> {
        let (all, count) = match self {
            Node::Unary(_, a) => ([a, 0], 1),
            Node::Binary(_, a, b) => ([a, b], 2),
            _ => ([0; 2], 0),
        };
        all.into_iter().take(count)
    }
}

/// What a line is prefetched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PrefetchKind {
    Read,
    Write,
}

/// The computation of a fused loop: all values are `f32`, and each node uses earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recipe {
    pub(crate) nodes: Vec<Node>,
    /// The nodes that are stored, and their slots.
    pub(crate) outputs: Vec<(NodeId, SlotId)>,
    /// Whether the loop may bypass the caches when it stores.
    pub(crate) may_stream: bool,
    /// Lines to be prefetched: what is read, and what is written next.
    pub(crate) prefetched: Vec<(PrefetchKind, SlotId)>,
    /// The nodes that are folded: all lanes of a node become [`FEW`](crate::kernels::reduce::FEW) elements at a slot.
    pub(crate) folds: Vec<(ReduceOp, NodeId, SlotId)>,
}

/// Returns `true` if a fused loop supports this operation.
pub(crate) fn has_unary(op: UnaryOp) -> bool {
    use UnaryOp::{Abs, Ceil, Exp, Floor, Neg, Sqrt, Tanh};
    matches!(op, Neg | Abs | Sqrt | Exp | Tanh | Floor | Ceil)
}

/// Returns `true` if a fused loop supports this operation.
pub(crate) fn has_binary(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Div, Max, Min, Mul, Sub};
    matches!(op, Add | Sub | Mul | Div | Min | Max)
}

/// Returns `true` if there is machine code for this level.
pub(crate) fn is_for(level: Level) -> bool {
    level != Level::Base
}

/// The entry of a fused loop: the slots of the machine, the number of lanes, and the constants.
type Entry = unsafe extern "sysv64" fn(*const *mut u8, usize, *const u32);

/// Orders earlier streaming stores before all later stores.
#[inline]
pub(crate) fn fence() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// A loop in memory that is executable and not writable.
struct Function {
    /// Owns the memory that `entry` points to.
    code: Mmap,
    entry: Entry,
    constants: Box<[u32]>,
}

impl Function {
    fn compile(recipe: &Recipe, level: Level, streams: bool) -> Option<Self> {
        let mut assembler = Assembler::new(recipe, level, streams)?;
        assembler.function();
        let (bytes, constants) = assembler.finish()?;
        let mut memory = MmapMut::map_anon(bytes.len()).ok()?;
        memory.copy_from_slice(&bytes);
        let code = memory.make_exec().ok()?;
        // SAFETY: the code is a function of this type; it is position independent and lives as long as the mapping.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.as_ptr()) };
        Some(Self {
            code,
            entry,
            constants,
        })
    }
}

/// A compiled fused loop.
pub(crate) struct Fused {
    usual: Function,
    /// The recipe of the loop that bypasses the caches, if it may. It is compiled for the first launch that needs it,
    /// which few do.
    streaming: Option<(Recipe, Level)>,
    streams: OnceLock<Option<Function>>,
}

impl Fused {
    /// Compiles a loop. Returns `None` if it needs more registers than there are, or if the system refuses executable
    /// memory.
    pub(crate) fn compile(recipe: Recipe, level: Level) -> Option<Self> {
        Some(Self {
            usual: Function::compile(&recipe, level, false)?,
            streaming: recipe.may_stream.then_some((recipe, level)),
            streams: OnceLock::new(),
        })
    }

    /// Runs the loop over `n` lanes.
    ///
    /// With `streams`, stores bypass the caches, for outputs that do not fit them: other threads see them only after
    /// a [`fence`]. This is ignored if the recipe does not allow it.
    ///
    /// # Safety
    /// With `streams`, each output begins at a cache line. The processor has the level that the loop was compiled
    /// for. The recipe's slots are among `slots`, and point to `n` elements, or to one for a scalar. Outputs overlap
    /// no inputs.
    #[inline]
    pub(crate) unsafe fn run(&self, slots: &[*mut u8], n: usize, streams: bool) {
        let mut function = &self.usual;
        if streams && let Some((recipe, level)) = &self.streaming {
            let compile = || Function::compile(recipe, *level, true);
            function = self
                .streams
                .get_or_init(compile)
                .as_ref()
                .unwrap_or(function);
        }
        // SAFETY: the caller's promises; the constants belong to the code.
        unsafe { (function.entry)(slots.as_ptr(), n, function.constants.as_ptr()) }
    }
}

impl fmt::Debug for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fused({} bytes)", self.usual.code.len())
    }
}

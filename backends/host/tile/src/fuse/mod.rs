//! Several operations in one loop, in the processor's own code.
//!
//! A loop over a tile for every operation reads and writes the first cache each time, and computes while no memory
//! moves. Where the processor is known to this module, operations on `f32` that follow from one another become one
//! loop instead, whose values stay in registers. It is an instruction like any other: what it reads and writes are
//! slots.
//!
//! | module | what it is |
//! | --- | --- |
//! | `function` | the function: what it saves, and the loops around the nodes |
//! | `assembler` | instructions, registers, constants |
//! | `tiles` | what is read and written |
//! | `arithmetic` | what each operation becomes |
//! | `masks` | comparisons, and some of the lanes |
//! | `folds` | sums, products and extremes of all lanes |
//! | `functions` | exponentials and what is made of them, to the bit as [`crate::math`] has them |
//!
//! Where there is no code (another processor, more values than registers, memory that must not be executed), the
//! tiles serve. Both round alike: nothing that users write is contracted.

mod arithmetic;
mod assembler;
mod folds;
mod function;
mod functions;
mod masks;
mod tiles;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;

use memmap2::{Mmap, MmapMut};
use millstream_ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

use crate::level::Level;
use crate::slot::SlotId;
use assembler::Assembler;
pub(crate) use function::is_light;

/// Index of a node.
pub(crate) type NodeId = u16;

/// A value of a fused loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Node {
    /// Elements of a tile.
    Lanes(SlotId),
    /// One element for all lanes.
    Scalar(SlotId),
    Const(f32),
    Unary(UnaryOp, NodeId),
    Binary(BinaryOp, NodeId, NodeId),
    Compare(CompareOp, NodeId, NodeId),
    /// Where the first, a comparison, is true the second, else the third.
    Select(NodeId, NodeId, NodeId),
}

impl Node {
    pub(crate) fn operands(self) -> impl Iterator<Item = NodeId> {
        let (all, count) = match self {
            Node::Lanes(_) | Node::Scalar(_) | Node::Const(_) => ([0; 3], 0),
            Node::Unary(_, a) => ([a, 0, 0], 1),
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => ([a, b, 0], 2),
            Node::Select(a, b, c) => ([a, b, c], 3),
        };
        all.into_iter().take(count)
    }
}

/// What a line is fetched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PrefetchKind {
    Read,
    Write,
}

/// What a fused loop computes: `f32` throughout, each node of those before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recipe {
    pub(crate) nodes: Vec<Node>,
    /// Which nodes are written, and where to.
    pub(crate) outputs: Vec<(NodeId, SlotId)>,
    /// Can the loop be asked to write past the caches?
    pub(crate) may_stream: bool,
    /// Lines to be fetched into the cache on the way, of what is read and of what is written next.
    pub(crate) prefetched: Vec<(PrefetchKind, SlotId)>,
    /// Which nodes are made few: all lanes of one become [`FEW`](crate::kernels::reduce::FEW) elements.
    pub(crate) folds: Vec<(ReduceOp, NodeId, SlotId)>,
}

/// How many partial results a fold has.
const SIDE_BY_SIDE: u8 = crate::kernels::reduce::SIDE_BY_SIDE as u8;

/// Can a fused loop make many values few in this way?
pub(crate) fn has_fold(op: ReduceOp) -> bool {
    use ReduceOp::{Max, Min, Prod, Sum};
    matches!(op, Sum | Prod | Min | Max)
}

/// Can a fused loop do this to one value?
pub(crate) fn has_unary(op: UnaryOp) -> bool {
    use UnaryOp::{Abs, Ceil, Exp, Floor, Neg, Sqrt, Tanh};
    matches!(op, Neg | Abs | Sqrt | Exp | Tanh | Floor | Ceil)
}

/// Can a fused loop do this to two values?
pub(crate) fn has_binary(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Div, Max, Min, Mul, Sub};
    matches!(op, Add | Sub | Mul | Div | Min | Max)
}

/// Is there code for loops at this level?
pub(crate) fn is_for(level: Level) -> bool {
    level != Level::Base
}

/// How a fused loop is entered: the slots of the machine, how many lanes, its constants.
type Entry = unsafe extern "sysv64" fn(*const *mut u8, usize, *const u32);

/// Makes what was streamed before visible before whatever is written after.
#[inline]
pub(crate) fn fence() {
    // SAFETY: part of every x86-64 processor.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// A loop in memory that may be executed and no longer written.
struct Function {
    /// Holds what `entry` points to.
    code: Mmap,
    entry: Entry,
    constants: Box<[u32]>,
}

impl Function {
    fn compile(recipe: &Recipe, level: Level, streams: bool) -> Option<Self> {
        let assembled = |unrolls: bool| {
            let mut assembler = Assembler::new(level, streams)?;
            assembler.function(recipe, unrolls).ok()?;
            assembler.finish().ok()
        };
        let unrolls = !recipe.folds.is_empty() && is_light(recipe);
        let unrolled = unrolls.then(|| assembled(true));
        // Without, fewer registers are needed.
        let (bytes, constants) = unrolled.flatten().or_else(|| assembled(false))?;
        let mut memory = MmapMut::map_anon(bytes.len()).ok()?;
        memory.copy_from_slice(&bytes);
        let code = memory.make_exec().ok()?;
        // SAFETY: the code is a function of this type; it is position independent and lives as long as the memory.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.as_ptr()) };
        Some(Self {
            code,
            entry,
            constants,
        })
    }
}

/// A fused loop, compiled.
pub(crate) struct Fused {
    usual: Function,
    /// The loop that writes past the caches, if it may. Compiled when it is first needed, for much memory: few ever
    /// are.
    streaming: Option<(Recipe, Level)>,
    streams: OnceLock<Option<Function>>,
}

impl Fused {
    /// Compiles a loop, unless it has more values at a time than there are registers, or the system has no memory to
    /// execute.
    pub(crate) fn compile(recipe: Recipe, level: Level) -> Option<Self> {
        Some(Self {
            usual: Function::compile(&recipe, level, false)?,
            streaming: recipe.may_stream.then_some((recipe, level)),
            streams: OnceLock::new(),
        })
    }

    /// Runs the loop over so many lanes.
    ///
    /// What `streams` is written past the caches, which is for more than fits them: nobody else sees it before a fence
    /// ([`fence`]). It does not if the recipe did not say that it may.
    ///
    /// # Safety
    /// Where it streams, what is written begins at a line of the cache. The processor has the level that it was
    /// compiled for. The recipe's slots are among `slots`, and point to as many elements as there are lanes, or to
    /// one. What is written overlaps nothing that is read.
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
        // SAFETY: the caller's promises; the constants are those of the code.
        unsafe { (function.entry)(slots.as_ptr(), n, function.constants.as_ptr()) }
    }
}

impl fmt::Debug for Fused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fused({} bytes)", self.usual.code.len())
    }
}

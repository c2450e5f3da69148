//! A nest: one fused kernel over an index space, without a word on how it runs.
//!
//! ```text
//!  for each index of the outer axes            a row: lengths known when it is launched
//!    for each index of the inner axes            an element of the row
//!      loads, arithmetic                           values of level Inner
//!    reductions over the inner axes              values of level Outer, once a row
//!    for each index of the inner axes
//!      arithmetic on both, stores                ..as often as reductions depend on each other
//! ```
//! A softmax over rows is one nest: two reductions and a store at the inner level. Elementwise kernels have outer
//! axes only. Each device lowers a nest where it runs: the CPU to programs over tiles, GPUs to SSA.
//!
//! **Nothing that changes between runs is part of a nest.** Lengths, strides, offsets and constants are *launch words*, so a
//! longer sequence or another factor is the same nest, compiled once. What a nest does say of a stride is whether it is
//! 0, 1 or a word, because code differs between these.
//!
//! Invariants, checked by [`Nest::check`]:
//! 1. Values are in order: each uses values before it alone, and every type fits ([`op`](crate::op)).
//! 2. Where a launch reads and writes the same bytes, it does so at the same index of the same access pattern. (Not
//!    checked here: whoever makes the nest knows.)
//! 3. Stores of one nest write disjoint bytes, unless they scatter: those happen in the order of the inner axes.

mod check;
mod parse;
mod text;

pub use check::NestError;

use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// The index of a launch word. Words are 64 bits: lengths, strides and offsets as `i64` in elements, constants as the
/// bits of their type in the low end.
pub type Word = u16;

/// The index of a value of a nest.
pub type ValueId = u16;

/// The index of an access of a nest.
pub type AccessId = u16;

/// A fused kernel. Two that are equal run the same code.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Nest {
    /// How many axes are looped over outside, slowest first. Their lengths are the first words.
    pub outer: usize,
    /// How many axes are looped over inside: those that are reduced. Their lengths are the next words.
    pub inner: usize,
    /// Words of a launch.
    pub words: usize,
    /// What is bound, in order.
    pub buffers: Vec<Buffer>,
    /// How buffers are walked.
    pub accesses: Vec<Access>,
    /// What is computed.
    pub values: Vec<Value>,
    /// What is kept.
    pub stores: Vec<Store>,
}

/// One binding of a nest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Buffer {
    /// The type of its elements.
    pub dtype: DType,
    /// How the nest touches it.
    pub mode: BufferMode,
}

/// How a nest touches a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferMode {
    /// It is only read.
    Read,
    /// Every byte of it is written, and none read.
    Write,
    /// It is written in part, or read as well.
    Update,
}

/// How a buffer is walked: the element at an index lies at `offset + sum(index * stride)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Which buffer.
    pub buffer: u16,
    /// The word with the offset in elements; none is 0.
    pub offset: Option<Word>,
    /// One for each axis, the outer ones first.
    pub strides: Vec<Stride>,
}

/// How far apart neighbours along an axis are, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stride {
    /// Nowhere: the axis is broadcast.
    Zero,
    /// Side by side.
    One,
    /// As a word says, which may be any number.
    Word(Word),
}

/// One computed value: its type and where it comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// Its type.
    pub dtype: DType,
    /// Where it comes from.
    pub op: Op,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Op {
    /// These bits, which the code may be made for: 0, 1.
    Const(u64),
    /// A launch word, as the value's type.
    Word(Word),
    /// The index along an axis, as `i64`.
    Index(u16),
    /// The element of an access.
    Load(AccessId),
    /// An element whose place along one axis of the buffer is a value: the access walks the other axes. What is out of
    /// the range `0..len` reads as zero.
    Gather {
        /// How the other axes are walked.
        access: AccessId,
        /// The index along the gathered axis, `i64`.
        index: ValueId,
        /// How far apart neighbours along the gathered axis are.
        stride: Stride,
        /// The word with the length of the gathered axis.
        len: Word,
    },
    /// Something done to one value.
    Unary(UnaryOp, ValueId),
    /// Something done to two values.
    Binary(BinaryOp, ValueId, ValueId),
    /// Two values compared: a `bool`.
    Compare(CompareOp, ValueId, ValueId),
    /// The second where the first, a `bool`, is true, and the third elsewhere.
    Select(ValueId, ValueId, ValueId),
    /// A value of another type as this one's: floats to integers cut towards zero and saturate (NaN is 0), integers to
    /// narrower ones wrap, anything to `bool` is whether it is not zero.
    Cast(ValueId),
    /// The first word, `u32`, of Philox4x32-10 with the seed (a word) as its key and the value, an `i64`, in the low half of its
    /// counter. (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.)
    Random {
        /// The word with the seed, 64 bits.
        seed: Word,
        /// What is drawn for.
        counter: ValueId,
    },
    /// All elements of a row made one; without inner axes a row is one element. Its level is [`Level::Outer`].
    Reduce(ReduceOp, ValueId),
}

/// A value that is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// Where.
    pub access: AccessId,
    /// What; of the buffer's type.
    pub value: ValueId,
    /// Once a row, or for each element of it.
    pub level: Level,
    /// Is the place along one axis of the buffer a value?
    pub scatter: Option<Scatter>,
}

/// The place of a store along one axis of the buffer is a value: the access walks the other axes. Nothing is written where it
/// is out of range. Stores happen in the order of the inner axes, so that the last one stays.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// The index along the axis, `i64`.
    pub index: ValueId,
    /// How far apart neighbours along the axis are.
    pub stride: Stride,
    /// The word with the length of the axis.
    pub len: Word,
    /// Is it added to what is there, rather than put in its place?
    pub adds: bool,
}

/// How often something is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Once a row.
    Outer,
    /// Once an element.
    Inner,
}

impl Nest {
    /// How many axes there are.
    pub fn rank(&self) -> usize {
        self.outer + self.inner
    }

    /// The level of an access: does it move along an inner axis?
    pub fn access_level(&self, access: AccessId) -> Level {
        let strides = &self.accesses[usize::from(access)].strides;
        let moves = strides
            .iter()
            .skip(self.outer)
            .any(|stride| *stride != Stride::Zero);
        if moves { Level::Inner } else { Level::Outer }
    }

    /// The level of every value: does it depend on an index of an inner axis? The nest was checked.
    pub fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::with_capacity(self.values.len());
        for value in &self.values {
            let of = |id: &ValueId| levels[usize::from(*id)];
            let level = match &value.op {
                Op::Const(_) | Op::Word(_) | Op::Reduce(..) => Level::Outer,
                Op::Index(axis) if usize::from(*axis) < self.outer => Level::Outer,
                Op::Index(_) => Level::Inner,
                Op::Load(access) => self.access_level(*access),
                Op::Gather { access, index, .. } => self.access_level(*access).max(of(index)),
                op => op.operands().iter().map(of).max().unwrap_or(Level::Outer),
            };
            levels.push(level);
        }
        levels
    }
}

impl Op {
    /// The values that it is made of.
    pub fn operands(&self) -> Operands {
        match *self {
            Op::Const(_) | Op::Word(_) | Op::Index(_) | Op::Load(_) => Operands::of(&[]),
            Op::Unary(_, a) | Op::Cast(a) | Op::Reduce(_, a) => Operands::of(&[a]),
            Op::Gather { index, .. } => Operands::of(&[index]),
            Op::Random { counter, .. } => Operands::of(&[counter]),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => Operands::of(&[a, b]),
            Op::Select(a, b, c) => Operands::of(&[a, b, c]),
        }
    }
}

/// Up to three values.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    values: [ValueId; 3],
    len: usize,
}

impl Operands {
    fn of(values: &[ValueId]) -> Self {
        let mut all = [0; 3];
        all[..values.len()].copy_from_slice(values);
        Self {
            values: all,
            len: values.len(),
        }
    }
}

impl std::ops::Deref for Operands {
    type Target = [ValueId];

    fn deref(&self) -> &[ValueId] {
        &self.values[..self.len]
    }
}

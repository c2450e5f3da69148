//! A nest: one fused kernel over an index space, independent of how a device runs it.
//!
//! ```text
//!  for each index of the outer axes            a row: lengths are launch words
//!    for each index of the inner axes            an element of the row
//!      loads, arithmetic                           values of level Inner
//!    reductions over the inner axes              values of level Outer, once for each row
//!    for each index of the inner axes
//!      arithmetic on both, stores                repeated if reductions depend on each other
//! ```
//! A softmax over rows is one nest: two reductions and a store at the inner level. Elementwise kernels have outer axes
//! only. Each backend lowers nests for its device: the CPU to programs over tiles, GPUs to SSA.
//!
//! **A nest contains nothing that changes between runs.** Lengths, strides, offsets and constants are *launch words*,
//! so a longer sequence or another factor uses the same compiled nest. Only whether a stride is 0, 1 or a word is part
//! of the nest, because it affects the code.
//!
//! Invariants, checked by [`Nest::check`]:
//! 1. Values are in order: each uses only values before it, and all types fit ([`op`](crate::op)).
//! 2. A launch that reads and writes the same bytes does so at the same index of the same access pattern. (Not checked
//!    here: the creator of the nest guarantees it.)
//! 3. Stores of one nest write disjoint bytes, except for scatters, which happen in the order of the inner axes.

mod check;

use crate::named::named;
use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// The index of a launch word. Words have 64 bits: lengths, strides and offsets are `i64` in elements, constants are
/// the bits of their type in the low end.
pub type Word = u16;

/// The index of a value of a nest.
pub type ValueId = u16;

/// The index of an access of a nest.
pub type AccessId = u16;

/// A fused kernel. Equal nests run the same code.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Nest {
    /// The number of outer axes, slowest first. Their lengths are the first words.
    pub outer: usize,
    /// The number of inner axes, which are reduced. Their lengths are the next words.
    pub inner: usize,
    /// The number of launch words.
    pub words: usize,
    /// The bindings, in order.
    pub buffers: Vec<Buffer>,
    /// The accesses to buffers.
    pub accesses: Vec<Access>,
    /// The computed values.
    pub values: Vec<Value>,
    /// The stores.
    pub stores: Vec<Store>,
}

/// One binding of a nest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Buffer {
    /// The type of the elements.
    pub dtype: DType,
    /// How the nest accesses it.
    pub mode: BufferMode,
}

named! {
    /// How a program accesses a buffer.
    BufferMode {
        /// Only read.
        Read = "read",
        /// Every byte is written, and none is read.
        Write = "write",
        /// Written in part, or also read.
        Update = "update",
    }
}

/// An access to a buffer: the element at an index is at `offset + sum(index * stride)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The buffer.
    pub buffer: u16,
    /// The word with the offset in elements; `None` is 0.
    pub offset: Option<Word>,
    /// One stride for each axis, outer axes first.
    pub strides: Vec<Stride>,
}

/// The distance of neighbours along an axis, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stride {
    /// 0: the axis is broadcast.
    Zero,
    /// 1: contiguous.
    One,
    /// The value of a word, which may be any number.
    Word(Word),
}

/// A computed value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Value {
    /// The type.
    pub dtype: DType,
    /// The operation.
    pub op: Op,
}

/// The operation that computes a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Op {
    /// These bits, for which code may be specialized: 0, 1.
    Const(u64),
    /// A launch word, in the type of the value.
    Word(Word),
    /// The index along an axis, as `i64`.
    Index(u16),
    /// The element of an access.
    Load(AccessId),
    /// An element whose index along one axis of the buffer is a value; the access covers the other axes. An index
    /// outside of `0..len` reads as zero.
    Gather {
        /// The access along the other axes.
        access: AccessId,
        /// The index along the gathered axis, `i64`.
        index: ValueId,
        /// The stride of the gathered axis.
        stride: Stride,
        /// The word with the length of the gathered axis.
        len: Word,
    },
    /// An operation on one value.
    Unary(UnaryOp, ValueId),
    /// An operation on two values.
    Binary(BinaryOp, ValueId, ValueId),
    /// A comparison: a `bool`.
    Compare(CompareOp, ValueId, ValueId),
    /// The second value if the first, a `bool`, is true, otherwise the third.
    Select(ValueId, ValueId, ValueId),
    /// A cast: floats to integers truncate towards zero and saturate (NaN is 0), integers to narrower ones wrap, to
    /// `bool` everything but zero is true.
    Cast(ValueId),
    /// The first word, `u32`, of Philox4x32-10 with the seed (a word) as key and the value, an `i64`, in the low half
    /// of the counter. (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.)
    Random {
        /// The word with the seed, 64 bits.
        seed: Word,
        /// The counter.
        counter: ValueId,
    },
    /// A reduction of a row; without inner axes a row is one element. Its level is [`Level::Outer`].
    Reduce(ReduceOp, ValueId),
}

/// A store of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// The access.
    pub access: AccessId,
    /// The value, of the buffer's type.
    pub value: ValueId,
    /// Whether it is stored for each row or for each element.
    pub level: Level,
    /// For a scatter: the index along one axis of the buffer.
    pub scatter: Option<Scatter>,
}

/// A store whose index along one axis of the buffer is a value; the access covers the other axes. An index out of range
/// stores nothing. Stores happen in the order of the inner axes, so the last one remains.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// The index along the axis, `i64`.
    pub index: ValueId,
    /// The stride of the axis.
    pub stride: Stride,
    /// The word with the length of the axis.
    pub len: Word,
    /// Whether the value is added to the element instead of replacing it.
    pub adds: bool,
}

/// How often a value is computed or stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Once for each row.
    Outer,
    /// Once for each element.
    Inner,
}

impl Store {
    /// Returns the values that it uses: the index of a scatter, and the stored one.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<> {
        let index = self.scatter.as_ref().map(|scatter| scatter.index);
        index.into_iter().chain([self.value])
    }
}

impl Nest {
    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.outer + self.inner
    }

    /// Returns the level of an access: `Inner` if it depends on an inner axis.
    pub fn access_level(&self, access: AccessId) -> Level {
        let strides = &self.accesses[usize::from(access)].strides;
        let mut inner = strides.iter().skip(self.outer);
        match inner.all(|stride| *stride == Stride::Zero) {
            true => Level::Outer,
            false => Level::Inner,
        }
    }

    /// Returns the level of every value: `Inner` if it depends on an index of an inner axis. The nest must be valid.
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

    /// Returns for every value how many passes over a row must have ended before it can be computed; for a reduction,
    /// the passes after which it is complete. The nest must be valid.
    pub fn stages(&self) -> Vec<usize> {
        let mut stages: Vec<usize> = Vec::with_capacity(self.values.len());
        for value in &self.values {
            let operands = value.op.operands();
            let of = operands.iter().map(|id| stages[usize::from(*id)]).max();
            let reduces = usize::from(matches!(value.op, Op::Reduce(..)));
            stages.push(of.unwrap_or(0) + reduces);
        }
        stages
    }

    /// Returns for every value whether one of these needs it: themselves, and the operands of those that `is_computed`
    /// accepts. The nest must be valid.
    pub fn needed(
        &self,
        roots: impl IntoIterator<Item = ValueId>,
        is_computed: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        for id in roots {
            needed[usize::from(id)] = true;
        }
        for (index, value) in self.values.iter().enumerate().rev() {
            if needed[index] && is_computed(index) {
                for operand in value.op.operands().iter() {
                    needed[usize::from(*operand)] = true;
                }
            }
        }
        needed
    }
}

impl Op {
    /// Returns the access that it loads through.
    pub fn access(&self) -> Option<AccessId> {
        match *self {
            Op::Load(access) | Op::Gather { access, .. } => Some(access),
            _ => None,
        }
    }

    /// Returns the operands.
    pub fn operands(&self) -> Operands {
        match *self {
            Op::Const(_) | Op::Word(_) | Op::Index(_) | Op::Load(_) => Operands([0; 3], 0),
            Op::Unary(_, a) | Op::Cast(a) | Op::Reduce(_, a) => Operands([a, 0, 0], 1),
            Op::Gather { index, .. } => Operands([index, 0, 0], 1),
            Op::Random { counter, .. } => Operands([counter, 0, 0], 1),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => Operands([a, b, 0], 2),
            Op::Select(a, b, c) => Operands([a, b, c], 3),
        }
    }
}

/// Up to three operands, and their number.
#[derive(Clone, Copy, Debug)]
pub struct Operands([ValueId; 3], usize);

impl std::ops::Deref for Operands {
    type Target = [ValueId];

    fn deref(&self) -> &[ValueId] {
        &self.0[..self.1]
    }
}

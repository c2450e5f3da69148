//! SSA: the program of one thread of a cube, as one writes a GPU kernel: by hand, or lowered from a [`Nest`](crate::Nest).
//!
//! ```text
//! kernel saxpy threads 256 1 1
//!   read x: f32
//!   update y: f32
//!   scalar a: f32
//!   scalar n: i64
//! {
//!   %0: f32 = scalar a
//!   ..
//!   for %7 in %4 .. %1 step %6 {
//!     %8: f32 = load x[%7]
//!     %9: f32 = load y[%7]
//!     %10: f32 = fma %0 %8 %9
//!     store y[%7] = %10
//!   }
//! }
//! ```
//! Values are typed, defined once, and seen from there to the end of their block. What changes is memory: buffers, arrays that
//! a cube shares, and locals of a thread. Control flow has a structure (`if`, `for`), so that every device can see where all
//! threads of a cube meet. Indices, lengths and positions are `i64`, and count elements.
//!
//! [`Builder`] writes functions, [`Function::check`] says whether one is right, `Display` and `FromStr` are its text.
//!
//! A value may be *wide*: 2, 4, 8 or 16 lanes of one type. All arithmetic is lane by lane. A wide load or store is of neighbours
//! and, but for locals, one access of at most [`ACCESS_BYTES_MAX`] bytes; its index is a multiple of the lanes, and so is the
//! offset of the binding. A launch that breaks this is refused or faults, as the device has it.

mod build;
mod builder;
mod check;
mod error;
mod handles;
mod parse;
mod text;
mod uniform;

pub use builder::Builder;
pub use error::SsaError;
pub use handles::{Operand, Place, Val, Var};

use crate::nest::BufferMode;
use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// The index of a value of a function.
pub type ValueId = u32;

/// Statements in order.
pub type Block = Vec<Stmt>;

/// Bytes of one access at most: what a GPU moves at once for a thread.
pub const ACCESS_BYTES_MAX: usize = 16;
/// Threads of a cube at most, on every GPU.
pub const THREADS_MAX: u32 = 1024;
/// Bytes that a cube shares at most: what every GPU gives unasked (48 KiB), but 1 KiB that reductions need.
pub const SHARED_BYTES_MAX: u64 = 47 << 10;
/// Bytes of a thread's locals at most. They are meant to be registers, of which a thread has 1 KiB.
pub const LOCAL_BYTES_MAX: u64 = 16 << 10;
/// How deep blocks may lie within each other.
pub const DEPTH_MAX: usize = 64;

/// A kernel, as what one of its threads does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Threads of a cube along x, y and z.
    pub threads: [u32; 3],
    /// What is bound, in order. Those may overlap.
    pub params: Vec<Param>,
    /// Its launch words, in order: each the bits of its type in the low end of 64 bits.
    pub scalars: Vec<Scalar>,
    /// Arrays that the threads of a cube share. Before they are written they hold anything.
    pub shared: Vec<Array>,
    /// Arrays and variables of each thread. They begin as zeros.
    pub locals: Vec<Array>,
    /// The type of each value.
    pub values: Vec<Type>,
    /// What a thread does.
    pub body: Block,
}

impl Function {
    /// A function that does nothing yet.
    fn new(name: String, threads: [u32; 3]) -> Self {
        Self {
            name,
            threads,
            params: Vec::new(),
            scalars: Vec::new(),
            shared: Vec::new(),
            locals: Vec::new(),
            values: Vec::new(),
            body: Vec::new(),
        }
    }
}

/// A buffer that is bound.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// How the function touches it.
    pub mode: BufferMode,
}

/// A launch word.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
}

/// An array of a fixed length.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// How many there are; 1 is a variable.
    pub len: u32,
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// The type of a lane.
    pub dtype: DType,
    /// 1, or 2, 4, 8 or 16 of a wide value.
    pub lanes: u8,
}

impl Type {
    /// One element.
    pub const fn one(dtype: DType) -> Self {
        Self { dtype, lanes: 1 }
    }

    /// So many lanes of another type.
    pub const fn with(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }
}

impl From<DType> for Type {
    fn from(dtype: DType) -> Self {
        Self::one(dtype)
    }
}

/// What is read and written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// A buffer, by its place among the parameters.
    Param(u16),
    /// An array of the cube.
    Shared(u16),
    /// A local of the thread.
    Local(u16),
}

/// Where a thread is, and among how many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// Its index in its cube.
    Thread,
    /// The index of its cube.
    Cube,
    /// Threads of a cube.
    Threads,
    /// Cubes of the launch.
    Cubes,
}

/// An axis of a cube or of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Axis {
    /// The fastest.
    X,
    /// The second.
    Y,
    /// The slowest.
    Z,
}

/// Which threads reduce together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// All of a cube.
    Cube,
    /// Those of a cube that differ along x alone. Their number must be a power of two, and 32 at most: they never leave a warp.
    Row,
}

/// Where a value comes from. Lane by lane, where nothing else is said.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Op {
    /// These bits in each lane.
    Const(u64),
    /// A launch word.
    Scalar(u16),
    /// Where the thread is, `i64`.
    Position(Position, Axis),
    /// An element, or neighbours of a wide type from there on. No index is the first.
    Load(Memory, Option<ValueId>),
    /// One lane of a wide value.
    Lane(ValueId, u8),
    /// One value in every lane.
    Splat(ValueId),
    /// As many values as there are lanes.
    Pack(Vec<ValueId>),
    /// Something done to one value.
    Unary(UnaryOp, ValueId),
    /// Something done to two.
    Binary(BinaryOp, ValueId, ValueId),
    /// Two values compared: a `bool`.
    Compare(CompareOp, ValueId, ValueId),
    /// The second where the first, a `bool`, is true, and the third elsewhere.
    Select(ValueId, ValueId, ValueId),
    /// A value of another type as this one's, as [`nest::Op::Cast`](crate::nest::Op::Cast) has it.
    Cast(ValueId),
    /// The bits of a value as another type of the same size. Truth values have none.
    Bits(ValueId),
    /// `a * b + c` of floats, rounded once.
    Fma(ValueId, ValueId, ValueId),
    /// A random `u32`, as [`nest::Op::Random`](crate::nest::Op::Random) has it: of a seed, `u64`, and a counter, `i64`.
    Random(ValueId, ValueId),
    /// The values of many threads made one, which all of them know. Of sums and products, the order is the device's, and always the
    /// same. Every thread of the cube comes here. `argmin` and `argmax` are none.
    Reduce(Scope, ReduceOp, ValueId),
}

/// What a thread does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Stmt {
    /// Defines a value.
    Let {
        /// Which.
        value: ValueId,
        /// Where it comes from.
        op: Op,
    },
    /// Writes an element, or neighbours. No index is the first.
    Store {
        /// Where to.
        to: Memory,
        /// From which element on.
        at: Option<ValueId>,
        /// What.
        value: ValueId,
    },
    /// Adds to an element at once, whoever else adds to it. Of `i32`, `u32`, `i64`, `u64`, `f32` and `f64`, in buffers and shared arrays.
    AtomicAdd {
        /// Where to.
        to: Memory,
        /// To which element.
        at: ValueId,
        /// What.
        value: ValueId,
    },
    /// One block or the other.
    If {
        /// A `bool`.
        condition: ValueId,
        /// Where it is true.
        then: Block,
        /// Where it is not.
        otherwise: Block,
    },
    /// A block for each index from `start` on, below `end`. A step below 1 is no turn at all.
    For {
        /// The index.
        index: ValueId,
        /// The first.
        start: ValueId,
        /// Behind the last.
        end: ValueId,
        /// From one to the next.
        step: ValueId,
        /// Is it better written out? For short loops of constant bounds, whose indices then are constants.
        unroll: bool,
        /// What is done.
        body: Block,
    },
    /// Waits until all threads of the cube are here, and sees what they wrote.
    Barrier,
}

impl Function {
    /// The array or buffer's name and element type, if it is there.
    pub fn memory(&self, memory: Memory) -> Option<(&str, DType)> {
        match memory {
            Memory::Param(index) => {
                let param = self.params.get(usize::from(index))?;
                Some((&param.name, param.dtype))
            }
            Memory::Shared(index) => {
                let found = self.shared.get(usize::from(index))?;
                Some((&found.name, found.dtype))
            }
            Memory::Local(index) => {
                let found = self.locals.get(usize::from(index))?;
                Some((&found.name, found.dtype))
            }
        }
    }
}

impl Op {
    /// Calls `f` with each value that it is made of.
    pub fn each_operand(&self, mut f: impl FnMut(ValueId)) {
        match self {
            Op::Const(_) | Op::Scalar(_) | Op::Position(..) | Op::Load(_, None) => {}
            Op::Load(_, Some(a))
            | Op::Lane(a, _)
            | Op::Splat(a)
            | Op::Unary(_, a)
            | Op::Cast(a)
            | Op::Bits(a)
            | Op::Reduce(_, _, a) => f(*a),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::Random(a, b) => {
                f(*a);
                f(*b);
            }
            Op::Select(a, b, c) | Op::Fma(a, b, c) => {
                f(*a);
                f(*b);
                f(*c);
            }
            Op::Pack(values) => values.iter().copied().for_each(f),
        }
    }

    /// Is it the same wherever the same operands are? What reads memory or meets other threads is not.
    pub(crate) fn is_pure(&self) -> bool {
        !matches!(self, Op::Load(..) | Op::Reduce(..))
    }
}

//! SSA: the program of one thread of a cube, like a GPU kernel: written by hand, or lowered from a
//! [`Nest`](crate::Nest).
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
//! Values are typed, defined once, and visible from there to the end of their block. Only memory is mutable: buffers,
//! arrays that a cube shares, and locals of a thread. Control flow is structured (`if`, `for`, `loop`, and `break`,
//! `continue` and `return` at the end of a block), so every device can see where all threads of a cube meet. Indices and
//! positions are `i64`, and count elements.
//!
//! [`Builder`] writes functions, [`Function::check`] checks them, and `Display` prints them.
//!
//! A value may be *wide*: 2, 4, 8 or 16 lanes of one type. All arithmetic is lane by lane. A wide load or store
//! accesses neighbours and is, except for locals, one access of at most [`ACCESS_BYTES_MAX`] bytes; its index and the
//! offset of the binding are multiples of the number of lanes. A launch that violates this is refused or faults,
//! depending on the device.
//!
//! An access out of bounds ends a launch on the CPU and the simulator with a message. A GPU does not notice it, unless
//! the function is [checked](Function::checked).

mod atomic;
mod bounds;
mod build;
mod builder;
mod check;
mod handles;
mod parse;
mod say;
mod subgroup;
mod text;
mod uniform;

pub use atomic::AtomicOp;
pub use builder::Builder;
pub use handles::{MemoryRef, Operand, Val, Var};
pub use parse::parse;
pub use say::{Say, Text, ThreadPosition};
pub use subgroup::{SUBGROUP_MAX, Scope, Shuffle, reduced};

use crate::named::named;
use crate::nest::BufferMode;
use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// The index of a value of a function.
pub type ValueId = u32;

/// Statements, in order.
pub type Block = Vec<Stmt>;

/// The most bytes of one access: what a GPU moves at once for a thread.
pub const ACCESS_BYTES_MAX: usize = 16;
/// The most threads of a cube, on every GPU.
pub const THREADS_MAX: u32 = 1024;
/// The most bytes of shared memory of a cube: what every GPU has by default (48 KiB), minus 1 KiB for reductions.
pub const SHARED_BYTES_MAX: u64 = 47 << 10;
/// The most bytes of locals of a thread. Locals should fit registers, of which a thread has 1 KiB.
pub const LOCAL_BYTES_MAX: u64 = 16 << 10;
/// The most bytes of tables: a part of each copy of the program, and of some devices' registers or stacks.
pub const TABLE_BYTES_MAX: u64 = 32 << 10;
/// Indices that a program computes for an access that is out of bounds of an array within an element: no memory has them, and
/// messages say so.
pub const PARTS_BEYOND: std::ops::Range<i64> = 1 << 59..1 << 62;
/// The greatest depth of nested blocks.
pub const DEPTH_MAX: usize = 64;

/// A kernel, as the program of one thread.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// The name.
    pub name: String,
    /// The number of threads of a cube along x, y and z.
    pub threads: [u32; 3],
    /// The source file to which [`Stmt::Line`] refers, for messages; empty if unknown.
    pub file: String,
    /// Whether devices check each access to buffers, shared arrays and indexed locals: a load out of bounds gives zeros,
    /// a store there does nothing, and an atomic operation neither, whose value is 0; a wide access needs all of its lanes in bounds. Every parameter
    /// has a [length](Param::len) then. The CPU and the simulator fail at an access out of bounds in any case.
    pub checked: bool,
    /// Whether a device may contract: round a sum or difference and a product of floats that is an operand of it once, as
    /// [`Op::Fma`]. The CPU and the simulator never do.
    pub contract: bool,
    /// The bindings, in order. They may overlap.
    pub params: Vec<Param>,
    /// The launch words, in order: each has the bits of its type in the low end of 64 bits.
    pub scalars: Vec<Scalar>,
    /// Arrays that the threads of a cube share. Their initial content is undefined.
    pub shared: Vec<Array>,
    /// Arrays and variables of each thread. They are initialized with zeros.
    pub locals: Vec<Array>,
    /// Arrays of constants, which are only loaded.
    pub tables: Vec<Table>,
    /// The type of each value.
    pub values: Vec<Type>,
    /// The statements.
    pub body: Block,
}

/// A bound buffer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// How the function accesses it.
    pub mode: BufferMode,
    /// The launch word, `u64`, with the number of its elements.
    pub len: Option<u16>,
    /// The number of elements that the author's code has as one, such as a struct: messages count those.
    pub each: u32,
}

/// A launch word.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// The name.
    pub name: String,
    /// The type.
    pub dtype: DType,
}

/// An array of a fixed length.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Array {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The number of elements; 1 for a variable.
    pub len: u32,
}

/// An array of constants.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    /// The name.
    pub name: String,
    /// The type of the elements.
    pub dtype: DType,
    /// The bits of each element, in the low end.
    pub bits: Vec<u64>,
}

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// The type of a lane.
    pub dtype: DType,
    /// The number of lanes: 1, or 2, 4, 8 or 16 for a wide value.
    pub lanes: u8,
}

impl Type {
    /// Returns the type with one lane.
    pub const fn one(dtype: DType) -> Self {
        Self { dtype, lanes: 1 }
    }

    /// Returns a type with as many lanes of another element type.
    pub const fn with(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }
}

impl From<DType> for Type {
    fn from(dtype: DType) -> Self {
        Self::one(dtype)
    }
}

/// Memory that a function reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Memory {
    /// A buffer, by the index of its parameter.
    Param(u16),
    /// A shared array.
    Shared(u16),
    /// A local.
    Local(u16),
    /// A table.
    Table(u16),
}

named! {
    /// The position of a thread, or the size of a cube or launch.
    Position {
        /// The index of the thread in its cube.
        Thread = "thread",
        /// The index of the thread's cube.
        Cube = "cube",
        /// The number of threads of a cube.
        Threads = "threads",
        /// The number of cubes of the launch.
        Cubes = "cubes",
    }
}

named! {
    /// An axis of a cube or of a launch.
    Axis {
        /// The fastest axis.
        X = "x",
        /// The second axis.
        Y = "y",
        /// The slowest axis.
        Z = "z",
    }
}

/// The operation that computes a value. Lane by lane, unless stated otherwise.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Op {
    /// These bits in each lane.
    Const(u64),
    /// A launch word.
    Scalar(u16),
    /// A position, `i64`.
    Position(Position, Axis),
    /// An element, or neighbours for a wide type. Without index the first element.
    Load(Memory, Option<ValueId>),
    /// One lane of a wide value.
    Lane(ValueId, u8),
    /// One value in all lanes.
    Splat(ValueId),
    /// A wide value from one value for each lane.
    Pack(Vec<ValueId>),
    /// An operation on one value.
    Unary(UnaryOp, ValueId),
    /// An operation on two values.
    Binary(BinaryOp, ValueId, ValueId),
    /// A comparison: a `bool`.
    Compare(CompareOp, ValueId, ValueId),
    /// The second value if the first, a `bool`, is true, otherwise the third.
    Select(ValueId, ValueId, ValueId),
    /// A cast, as [`nest::Op::Cast`](crate::nest::Op::Cast).
    Cast(ValueId),
    /// The bits of a value as another type of the same size, not `bool`.
    Bits(ValueId),
    /// `a * b + c` of floats, rounded once.
    Fma(ValueId, ValueId, ValueId),
    /// A random `u32`, as [`nest::Op::Random`](crate::nest::Op::Random), from a seed, `u64`, and a counter, `i64`.
    Random(ValueId, ValueId),
    /// A reduction of the values of several threads, whose result all of them have. The order of sums and products of a
    /// cube depends on the device, but is always the same; that of a [subgroup](Scope::Subgroup) is the same everywhere.
    /// Every thread of the cube must reach it. `argmin` and `argmax` are not supported. It orders no memory.
    Reduce(Scope, ReduceOp, ValueId),
    /// An atomic operation on the element with this index of an updated buffer or a shared array, and what the element was
    /// before. For `i32`, `u32`, `i64` and `u64`; additions, loads and swaps also for `f32` and `f64`.
    Atomic(AtomicOp, Memory, ValueId),
    /// The value of another thread of a subgroup of this width: the first operand of the thread that the second one,
    /// `i64`, tells. Every thread of the cube must reach it. It orders no memory.
    Shuffle(Shuffle, u32, ValueId, ValueId),
}

/// A statement. `Break`, `Continue` and `Return` are the last statement of their block.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stmt {
    /// Defines a value.
    Let {
        /// The value.
        value: ValueId,
        /// The operation.
        op: Op,
    },
    /// Stores an element, or neighbours. Without index the first element.
    Store {
        /// The memory.
        to: Memory,
        /// The index of the first element.
        at: Option<ValueId>,
        /// The value.
        value: ValueId,
    },
    /// Executes one of two blocks.
    If {
        /// The condition, a `bool`.
        condition: ValueId,
        /// The block if it is true.
        then: Block,
        /// The block if it is false.
        otherwise: Block,
    },
    /// Executes a block for each index from `start` on, below `end`. With a step below 1 not at all.
    For {
        /// The index.
        index: ValueId,
        /// The first index.
        start: ValueId,
        /// The end, exclusive.
        end: ValueId,
        /// The step.
        step: ValueId,
        /// A hint that devices unroll the loop: for short loops with constant bounds.
        unroll: bool,
        /// The block.
        body: Block,
    },
    /// Executes a block again and again, until `Break` or `Return` leaves it.
    Loop {
        /// The block.
        body: Block,
    },
    /// Leaves the innermost `Loop` or `For`.
    Break,
    /// Ends an iteration of the innermost `Loop` or `For`, which goes on with the next one.
    Continue,
    /// Ends the thread.
    Return,
    /// Waits until all threads of the cube are here, and makes their stores visible.
    Barrier,
    /// Prints a text with values, or fails the launch. No effect on control flow: the checks behind a failure see threads that
    /// go on.
    Say(Box<Say>),
    /// The statements from here on come from this line of [`Function::file`]; 0 if unknown. No effect.
    Line(u32),
}

/// Returns the statements of a block and of the blocks within it, in order.
pub fn statements(block: &Block) -> impl Iterator<Item = &Stmt> {
    let mut open = vec![block.iter()];
    std::iter::from_fn(move || {
        loop {
            let Some(stmt) = open.last_mut()?.next() else {
                open.pop();
                continue;
            };
            match stmt {
                Stmt::If {
                    then, otherwise, ..
                } => open.extend([otherwise.iter(), then.iter()]),
                Stmt::For { body, .. } | Stmt::Loop { body } => open.push(body.iter()),
                _ => {}
            }
            return Some(stmt);
        }
    })
}

impl Function {
    /// Starts a function without content.
    fn begun(name: String, threads: [u32; 3]) -> Self {
        Self {
            name,
            threads,
            file: String::new(),
            checked: false,
            contract: false,
            params: Vec::new(),
            scalars: Vec::new(),
            shared: Vec::new(),
            locals: Vec::new(),
            tables: Vec::new(),
            values: Vec::new(),
            body: Block::new(),
        }
    }

    /// Returns the number of elements that messages count as one.
    pub fn each(&self, memory: Memory) -> u32 {
        match memory {
            Memory::Param(index) => self.params[usize::from(index)].each,
            _ => 1,
        }
    }

    /// Returns for each value whether a statement uses it.
    pub fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.values.len()];
        let mut add = |value: ValueId| used[value as usize] = true;
        for stmt in statements(&self.body) {
            match stmt {
                Stmt::Let { op, .. } => op.each_operand(&mut add),
                Stmt::Store { at, value, .. } => {
                    at.iter().chain([value]).copied().for_each(&mut add);
                }
                Stmt::If { condition, .. } => add(*condition),
                Stmt::For {
                    start, end, step, ..
                } => [*start, *end, *step].into_iter().for_each(&mut add),
                Stmt::Say(say) => say.values.iter().copied().for_each(&mut add),
                _ => {}
            }
        }
        used
    }

    /// Returns the name and the element type of a buffer or array, if it exists.
    pub fn memory(&self, memory: Memory) -> Option<(&str, DType)> {
        let (arrays, index) = match memory {
            Memory::Param(index) => {
                let param = self.params.get(usize::from(index))?;
                return Some((&param.name, param.dtype));
            }
            Memory::Shared(index) => (&self.shared, index),
            Memory::Local(index) => (&self.locals, index),
            Memory::Table(index) => {
                let table = self.tables.get(usize::from(index))?;
                return Some((&table.name, table.dtype));
            }
        };
        let array = arrays.get(usize::from(index))?;
        Some((&array.name, array.dtype))
    }
}

impl Stmt {
    /// Returns `true` if no statement may follow in the same block.
    pub fn is_terminator(&self) -> bool {
        matches!(self, Stmt::Break | Stmt::Continue | Stmt::Return)
    }

    /// Returns the operation of a definition.
    pub fn op(&self) -> Option<&Op> {
        match self {
            Stmt::Let { op, .. } => Some(op),
            _ => None,
        }
    }
}

impl Op {
    /// Calls `f` with each operand.
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
            Op::Binary(_, a, b)
            | Op::Compare(_, a, b)
            | Op::Random(a, b)
            | Op::Shuffle(_, _, a, b) => {
                f(*a);
                f(*b);
            }
            Op::Select(a, b, c) | Op::Fma(a, b, c) => {
                f(*a);
                f(*b);
                f(*c);
            }
            Op::Pack(values) => values.iter().copied().for_each(f),
            Op::Atomic(op, _, at) => {
                f(*at);
                op.operands().for_each(f);
            }
        }
    }

    /// Returns `true` if the result depends on the operands alone. Loads, atomic operations and what
    /// threads compute together do not.
    pub(crate) fn is_pure(&self) -> bool {
        !matches!(self, Op::Load(..) | Op::Atomic(..)) && !self.meets()
    }

    /// Returns `true` if all threads of a cube must reach it.
    pub fn meets(&self) -> bool {
        matches!(self, Op::Reduce(..) | Op::Shuffle(..))
    }
}

//! A compiled function: steps, over scalars and columns.
//!
//! A *scalar* is the same for all threads of a cube, and is computed once for them. A *column* has an element for each
//! thread of a *chunk*: all threads of several cubes, cube after cube, or some threads of one if no thread waits for another.
//! Both are *places*: the table of a running machine has a pointer for each. A scalar that may differ among the cubes of a
//! chunk, such as the position of a cube, *varies*: it has an element for each of them. An *affine* value is the sum of a scalar and of products of a
//! thread's position with scalars, so it needs no column until an operation other than sums, products and accesses uses it.
//!
//! Steps that compute write the elements of all threads between the first active one and the last one, because no
//! operation traps, and what inactive threads have is never read. Only stores distinguish them.

use millstream_ir::ssa::{AtomicOp, Axis, Function, Memory, Position, Shuffle, Table, Text};
use millstream_ir::{CompareOp, DType};

use crate::kernels::Kernel;

/// The index of a pointer in the table: first those of the scalars, each of eight bytes, then those of the columns.
pub(crate) type Place = u32;

/// Set in the place of a column that has none yet: the rest is its number.
pub(crate) const UNPLACED: u32 = 1 << 31;

/// Set in the place of a scalar that varies.
pub(crate) const VARIES: u32 = 1 << 30;

/// Returns the index in the table of a place.
#[inline]
pub(crate) const fn slot(place: Place) -> usize {
    (place & !VARIES) as usize
}

/// Returns whether a scalar varies.
#[inline]
pub(crate) const fn varies(place: Place) -> bool {
    place & VARIES != 0
}

/// A scalar or a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operand {
    pub(crate) place: Place,
    /// The bytes of an element; 0 for a scalar.
    pub(crate) size: u32,
}

impl Operand {
    pub(crate) const fn scalar(place: Place) -> Self {
        Self { place, size: 0 }
    }

    pub(crate) const fn is_scalar(self) -> bool {
        self.size == 0
    }

    /// Returns whether it is a scalar that varies. The place of a column says nothing of that.
    #[inline]
    pub(crate) const fn varies(self) -> bool {
        varies(self.place)
    }
}

/// A function of the bits of values, from [`millstream_ir::scalar`].
#[derive(Clone, Copy)]
pub(crate) enum Reference {
    Unary(fn(u64) -> u64),
    Binary(fn(u64, u64) -> u64),
    Ternary(fn(u64, u64, u64) -> u64),
}

impl Reference {
    pub(crate) const COPY: Self = Self::Unary(|bits| bits);

    #[inline]
    pub(crate) fn of(self, [a, b, c]: [u64; 3]) -> u64 {
        match self {
            Self::Unary(f) => f(a),
            Self::Binary(f) => f(a, b),
            Self::Ternary(f) => f(a, b, c),
        }
    }
}

/// `base + strides * position of the thread`, modulo 2^64. Strides of axes without a second thread do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Affine {
    pub(crate) base: Place,
    pub(crate) strides: [Place; 3],
    /// The distance of each thread's value from that of the thread before it, if it is known to be the same for all.
    pub(crate) linear: Option<Place>,
}

impl Affine {
    /// Returns whether the values of a thread may differ among cubes.
    #[inline]
    pub(crate) fn varies(self) -> bool {
        let [x, y, z] = self.strides;
        varies(self.base | x | y | z)
    }
}

/// A comparison of an affine value with a scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    pub(crate) op: CompareOp,
    pub(crate) value: Affine,
    pub(crate) with: Place,
    /// Whether both are `u64`, instead of `i64`.
    pub(crate) unsigned: bool,
}

/// A condition.
pub(crate) enum Condition {
    Scalar(Place),
    Column(Operand),
    Test(Test),
    /// All of several tests.
    All(Box<[Test]>),
}

/// An index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    Scalar(Place),
    Affine(Affine),
    Column(Operand),
}

/// Memory that threads access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// A buffer, by the index of its parameter.
    Param(usize),
    /// A shared array: its first byte among all of them, and its length.
    Shared { start: usize, len: usize },
    /// An array of each thread: its first byte in a thread's share of all of them, and its length. An element is a column.
    Local { start: usize, len: usize },
    /// A table, by its index.
    Table(usize),
}

/// The elements of a table, as memory has them.
pub(crate) struct Constants {
    /// Words, so that the elements are aligned.
    pub(crate) words: Box<[u64]>,
    /// The number of elements.
    pub(crate) len: usize,
}

impl Constants {
    pub(crate) fn of(table: &Table) -> Self {
        let size = table.dtype.size();
        let elements = table.bits.iter();
        let bytes: Vec<u8> = elements
            .flat_map(|bits| bits.to_le_bytes().into_iter().take(size))
            .collect();
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        Self {
            words: bytes.chunks(8).map(word).collect(),
            len: table.bits.len(),
        }
    }
}

/// An access to memory.
pub(crate) struct Access {
    pub(crate) target: Target,
    pub(crate) at: At,
    /// The bytes of an element.
    pub(crate) size: usize,
    pub(crate) lanes: usize,
    /// Whether the elements are bools, of which any byte but 0 is true.
    pub(crate) is_bool: bool,
    /// For messages: the memory, and the line of the source file.
    pub(crate) memory: Memory,
    pub(crate) line: u32,
}

/// Where a thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Path {
    /// At the next statement.
    Next,
    /// At the next iteration of the innermost loop.
    Iteration,
    /// Behind the innermost loop.
    Loop,
    /// Nowhere: it has returned.
    Nowhere,
}

/// The iterations of a loop.
pub(crate) enum Turns {
    /// Until all threads have left it.
    Endless,
    /// Those of an index that is a scalar.
    Scalar { index: Place, bounds: [Place; 3] },
    /// Those of an index that is affine, and begins with this value. `base` is the base of the index, and varies if any of
    /// these does.
    Affine {
        base: Place,
        start: Affine,
        end: Place,
        step: Place,
    },
    /// Those of an index that is a column: the condition that a thread begins, steps that compute whether it goes on, and
    /// steps that advance the index.
    Column {
        begins: Condition,
        test: Steps,
        goes_on: Operand,
        advance: Steps,
    },
}

/// A text with values of a thread.
pub(crate) struct Said {
    pub(crate) fails: bool,
    pub(crate) text: Text,
    pub(crate) values: Box<[(DType, Operand)]>,
    /// The line of the source file.
    pub(crate) line: u32,
}

/// The sum of a column and of a product that nothing else uses, of `f32`: both are rounded.
pub(crate) struct MulAdd {
    /// The steps that compute it. The last two multiply and add.
    pub(crate) steps: Steps,
    /// Which of the steps load a factor, of which nothing else uses the column.
    pub(crate) loads: [Option<usize>; 2],
    /// Which operand of the sum is not the product.
    pub(crate) addend: usize,
}

/// Steps, in order.
pub(crate) type Steps = Vec<Step>;

/// A step.
pub(crate) enum Step {
    /// Computes a scalar. If `masked` only that of cubes with active threads, otherwise that of all.
    Scalar {
        to: Place,
        f: Reference,
        of: [Place; 3],
        masked: bool,
    },
    /// Runs a loop; on a single element if the result is a scalar.
    Map {
        run: Kernel,
        to: Operand,
        of: [Operand; 3],
    },
    /// Adds a product.
    MulAdd(Box<MulAdd>),
    /// Calls a function for each thread.
    Each {
        f: Reference,
        to: Operand,
        of: [Operand; 3],
    },
    /// Writes an affine value to a column.
    Ramp { to: Operand, value: Affine },
    /// Writes whether a test is true to a column.
    Tested { to: Operand, test: Test },
    /// Copies to a column. If `masked` only the elements of active threads, otherwise perhaps all. If `swaps`, the value
    /// is not used afterwards.
    Set {
        to: Operand,
        value: Operand,
        masked: bool,
        swaps: bool,
    },
    /// Loads the lanes of a value. If `direct`, `to` is no column, but the memory itself, or this column.
    Load {
        access: Box<Access>,
        to: Box<[Operand]>,
        direct: Option<Operand>,
    },
    /// Stores the lanes of a value.
    Store {
        access: Box<Access>,
        value: Box<[Operand]>,
    },
    /// An atomic operation, whose value is written unless nothing uses it.
    Atomic {
        access: Box<Access>,
        op: AtomicOp,
        operands: [Operand; 2],
        to: Option<Operand>,
        dtype: DType,
    },
    /// Prints, or fails.
    Say(Box<Said>),
    /// Reduces a column of all threads of the cube to a scalar, or that of each subgroup of this many threads to a column.
    Reduce {
        subgroup: Option<u32>,
        run: Result<Kernel, fn(u64, u64) -> u64>,
        /// The bytes of an element.
        size: usize,
        to: Operand,
        of: Operand,
    },
    /// Gives each thread the element of another one of its subgroup.
    Shuffle {
        from: Shuffle,
        width: u32,
        to: Operand,
        of: Operand,
        by: Operand,
    },
    /// Executes one of two blocks. `mask` is a column for the threads of a block. `after` is one for those that go on, if
    /// some may not.
    If {
        condition: Condition,
        then: Steps,
        otherwise: Steps,
        mask: Operand,
        after: Option<Operand>,
    },
    /// Repeats a block. `mask` is a column for the threads in the loop.
    Repeat {
        turns: Turns,
        body: Steps,
        mask: Operand,
        after: Option<Operand>,
    },
    /// Leaves the block.
    Leave(Path),
}

/// The loops that steps do not name.
pub(crate) struct Loops {
    /// By the logarithm of the size of an element.
    pub(crate) fill: [Kernel; 4],
    /// With a column, and with a scalar.
    pub(crate) blend: [[Kernel; 4]; 2],
    pub(crate) ramp: Kernel,
    /// Of elements of four bytes: copies rows of threads, of one element each or of neighbours.
    pub(crate) rows: Option<[Kernel; 2]>,
    /// Adds products to rows of threads, and to one row of any length. The first index is 0 if the first factor is the same for
    /// all threads of a row, and likewise the second one.
    pub(crate) mul_add: [[[Option<Kernel>; 2]; 2]; 2],
    pub(crate) masks: [[Kernel; 2]; 2],
    /// Without and with a mask.
    pub(crate) bounds: [Kernel; 2],
}

/// A compiled function.
pub(crate) struct Code {
    /// Distinguishes it from any other function.
    pub(crate) id: u64,
    pub(crate) function: Function,
    /// The threads of a cube along each axis. If the function divides threads of one axis into rows and columns, these.
    pub(crate) shape: [u32; 3],
    pub(crate) threads: usize,
    /// The threads of a chunk, except for the last one: those of several cubes, or of a part of one.
    pub(crate) chunk: usize,
    /// The most cubes of a chunk.
    pub(crate) cubes: usize,
    pub(crate) loops: Loops,
    pub(crate) steps: Steps,
    /// The number of the first steps that compute what is the same in all chunks.
    pub(crate) prologue: usize,
    /// Whether a thread may leave a block.
    pub(crate) leaves: bool,
    pub(crate) tables: Vec<Constants>,
    /// For each scalar whether it varies. Those that are constants.
    pub(crate) scalars: Vec<bool>,
    pub(crate) constants: Vec<(Place, u64)>,
    /// Launch words, by index, and positions.
    pub(crate) words: Vec<(Place, u16)>,
    pub(crate) positions: Vec<(Place, Position, Axis)>,
    /// The bytes of an element of each column, in the order of their places behind the scalars.
    pub(crate) columns: Vec<u32>,
    /// The number of places behind the columns: of loads that may be direct.
    pub(crate) direct: usize,
    /// Columns and scalars that are zeros at first.
    pub(crate) zeros: Vec<Operand>,
    /// The bytes of a cube's shared arrays, and those of the arrays of one thread.
    pub(crate) shared_bytes: usize,
    pub(crate) local_bytes: usize,
}

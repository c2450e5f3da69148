//! What can be wrong with a graph or a schedule.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use millstream_ir::DType;
use millstream_protocol::error::{Error, KernelError};
use smallvec::SmallVec;

use crate::shape::{MAX_RANK, Shape};
use crate::size::Size;

/// An operation that cannot be: which, of what, why, and where it was written.
///
/// ```
/// # use millstream_graph::{Graph, DType};
/// let graph = Graph::new();
/// let a = graph.input("a", DType::F32, [2, 3]);
/// let b = graph.input("b", DType::F32, [4, 5]);
/// let error = a.matmul(&b).check().unwrap_err();
/// assert!(error.to_string().starts_with("`matmul` of f32 [2, 3] and f32 [4, 5]: the inner lengths 3 and 4 differ (at "));
/// # let _ = error;
/// ```
#[derive(Clone, Debug)]
pub struct GraphError(Arc<Refusal>);

#[derive(Debug)]
struct Refusal {
    op: &'static str,
    operands: SmallVec<[(DType, Shape); 2]>,
    why: Why,
    at: &'static Location<'static>,
}

impl GraphError {
    pub(crate) fn new(
        op: &'static str,
        operands: impl IntoIterator<Item = (DType, Shape)>,
        why: Why,
        at: &'static Location<'static>,
    ) -> Self {
        let operands = operands.into_iter().collect();
        Self(Arc::new(Refusal {
            op,
            operands,
            why,
            at,
        }))
    }

    /// The operation, as its method is called.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The types and shapes of what it was for.
    pub fn operands(&self) -> &[(DType, Shape)] {
        &self.0.operands
    }

    /// Why it cannot be.
    pub fn why(&self) -> &Why {
        &self.0.why
    }

    /// Where it was written.
    pub fn at(&self) -> &'static Location<'static> {
        self.0.at
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusal = &*self.0;
        write!(f, "`{}`", refusal.op)?;
        for (index, (dtype, shape)) in refusal.operands.iter().enumerate() {
            let word = if index == 0 { " of" } else { " and" };
            write!(f, "{word} {dtype} {shape}")?;
        }
        write!(f, ": {} (at {})", refusal.why, refusal.at)
    }
}

impl std::error::Error for GraphError {}

/// Why an operation cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Lengths that should be the same.
    #[error("the {what} {first} and {second} differ")]
    Lengths {
        /// Of what.
        what: &'static str,
        /// One.
        first: Size,
        /// The other.
        second: Size,
    },
    /// Shapes that cannot be broadcast to each other.
    #[error(
        "the shapes cannot be broadcast to each other: axes from the last on must be equal or 1"
    )]
    Broadcast,
    /// Shapes that are stored one into the other.
    #[error("the shapes differ, and what is stored is not broadcast: `broadcast_to` does it")]
    Shapes,
    /// A shape with another number of elements.
    #[error("{to} has {there} elements, not {here}")]
    Elements {
        /// The other shape.
        to: Shape,
        /// Elements here.
        here: Size,
        /// Elements there.
        there: Size,
    },
    /// An axis that is not there.
    #[error("there is no axis {axis}, the rank is {rank}")]
    Axis {
        /// The axis.
        axis: isize,
        /// How many there are.
        rank: usize,
    },
    /// An axis that is named twice, or not at all.
    #[error("the axes {axes:?} name one twice, or not all, of {rank}")]
    Axes {
        /// The axes.
        axes: Vec<isize>,
        /// How many there are.
        rank: usize,
    },
    /// Too few axes.
    #[error("it takes at least {least} axes")]
    Rank {
        /// How many it takes.
        least: usize,
    },
    /// Numbers of axes that should be the same.
    #[error("the ranks {first} and {second} differ")]
    Ranks {
        /// One.
        first: usize,
        /// The other.
        second: usize,
    },
    /// More axes than a buffer can have.
    #[error("{given} axes are more than {MAX_RANK}")]
    TooManyAxes {
        /// How many.
        given: usize,
    },
    /// A type that the operation is not for.
    #[error("it is not for {0}")]
    DType(DType),
    /// Types that should be the same.
    #[error("the types differ: cast one of them")]
    DTypes,
    /// A type that should be another.
    #[error("{what} is {expected}, not {given}: cast it")]
    Expected {
        /// Of what.
        what: &'static str,
        /// What it is.
        expected: DType,
        /// What was given.
        given: DType,
    },
    /// A number that the type does not have.
    #[error("{dtype} has no {value}")]
    Literal {
        /// The number.
        value: String,
        /// The type.
        dtype: DType,
    },
    /// A range or a layout beyond what is there.
    #[error("it reaches {what} {reach}, of {there}")]
    OutOfBounds {
        /// Elements, or rows.
        what: &'static str,
        /// How far it may reach.
        reach: Size,
        /// How many there are.
        there: Size,
    },
    /// A length that may be negative.
    #[error("{0} may be negative")]
    Negative(Size),
    /// A layout that may write one element twice.
    #[error("its layout writes elements twice")]
    Overlaps,
    /// More elements than can be counted.
    #[error("it has more elements or bytes than 64 bits can count")]
    TooLarge,
    /// Buffers of different graphs.
    #[error("they belong to different graphs")]
    Graphs,
    /// A handle with another size.
    #[error("the handle has {given} bytes, not {expected}")]
    HandleBytes {
        /// What the shape needs.
        expected: u64,
        /// What it has.
        given: u64,
    },
    /// A shape that depends on a symbol, where memory must be known.
    #[error("its length depends on `{0}`")]
    Symbolic(String),
    /// A kernel that does not take what it is given.
    #[error("{0}")]
    Kernel(String),
    /// Nothing was given.
    #[error("it needs at least one buffer, and none is given")]
    Nothing,
}

/// Why there is no schedule, or why it does not run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// There is nothing to make.
    #[error("a schedule needs at least one root")]
    NoRoots,
    /// A root, or what it is made of, is wrong.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Roots of different graphs.
    #[error("roots {first} and {second} belong to different graphs")]
    Graphs {
        /// One root.
        first: usize,
        /// The other.
        second: usize,
    },
    /// Buffers on different devices.
    #[error("the roots use buffers of different devices")]
    Devices,
    /// The schedule uses buffers of another device than the one that it is compiled for.
    #[error("the schedule uses buffers of another device than the client's")]
    ForeignDevice,
    /// The cache that is to be tuned has no tuner.
    #[error("the cache has no tuner: give it one by `GraphCache::tuned_by`")]
    NoTuner,
    /// Tuning is frozen, and a program was not tuned before.
    #[error("{0}")]
    Tuning(String),
    /// An argument that the schedule does not have.
    #[error("the schedule has no such {what}: {name}")]
    UnknownArgument {
        /// Input, scalar or length.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// An argument that was not given.
    #[error("the {what} `{name}` is not bound, and has no value of its own")]
    Unbound {
        /// Input, scalar or length.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// An input that is held, and that the schedule stores into.
    #[error(
        "the schedule stores into the input `{name}`, so what is made of it once would be old after a run: do not hold it"
    )]
    HeldIsStored {
        /// Which.
        name: String,
    },
    /// A run binds what is held.
    #[error("the {what} `{name}` is held: bind it where the schedule is prepared, not to a run")]
    Held {
        /// Input, scalar or length.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// A preparation binds what is not held.
    #[error("the {what} `{name}` is not held: bind it to each run")]
    NotHeld {
        /// Input, scalar or length.
        what: &'static str,
        /// Which.
        name: String,
    },
    /// A run of what another schedule prepared.
    #[error("the values were prepared by another schedule: prepare this one")]
    ForeignPrepared,
    /// A buffer of other elements than it should have.
    #[error(
        "`{name}` has elements of {expected}, not {given}: cast it in the graph, or take it as bytes (u8)"
    )]
    Elements {
        /// Whose.
        name: String,
        /// What it has.
        expected: DType,
        /// What was asked, or given.
        given: DType,
    },
    /// A buffer for a root that is too small.
    #[error(
        "the buffer for root {root} has {given} bytes, it needs {expected} for the lengths of the run"
    )]
    OutputBytes {
        /// Which.
        root: usize,
        /// What it needs.
        expected: u64,
        /// What was given.
        given: u64,
    },
    /// A buffer for a root that lies over another of the run.
    #[error(
        "the buffer for root {root} overlaps an input, or another root's: bind one of its own, or update the input by `set`"
    )]
    OutputOverlaps {
        /// Which.
        root: usize,
    },
    /// An input that is stored into, and that shares bytes with another.
    #[error(
        "the schedule stores into the input `{stored}`, whose buffer overlaps that of the input `{other}`: bind a copy of one of them, or use one buffer for both in the graph"
    )]
    StoredInputOverlaps {
        /// The one that is stored into.
        stored: String,
        /// The other.
        other: String,
    },
    /// Items that need each other.
    #[error(
        "no order of the schedule's items is right: this is a fault of the graph compiler, please report it"
    )]
    Circle,
    /// An input that is too small.
    #[error("the input `{name}` has {given} bytes, it needs {expected} for the lengths of the run")]
    InputBytes {
        /// Which.
        name: String,
        /// What it needs.
        expected: u64,
        /// What was given.
        given: u64,
    },
    /// A length beyond its limit.
    #[error("the length `{name}` is at most {max}, not {given}")]
    Length {
        /// Which.
        name: String,
        /// The limit.
        max: u64,
        /// What was given.
        given: u64,
    },
    /// A scalar of another type.
    #[error("the scalar `{name}` is {expected}, which has no {given}")]
    Scalar {
        /// Which.
        name: String,
        /// Its type.
        expected: DType,
        /// What was given.
        given: String,
    },
    /// A layout or a length that is too large.
    #[error("{0} is too large to be laid out")]
    TooLarge(String),
    /// A kernel does not compile.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device refuses.
    #[error(transparent)]
    Device(#[from] Error),
}

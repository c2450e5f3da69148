//! The errors of graphs and schedules.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use millstream_ir::DType;
use millstream_protocol::{Error, KernelError, SliceId};
use smallvec::SmallVec;

use crate::literal::Literal;
use crate::shape::Shape;
use crate::size::Size;

/// What a caller called: the name of an operation's method, and the location of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    op: &'static str,
    at: &'static Location<'static>,
}

impl By {
    #[track_caller]
    pub(crate) fn new(op: &'static str) -> Self {
        let at = Location::caller();
        Self { op, at }
    }
}

/// An invalid operation: its name, its operands, the reason, and the caller's location.
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
    by: By,
    operands: SmallVec<[(DType, Shape); 2]>,
    why: Why,
}

impl GraphError {
    pub(crate) fn new(
        by: By,
        operands: impl IntoIterator<Item = (DType, Shape)>,
        why: impl Into<Why>,
    ) -> Self {
        let (operands, why) = (operands.into_iter().collect(), why.into());
        Self(Arc::new(Refusal { by, operands, why }))
    }

    /// Returns the name of the operation's method.
    pub fn op(&self) -> &'static str {
        self.0.by.op
    }

    /// Returns the types and shapes of the operands.
    pub fn operands(&self) -> &[(DType, Shape)] {
        &self.0.operands
    }

    /// Returns the reason.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// Returns the location of the caller.
    pub fn at(&self) -> &'static Location<'static> {
        self.0.by.at
    }
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusal = &*self.0;
        let By { op, at } = refusal.by;
        write!(f, "`{op}`")?;
        for (index, (dtype, shape)) in refusal.operands.iter().enumerate() {
            let word = if index == 0 { " of" } else { " and" };
            write!(f, "{word} {dtype} {shape}")?;
        }
        write!(f, ": {} (at {at})", refusal.why)
    }
}

impl std::error::Error for GraphError {}

/// Why an operation is invalid: the end of a message.
pub(crate) type Why = Cow<'static, str>;

/// The reasons that several operations have.
pub(crate) mod why {
    use super::{Cow, DType, Literal, Shape, Size, Why};

    pub(crate) const BROADCAST: Why = Cow::Borrowed(
        "the shapes cannot be broadcast together: from the last axis on, two lengths must be equal or one of them 1",
    );
    pub(crate) const SHAPES: Why =
        Cow::Borrowed("the shapes differ, and stored values are not broadcast: use `broadcast_to`");
    pub(crate) const DTYPES: Why = Cow::Borrowed("the types differ: `cast` one of them");
    pub(crate) const FEW_AXES: Why =
        Cow::Borrowed("expected at least 2 axes: add some with `unsqueeze`");
    pub(crate) const TOO_LARGE: Why = Cow::Borrowed(
        "the number of elements or bytes overflows 64 bits: use smaller lengths, or symbols with smaller limits",
    );
    pub(crate) const GRAPHS: Why =
        Cow::Borrowed("the buffers belong to different graphs: create them all in one");
    pub(crate) const NOTHING: Why = Cow::Borrowed("expected at least one buffer, got none");

    pub(crate) fn lengths(what: &str, first: &Size, second: &Size) -> Why {
        format!("the {what} {first} and {second} differ").into()
    }

    pub(crate) fn elements(to: &Shape, here: &Size, there: &Size) -> Why {
        format!("{to} has {there} elements, expected {here}").into()
    }

    pub(crate) fn axis(axis: isize, rank: usize) -> Why {
        let axes = match rank {
            0 => "a scalar has no axes".to_owned(),
            _ => format!("expected from -{rank} to {}", rank - 1),
        };
        format!("axis {axis} is out of range for rank {rank}: {axes}").into()
    }

    pub(crate) fn axes(axes: &[isize], rank: usize) -> Why {
        format!("the axes {axes:?} repeat one, or leave one of the {rank} out: name each once")
            .into()
    }

    pub(crate) fn ranks(first: usize, second: usize) -> Why {
        format!(
            "the ranks {first} and {second} differ: make them equal with `reshape` or `unsqueeze`"
        )
        .into()
    }

    pub(crate) fn dtype(dtype: DType) -> Why {
        format!("{dtype} is not supported here: use another type, or `cast` to one").into()
    }

    pub(crate) fn expected(what: &str, expected: DType, given: DType) -> Why {
        format!("{what} must be {expected}, got {given}: `cast` it").into()
    }

    pub(crate) fn literal(value: Literal, dtype: DType) -> Why {
        format!("{dtype} cannot represent {value}: use another value, or another type").into()
    }

    /// `what`: `element` or `row`.
    pub(crate) fn out_of_bounds(what: &str, reach: &Size, there: &Size) -> Why {
        format!("the range ends at {what} {reach}, expected at most {there}").into()
    }

    pub(crate) fn negative(size: &Size) -> Why {
        format!("the length or offset {size} may be negative: it must be at least 0 for all values of its symbols").into()
    }
}

/// The reason why a schedule cannot be created, compiled or run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No root was given.
    #[error("expected at least one root, got none")]
    NoRoots,
    /// A root, or an operation that it needs, is refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The roots belong to different graphs.
    #[error(
        "roots {first} and {second} belong to different graphs: create them in one, or a schedule for each"
    )]
    Graphs {
        /// The first root.
        first: usize,
        /// The second root.
        second: usize,
    },
    /// The roots use buffers of different devices.
    #[error(
        "the roots use {first} of one device and {second} of another: copy one of them to the other device"
    )]
    Devices {
        /// The slice of the first buffer.
        first: SliceId,
        /// The slice of a buffer of another device.
        second: SliceId,
    },
    /// The schedule uses buffers of another device than the one that it is compiled for.
    #[error(
        "the schedule uses {slice} of another device than that of client `{client}`: compile it for a client of that device"
    )]
    ForeignDevice {
        /// The slice of the buffer.
        slice: SliceId,
        /// The name of the client that it is compiled for.
        client: Arc<str>,
    },
    /// The cache has no tuner.
    #[error("the cache has no tuner: set one with `GraphCache::tuned_by`")]
    NoTuner,
    /// The tuner is frozen and does not know a program.
    #[error("{0}")]
    Tuning(String),
    /// The schedule does not have the argument.
    #[error("the schedule has no {what} {name}: bind only those that its roots need")]
    UnknownArgument {
        /// `input`, `scalar`, `length` or `output`.
        what: &'static str,
        /// The name of the argument.
        name: String,
    },
    /// An argument is not bound.
    #[error("the {what} `{name}` is not bound and has no default: bind it with `{what}`")]
    Unbound {
        /// `input` or `length`.
        what: &'static str,
        /// The name of the argument.
        name: String,
    },
    /// The buffer has elements of another type.
    #[error(
        "`{name}` has elements of {expected}, got {given}: cast it in the graph, or pass it as bytes (u8)"
    )]
    Elements {
        /// The name of the buffer.
        name: String,
        /// The type of its elements.
        expected: DType,
        /// The type that was requested or given.
        given: DType,
    },
    /// The buffer for a root is too small.
    #[error(
        "the buffer for root {root} needs at least {expected} bytes for the lengths of the run, got {given}"
    )]
    OutputBytes {
        /// The root.
        root: usize,
        /// The number of bytes that it needs.
        expected: u64,
        /// The number of bytes of the bound buffer.
        given: u64,
    },
    /// The buffer for a root overlaps another buffer of the run.
    #[error(
        "the buffer for root {root} overlaps an input or the buffer of another root: bind a separate buffer, or update the input with `set`"
    )]
    OutputOverlaps {
        /// The root.
        root: usize,
    },
    /// An input that the schedule stores into overlaps another input.
    #[error(
        "the schedule stores into the input `{stored}`, whose buffer overlaps that of the input `{other}`: bind a copy of one of them, or use one buffer for both in the graph"
    )]
    StoredInputOverlaps {
        /// The input that the schedule stores into.
        stored: String,
        /// The other input.
        other: String,
    },
    /// The graph compiler has a bug.
    #[error("{0}: this is a bug in the graph compiler, please report it")]
    Bug(&'static str),
    /// The buffer of an input is too small.
    #[error(
        "the input `{name}` needs at least {expected} bytes for the lengths of the run, got {given}"
    )]
    InputBytes {
        /// The name of the input.
        name: String,
        /// The number of bytes that it needs.
        expected: u64,
        /// The number of bytes of the bound buffer.
        given: u64,
    },
    /// A length exceeds its limit.
    #[error(
        "the length `{name}` must be at most {max}, got {given}: create its symbol with a larger limit for longer runs"
    )]
    Length {
        /// The name of the length.
        name: String,
        /// The limit.
        max: u64,
        /// The given length.
        given: u64,
    },
    /// The type of the scalar cannot represent the value.
    #[error(
        "the scalar `{name}` is {expected}, which cannot represent {given}: pass a value of that type"
    )]
    Scalar {
        /// The name of the scalar.
        name: String,
        /// The type of the scalar.
        expected: DType,
        /// The given value.
        given: String,
    },
    /// A size overflows.
    #[error(
        "the size of {0} overflows 64 bits: use smaller lengths, or symbols with smaller limits"
    )]
    TooLarge(String),
    /// A kernel does not compile.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device refused the request.
    #[error(transparent)]
    Device(#[from] Error),
}

impl ScheduleError {
    pub(crate) fn unknown(what: &'static str, name: impl Into<String>) -> Self {
        let name = name.into();
        Self::UnknownArgument { what, name }
    }

    pub(crate) fn unbound(what: &'static str, name: &str) -> Self {
        let name = name.to_owned();
        Self::Unbound { what, name }
    }
}

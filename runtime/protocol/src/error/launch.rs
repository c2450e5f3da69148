//! What does not fit when a task is made: its arguments, lengths, and the parameters of a replay.

use std::fmt;
use std::sync::Arc;

use millstream_ir::DType;

use crate::access::Access;
use crate::argument::ArgumentKinds;

/// What does not fit in the arguments of a task.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Too few or too many bindings.
    #[error("it takes {}, {} given", counted(*expected, "binding"), were(*given))]
    BindingCount {
        /// Declared by the signature.
        expected: usize,
        /// Given by the call.
        given: usize,
    },
    /// Too few or too many scalars.
    #[error("it takes {}, {} given", counted(*expected, "scalar"), were(*given))]
    ScalarCount {
        /// Declared by the signature.
        expected: usize,
        /// Given by the call.
        given: usize,
    },
    /// Too few or too many words: the packed scalars of a launch, or what a replay gives.
    #[error("it takes {}, {} given", counted(*expected, "word"), were(*given))]
    WordCount {
        /// Declared by the signature, or the slots of the recording.
        expected: usize,
        /// Given by the call.
        given: usize,
    },
    /// A typed kernel is asked for with other types than its signature declares.
    #[error(
        "its arguments are {declared}, the types of the call are {given}: write those of the signature"
    )]
    Types {
        /// Declared by the signature.
        declared: ArgumentKinds,
        /// Given by the call.
        given: ArgumentKinds,
    },
    /// A binding is used otherwise than declared.
    #[error("binding `{name}` is declared as {declared}, the call says {given}")]
    Access {
        /// The binding.
        name: Arc<str>,
        /// Declared by the signature.
        declared: Access,
        /// Given by the call.
        given: Access,
    },
    /// An argument has another element type than declared.
    #[error(
        "binding `{name}` is declared as {declared}, the call gives {given} elements: bind a handle of {declared}, which `Handle::cast` makes of bytes"
    )]
    ElementType {
        /// The binding.
        name: Arc<str>,
        /// Declared by the signature.
        declared: DType,
        /// Given by the call.
        given: DType,
    },
    /// A scalar has another type than declared.
    #[error("scalar `{name}` is declared as {declared}, the call gives {given}: {}", scalar_mend(*declared))]
    ScalarType {
        /// The scalar.
        name: Arc<str>,
        /// Declared by the signature.
        declared: DType,
        /// Given by the call.
        given: DType,
    },
    /// A binding does not start at a multiple of its element's size.
    #[error(
        "binding `{name}` starts at byte {offset}, which is no multiple of its element's {align} bytes"
    )]
    Misaligned {
        /// The binding.
        name: Arc<str>,
        /// Where it starts in its slice.
        offset: u64,
        /// The element's size.
        align: u64,
    },
    /// Two bindings overlap and one of them is written.
    #[error(
        "bindings `{first}` and `{second}` overlap and one of them is written; copy one of them first"
    )]
    Overlap {
        /// One binding.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
    },
    /// A range ends past its slice.
    #[error("bytes {start}..{end} are not within the {size} of the slice")]
    OutOfBounds {
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// The slice's length.
        size: u64,
    },
    /// Source and destination have different lengths.
    #[error("the source has {source_bytes} bytes and the destination {destination_bytes}")]
    Length {
        /// Bytes of the source.
        source_bytes: u64,
        /// Bytes of the destination.
        destination_bytes: u64,
    },
    /// A length does not fit.
    #[error("{elements} elements of {element_bytes} bytes overflow the address space")]
    SizeOverflow {
        /// Elements asked for.
        elements: u64,
        /// Bytes of one.
        element_bytes: u64,
    },
    /// A view would end within an element, or begin within one.
    #[error(
        "{bytes} bytes are no whole number of elements of {element_bytes} bytes: cut at a multiple of {element_bytes}, or cast the handle to `u8` to cut it at any byte"
    )]
    Indivisible {
        /// Bytes of the view, or of the cut.
        bytes: u64,
        /// Bytes of an element.
        element_bytes: u64,
    },
    /// A view would start at no multiple of its element's size.
    #[error(
        "the view starts at byte {start} of its slice, which is no multiple of the element's {align} bytes: cut it at a multiple of {align}, or copy it to memory of its own"
    )]
    MisalignedView {
        /// Where the view starts in its slice.
        start: u64,
        /// The element's size.
        align: u64,
    },
    /// More cubes than the device runs.
    #[error("{given} cubes in axis {axis}, the device runs at most {limit}")]
    TooManyCubes {
        /// 0 for x, 1 for y, 2 for z.
        axis: usize,
        /// Cubes asked for.
        given: u32,
        /// The device's limit.
        limit: u32,
    },
    /// More bindings than the device takes.
    #[error("{given} bindings, the device takes at most {limit}")]
    TooManyBindings {
        /// Bindings given.
        given: usize,
        /// The device's limit.
        limit: usize,
    },
    /// A dynamic count is not three `u32`.
    #[error("a dynamic cube count is three u32, the handle has {elements}")]
    DynamicCount {
        /// Elements of the handle.
        elements: usize,
    },
    /// Shape and strides differ in rank.
    #[error("the shape has {shape} axes and the strides have {strides}")]
    Rank {
        /// Axes of the shape.
        shape: usize,
        /// Axes of the strides.
        strides: usize,
    },
    /// A length, shape or stride does not fit a metadata word.
    #[error("{value} does not fit the 32 bits of a metadata word")]
    MetadataRange {
        /// The value.
        value: u64,
    },
    /// A handle cannot take the place of a recording's parameter.
    #[error("parameter {index} of the recording {misfit}")]
    Parameter {
        /// The parameter, in order of first use.
        index: usize,
        /// Why not.
        misfit: ParameterMisfit,
    },
    /// A replay binds a handle to memory that no task of the recording touches.
    #[error(
        "no task of the recording touches what a handle is bound to: bind it to a handle that `Recorder::parameter` gave for this recording"
    )]
    NotAParameter,
    /// A tensor map names a binding that the launch does not have.
    #[error("a tensor map covers binding {binding}, the launch has {bindings}")]
    TensorMapBinding {
        /// The index it names.
        binding: usize,
        /// Bindings of the launch.
        bindings: usize,
    },
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How a scalar of this type is written.
fn scalar_mend(declared: DType) -> String {
    match declared {
        DType::F16 | DType::Bf16 => {
            format!("write it as `{declared}::from_f32(5.0)`")
        }
        DType::F32 | DType::F64 => {
            format!("write a literal as `5.0_{declared}`, and a value as `value as {declared}`")
        }
        _ => format!("write a literal as `5_{declared}`, and a value as `value as {declared}`"),
    }
}

fn were(count: usize) -> String {
    format!("{count} {}", if count == 1 { "was" } else { "were" })
}

/// Why a handle cannot take the place of a recording's parameter: what was recorded, and what was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParameterMisfit {
    /// There is no such parameter.
    Missing {
        /// How many there are.
        parameters: usize,
    },
    /// It has no memory of its own, and no handle was bound to it.
    Unbound,
    /// Two handles were bound to it.
    Twice,
    /// It was named by a view that has not all bytes which the recording touches.
    Part,
    /// The handle is too small.
    TooSmall {
        /// Bytes that the recording touches.
        recorded: u64,
        /// Bytes of the handle.
        given: u64,
    },
    /// The handle starts elsewhere relative to what a kernel needs aligned.
    Misaligned {
        /// The alignment, in bytes.
        align: u64,
        /// First byte of the recorded handle.
        recorded: u64,
        /// First byte of the given one.
        given: u64,
    },
    /// The handle overlaps that of another parameter, and one task writes one of them.
    Overlap {
        /// The other parameter.
        other: usize,
        /// The task, in recorded order.
        task: usize,
    },
}

impl fmt::Display for ParameterMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { parameters } => {
                write!(f, "does not exist, there are {parameters}")
            }
            Self::Unbound => f.write_str("has no memory of its own; bind a handle to it"),
            Self::Twice => f.write_str("is bound twice; bind one handle to it"),
            Self::Part => f.write_str(
                "is named by a view of a part of it; name it by the handle that was recorded",
            ),
            Self::TooSmall { recorded, given } => {
                write!(f, "needs {recorded} bytes, the handle has {given}")
            }
            Self::Misaligned {
                align,
                recorded,
                given,
            } => write!(
                f,
                "was recorded at byte {recorded}, the handle starts at byte {given}: both must lie alike within {align} bytes"
            ),
            Self::Overlap { other, task } => write!(
                f,
                "overlaps parameter {other} where task {task} writes one of them; copy one of them first"
            ),
        }
    }
}

//! Invalid arguments: of a task, a view, a layout, or a replay.

use std::sync::Arc;

use millstream_ir::DType;

use crate::access::Access;
use crate::argument::ArgumentKinds;

/// Why the arguments of a task are invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The number of bindings is wrong.
    #[error("expected {}, got {given}", counted(*expected, "binding"))]
    BindingCount {
        /// Bindings that the signature declares.
        expected: usize,
        /// Bindings of the call.
        given: usize,
    },
    /// The number of scalars is wrong.
    #[error("expected {}, got {given}", counted(*expected, "scalar"))]
    ScalarCount {
        /// Scalars that the signature declares.
        expected: usize,
        /// Scalars of the call.
        given: usize,
    },
    /// The number of words is wrong: packed scalars of a launch, or words of a replay.
    #[error("expected {}, got {given}", counted(*expected, "word"))]
    WordCount {
        /// Words that the signature declares, or slots of the recording.
        expected: usize,
        /// Words of the call.
        given: usize,
    },
    /// A recorded word is a slot beyond the greatest.
    #[error(
        "word slot {slot} is beyond the last of {slots}, counted from 0; number slots from 0 without gaps"
    )]
    WordSlot {
        /// The slot.
        slot: u32,
        /// The greatest number of slots of a recording.
        slots: u32,
    },
    /// The types of a typed kernel differ from those of its signature.
    #[error("expected arguments {declared}, got {given}: use the types of the signature")]
    Types {
        /// Types that the signature declares.
        declared: ArgumentKinds,
        /// Types of the call.
        given: ArgumentKinds,
    },
    /// A binding is passed with another access than declared.
    #[error(
        "binding `{name}` must be bound with `{declared}`, got `{given}`: pass `{declared}(&handle)`"
    )]
    Access {
        /// The binding.
        name: Arc<str>,
        /// Declared by the signature.
        declared: Access,
        /// Given by the call.
        given: Access,
    },
    /// A binding has another element type than declared.
    #[error(
        "binding `{name}` is declared as {declared}, got elements of {given}: pass a handle of {declared}, or convert one with `Handle::cast`"
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
    #[error("scalar `{name}` is declared as {declared}, got {given}: {}", scalar_hint(*declared))]
    ScalarType {
        /// The scalar.
        name: Arc<str>,
        /// Declared by the signature.
        declared: DType,
        /// Given by the call.
        given: DType,
    },
    /// A binding does not start at a multiple of its element size.
    #[error(
        "binding `{name}` starts at byte {offset}, which is not a multiple of its element size of {align} bytes: slice at a multiple of {align}, or copy the data to a new slice"
    )]
    Misaligned {
        /// The binding.
        name: Arc<str>,
        /// The first byte of the binding within its slice.
        offset: u64,
        /// The element size.
        align: u64,
    },
    /// A binding ends within an element.
    #[error(
        "binding `{name}` has {bytes} bytes, which are not a multiple of its element size of {element_bytes} bytes: pass whole elements"
    )]
    PartialElement {
        /// The binding.
        name: Arc<str>,
        /// Bytes of the handle.
        bytes: u64,
        /// Bytes of one element.
        element_bytes: u64,
    },
    /// Two bindings overlap and one of them is written.
    #[error(
        "bindings `{first}` and `{second}` overlap in {bytes} bytes and one of them is written; copy one of them first"
    )]
    Overlap {
        /// The first binding.
        first: Arc<str>,
        /// The second binding.
        second: Arc<str>,
        /// Bytes that both bind.
        bytes: u64,
    },
    /// A range ends past the end of the view, or is reversed. Bytes count from the start of the view.
    #[error("{}", out_of_bounds(*start, *end, *size))]
    OutOfBounds {
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// The length of the view.
        size: u64,
    },
    /// Source and destination have different lengths.
    #[error(
        "the source has {source_bytes} bytes, the destination has {destination_bytes}; pass equal lengths"
    )]
    Length {
        /// Bytes of the source.
        source_bytes: u64,
        /// Bytes of the destination.
        destination_bytes: u64,
    },
    /// A length in bytes overflows.
    #[error("{elements} elements of {element_bytes} bytes exceed 2^64 bytes; use fewer elements")]
    SizeOverflow {
        /// Elements requested.
        elements: u64,
        /// Bytes of one element.
        element_bytes: u64,
    },
    /// The extent of a layout overflows.
    #[error(
        "a layout of shape {shape:?} with elements of {element_bytes} bytes reaches beyond 2^64 bytes; use smaller lengths or strides"
    )]
    LayoutOverflow {
        /// The lengths.
        shape: Box<[u64]>,
        /// Bytes of one element.
        element_bytes: u64,
    },
    /// A view would start or end within an element.
    #[error(
        "{bytes} bytes are not a multiple of the element size of {element_bytes} bytes: slice at a multiple of {element_bytes}, or cast the handle to `u8` to slice at any byte"
    )]
    Indivisible {
        /// Bytes of the view, or before the point where it is sliced.
        bytes: u64,
        /// Bytes of one element.
        element_bytes: u64,
    },
    /// A view would not start at a multiple of its element size.
    #[error(
        "the view starts at byte {start} of its slice, which is not a multiple of the element size of {align} bytes: slice at a multiple of {align}, or copy the data to a new slice"
    )]
    MisalignedView {
        /// The first byte of the view within its slice.
        start: u64,
        /// The element size.
        align: u64,
    },
    /// A launch has more cubes than the device runs.
    #[error("expected at most {limit} cubes along axis {}, got {given}; use more threads per cube, or several launches", ["x", "y", "z"].get(*axis).unwrap_or(&"?"))]
    TooManyCubes {
        /// 0 for x, 1 for y, 2 for z.
        axis: usize,
        /// Cubes of the launch.
        given: u32,
        /// The device's limit.
        limit: u32,
    },
    /// A launch has more bindings than the device accepts.
    #[error(
        "expected at most {limit} bindings on this device, got {given}; bind several arrays as views of one slice"
    )]
    TooManyBindings {
        /// Bindings of the launch.
        given: usize,
        /// The device's limit.
        limit: usize,
    },
    /// A call that must not wait submits all of its tasks at once, or none, and the mailbox never has room for them.
    #[error(
        "{tasks} tasks at once exceed the {capacity} messages of the mailbox; make fewer tensors in one call, wait, or raise `mailbox_capacity`"
    )]
    TooManyTasks {
        /// Tasks of the call.
        tasks: usize,
        /// The capacity of the mailbox.
        capacity: usize,
    },
    /// The handle of a dynamic cube count does not have three `u32`.
    #[error("a dynamic cube count must be 3 `u32` (x, y, z), got a handle of {elements}")]
    DynamicCount {
        /// Elements of the handle.
        elements: usize,
    },
    /// The shape and the strides have different ranks.
    #[error(
        "the shape has {shape} axes and the strides have {strides}; pass one stride for each axis"
    )]
    Rank {
        /// Axes of the shape.
        shape: usize,
        /// Axes of the strides.
        strides: usize,
    },
    /// A length, a shape or a stride does not fit in a metadata word.
    #[error("{value} does not fit in the 32 bits of a metadata word; pass it as a `u64` scalar")]
    MetadataRange {
        /// The value.
        value: u64,
    },
    /// A handle cannot be bound to a parameter of a recording.
    #[error("parameter {index} of the recording {misfit}")]
    Parameter {
        /// The parameter, in order of first use.
        index: usize,
        /// Why it cannot be bound.
        misfit: ParameterMismatch,
    },
    /// A replay binds a handle to memory that no task of the recording accesses.
    #[error(
        "no task of the recording accesses the handle to bind to: bind to a handle that `Recorder::parameter` returned for this recording"
    )]
    NotAParameter,
    /// A scalar parameter of a recording is used wrongly, or has no value.
    #[error("scalar parameter {index} {misfit}")]
    ScalarParameter {
        /// The parameter, in the order of the calls of `Recorder::scalar`.
        index: usize,
        /// What is wrong.
        misfit: ScalarMismatch,
    },
    /// A tensor map refers to a binding that the launch does not have.
    #[error(
        "a tensor map refers to binding {binding}, but the launch has {bindings}; bindings count from 0"
    )]
    TensorMapBinding {
        /// The index of the binding.
        binding: usize,
        /// Bindings of the launch.
        bindings: usize,
    },
}

/// Why a scalar parameter of a recording cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScalarMismatch {
    /// The replay sets no value.
    #[error("has no value; set one with `ReplayArgs::set`")]
    Unset,
    /// The replay sets two values.
    #[error("is set twice; set it once")]
    Twice,
    /// No launch of the recording takes the parameter.
    #[error("is taken by no launch of the recording; set only parameters that a launch takes")]
    Unused,
    /// Another recorder made the parameter.
    #[error(
        "belongs to another recorder; use one that `Recorder::scalar` returned for this recording"
    )]
    Foreign,
    /// A launch outside of a recording takes the parameter.
    #[error(
        "is passed to a launch outside of a recording; pass a number, or launch with the recorder"
    )]
    NotRecorded,
}

fn out_of_bounds(start: u64, end: u64, size: u64) -> String {
    match start > end {
        true => format!("the range {start}..{end} of bytes ends before it starts"),
        false => format!("bytes {start}..{end} are out of bounds, the view has {size} bytes"),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns how to write a scalar of this type.
fn scalar_hint(declared: DType) -> String {
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

/// Why a handle cannot be bound to a parameter of a recording: the recorded and the given value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterMismatch {
    /// The recording has no such parameter.
    #[error("does not exist, the recording has {parameters}, counted from 0")]
    Missing {
        /// Parameters of the recording.
        parameters: usize,
    },
    /// The parameter has no memory of its own, and no handle is bound to it.
    #[error("has no memory of its own; bind a handle to it")]
    Unbound,
    /// Two handles are bound to the parameter.
    #[error("is bound twice; bind one handle to it")]
    Twice,
    /// The parameter is bound through a view that lacks bytes which the recording accesses.
    #[error("is bound through a view of a part of it; bind it through the recorded handle")]
    Part,
    /// The handle is shorter than the recorded accesses.
    #[error("needs a handle of at least {recorded} bytes, got {given}")]
    TooSmall {
        /// Bytes that the recording accesses.
        recorded: u64,
        /// Bytes of the handle.
        given: u64,
    },
    /// The handle has another offset, modulo the alignment that a kernel needs, than the recorded handle.
    #[error(
        "was recorded at byte {recorded}, the handle starts at byte {given}: both must have the same offset modulo {align} bytes"
    )]
    Misaligned {
        /// The alignment, in bytes.
        align: u64,
        /// The first byte of the recorded handle.
        recorded: u64,
        /// The first byte of the given handle.
        given: u64,
    },
    /// The handle overlaps the handle of another parameter, and a task writes one of them.
    #[error(
        "overlaps parameter {other} where task {task} writes one of them; copy one of them first"
    )]
    Overlap {
        /// The other parameter.
        other: usize,
        /// The task, in recorded order, from 0.
        task: usize,
    },
}

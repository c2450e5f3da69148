//! What callers are told: one enum per layer, each a sentence with what is needed to act on it.
//!
//! `error` has what is known when a call is made; what becomes known when a task runs is a
//! [`Failure`](crate::failure::Failure), which reaches callers as [`Error::Failed`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_ir::DType;

use crate::access::Access;
use crate::failure::{Bytes, FailureRef};
use crate::memory::PageError;
use crate::properties::Feature;

/// Why a call or an answer failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task failed, or what it needed had failed; the sentence has the whole chain.
    #[error("{0}")]
    Failed(FailureRef),
    /// The arguments of a task do not fit.
    #[error("`{task}` was not accepted: {source}")]
    Launch {
        /// The kernel or operation.
        task: Arc<str>,
        /// What does not fit.
        source: LaunchError,
    },
    /// Memory cannot be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A kernel cannot be prepared.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no room for this right now; nothing was submitted.
    #[error("{what}, try again later")]
    Busy {
        /// What is full.
        what: Full,
    },
    /// A handle, stream or kernel of another device was used.
    #[error("the {what} belongs to another device; create it with a client of this one")]
    Foreign {
        /// What it was.
        what: &'static str,
    },
    /// The device was closed.
    #[error("the device is closed; open another one")]
    Closed,
    /// The device was lost: its thread or its context died.
    #[error(
        "the device was lost (epoch {epoch}); what was in flight is gone, open the device again"
    )]
    DeviceLost {
        /// How often the device had been opened before.
        epoch: u64,
    },
    /// A blocking call was made on a thread that the device needs to make progress.
    #[error(
        "waiting here would wait for ever: this thread belongs to the runtime; use `try_take`, a callback or `.await`"
    )]
    WouldDeadlock,
    /// What is special to one backend was asked of another.
    #[error("this device is `{actual}`, the call is for `{asked}`")]
    WrongBackend {
        /// The backend that was asked for.
        asked: &'static str,
        /// The backend of the device.
        actual: &'static str,
    },
    /// The answer was already taken.
    #[error("the answer of this request was already taken")]
    Taken,
    /// The time was up before the answer came.
    #[error("no answer within {waited:?}; the request goes on")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
}

impl Error {
    /// The failure of a task, if that is what this is.
    pub fn failure(&self) -> Option<&FailureRef> {
        match self {
            Error::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// What has no room (I12). Its sentence has the figures, and the limit's name where one can be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Full {
    /// The device's mailbox.
    Mailbox {
        /// Messages that wait in it.
        messages: usize,
    },
    /// The tasks that a stream has accepted and not issued.
    Stream {
        /// How many there are.
        held: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The bytes of a client's uploads that are on their way.
    Uploads {
        /// Bytes of the upload that found no room.
        asked: u64,
        /// Bytes on their way.
        in_use: u64,
        /// Bytes that may be.
        limit: u64,
    },
    /// The host functions, callbacks and values to drop of a client that are on their way.
    Jobs {
        /// How many there are.
        in_use: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The readbacks of a sequence that were asked and not taken.
    Readbacks {
        /// How many there are, which is all that the sequence holds.
        asked: u64,
    },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Mailbox { messages } => {
                write!(
                    f,
                    "the mailbox is full with {messages} messages (`mailbox_capacity`)"
                )
            }
            Full::Stream { held, limit } => {
                write!(
                    f,
                    "the stream holds {held} of at most {limit} tasks (`max_held`)"
                )
            }
            Full::Uploads {
                asked,
                in_use,
                limit,
            } => write!(
                f,
                "an upload of {} finds {} of at most {} on their way (`max_upload_bytes`)",
                Bytes(*asked),
                Bytes(*in_use),
                Bytes(*limit)
            ),
            Full::Jobs { in_use, limit } => write!(
                f,
                "the client has {in_use} of at most {limit} host functions, callbacks and values to drop on their way (`max_jobs`)"
            ),
            Full::Readbacks { asked } => {
                write!(
                    f,
                    "the sequence is full with {asked} readbacks that nobody has taken"
                )
            }
        }
    }
}

/// What does not fit in the arguments of a task.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Too few or too many bindings.
    #[error("it takes {expected} bindings, {given} were given")]
    BindingCount {
        /// Declared by the signature.
        expected: usize,
        /// Given by the call.
        given: usize,
    },
    /// Too few or too many scalars.
    #[error("it takes {expected} scalars, {given} were given")]
    ScalarCount {
        /// Declared by the signature.
        expected: usize,
        /// Given by the call.
        given: usize,
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
    #[error("`{name}` is declared as {declared}, the call gives {given}")]
    ElementType {
        /// The binding or scalar.
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
    /// The bytes of a view do not divide into its elements.
    #[error("{bytes} bytes do not divide into elements of {element_bytes}")]
    Indivisible {
        /// Bytes of the view.
        bytes: u64,
        /// Bytes of an element.
        element_bytes: u64,
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
    /// A tensor map names a binding that the launch does not have.
    #[error("a tensor map covers binding {binding}, the launch has {bindings}")]
    TensorMapBinding {
        /// The index it names.
        binding: usize,
        /// Bindings of the launch.
        bindings: usize,
    },
}

/// Why memory cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The client's hard limit would be passed.
    #[error("client `{client}` asked {}, has {} of its hard limit of {}", Bytes(*.asked), Bytes(*.in_use), Bytes(*.limit))]
    Limit {
        /// The client's name.
        client: Arc<str>,
        /// Bytes asked for.
        asked: u64,
        /// Bytes that the client has.
        in_use: u64,
        /// The limit.
        limit: u64,
    },
    /// More than the device ever gives in one piece.
    #[error("asked {}, the device gives at most {} in one piece", Bytes(*.asked), Bytes(*.limit))]
    TooLarge {
        /// Bytes asked for.
        asked: u64,
        /// The device's limit.
        limit: u64,
    },
    /// A length overflowed.
    #[error("{elements} elements of {element_bytes} bytes overflow the address space")]
    SizeOverflow {
        /// Elements asked for.
        elements: u64,
        /// Bytes of one.
        element_bytes: u64,
    },
    /// More live handles than the device counts.
    #[error("{limit} slices, kernels and streams live, which is the device's limit")]
    TooManyHandles {
        /// The limit.
        limit: u32,
    },
    /// The backend refused a page.
    #[error("the device refused a page: {0}")]
    Page(#[from] PageError),
}

/// Why a kernel cannot be prepared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No source that the device understands.
    #[error("kernel `{kernel}` has no source for `{backend}`, only {available}; add one")]
    NoSource {
        /// The kernel.
        kernel: Arc<str>,
        /// The device's backend.
        backend: &'static str,
        /// The kinds of source that it has.
        available: String,
    },
    /// The device lacks a feature that the kernel requires.
    #[error("kernel `{kernel}` requires {feature}, which this device does not have")]
    Feature {
        /// The kernel.
        kernel: Arc<str>,
        /// What it requires.
        feature: Feature,
    },
    /// The compiler refused the source.
    #[error("kernel `{kernel}` does not compile: {log}")]
    Compile {
        /// The kernel.
        kernel: Arc<str>,
        /// What the compiler said.
        log: String,
    },
    /// More bindings than the device takes.
    #[error("kernel `{kernel}` declares {declared} bindings, the device takes at most {limit}")]
    TooManyBindings {
        /// The kernel.
        kernel: Arc<str>,
        /// Declared bindings.
        declared: usize,
        /// The device's limit.
        limit: usize,
    },
}

/// Why a device cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option has a value that cannot be.
    #[error("option `{option}` is {given}, it must be {must}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        given: String,
        /// What it must be.
        must: &'static str,
    },
    /// The system gave no thread.
    #[error("no thread could be started: {0}")]
    Thread(String),
    /// The backend cannot be opened here.
    #[error("`{backend}` cannot be opened: {why}")]
    Unavailable {
        /// The kind of backend.
        backend: &'static str,
        /// What is missing and what to do.
        why: String,
    },
}

//! The entries of a log, as plain data.
//!
//! The derived serde impls define the format of a log: the order of variants and of fields is the order of their
//! bytes. A variant may be added at the end of its enum. Any other change needs another `VERSION` (see `log`), and
//! fails `bytes_of_a_log_are_stable`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::code;
use crate::failure::Reason;
use crate::kernel::Signature;
use crate::launch::{LaunchCount, Pattern, TensorMap};
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::{RecordedBinding, RecordedTask};

/// One entry of a log. Streams, kernels, slices, recordings and parameters are named by their slots of the device's table.
/// A slot may have another object after [`Entry::Dropped`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// A stream was created.
    Stream {
        /// Its slot.
        id: u32,
        /// The number of its client.
        client: u32,
        /// Its priority.
        priority: Priority,
        /// Its share of the turns.
        weight: u32,
    },
    /// A kernel was prepared. Its code is not logged: a replay receives kernels by name.
    Kernel {
        /// Its slot.
        id: u32,
        /// Its name.
        name: Arc<str>,
        /// Its declared arguments.
        signature: Signature,
    },
    /// A recording was made, of the tasks in the entries that follow.
    Recording {
        /// Its slot.
        id: u32,
    },
    /// The next task of the last recording. Its bindings are ranges of the parameters, which each replay binds.
    Recorded(Cow<'a, RecordedTask>),
    /// A slice, or a point, was created.
    Slice {
        /// Its slot.
        id: u32,
        /// The stream.
        stream: u32,
        /// Its length in bytes.
        bytes: u64,
        /// How its memory is reserved; `None` for a point.
        mode: Option<AllocationMode>,
    },
    /// A task was added to a stream.
    Task {
        /// The stream.
        stream: u32,
        /// The work of the task.
        #[serde(borrow)]
        work: Work<'a>,
        /// The ranges that the task accesses: the parameter of each is the slot of the slice.
        bindings: Cow<'a, [RecordedBinding]>,
    },
    /// The last handle of an object was dropped.
    Dropped {
        /// Its slot.
        id: u32,
    },
    /// An earlier slice or task was withdrawn before it was issued.
    Withdrawn {
        /// The index of that entry in the log, from 0.
        entry: u64,
        /// Whether it was cancelled. If not, its deadline had passed.
        cancelled: bool,
    },
    /// A parameter of recordings was created.
    Parameter {
        /// Its slot.
        id: u32,
        /// Its length in bytes.
        bytes: u64,
    },
}

/// The work of a task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Work<'a> {
    /// Runs a kernel.
    Launch {
        /// The kernel.
        kernel: u32,
        /// The cube count; a dynamic one is read from the last binding.
        count: LaunchCount,
        /// The packed scalars.
        scalars: Cow<'a, [u64]>,
        /// The metadata words.
        metadata: Cow<'a, [u32]>,
        /// The tensor maps.
        tensor_maps: Cow<'a, [TensorMap]>,
    },
    /// Copies bytes from the host.
    Upload {
        /// The bytes.
        #[serde(borrow, with = "code::bytes")]
        bytes: Cow<'a, [u8]>,
        /// The layout within the binding; `None` if the bytes are contiguous.
        layout: Option<Box<Strided>>,
    },
    /// Copies the bindings to the host.
    Readback {
        /// The tag that the caller gave the readback, if it was a number, such as that of a frame.
        tag: Option<u64>,
        /// The layout of each binding; `None` if its bytes are contiguous. Boxed, because most are `None` and take one
        /// byte of the log.
        layouts: Vec<Option<Box<Strided>>>,
    },
    /// Copies the first binding to the second.
    Copy,
    /// Fills the binding.
    Fill(Pattern),
    /// Does nothing, in order: makes a point, or waits for one.
    Mark,
    /// Replays a recording with the bindings as its parameters.
    Replay {
        /// The recording.
        recording: u32,
        /// The words for its slots.
        words: Cow<'a, [u64]>,
    },
    /// Code that is not logged, with its name.
    Gap(Arc<str>),
}

impl Entry<'_> {
    /// Creates the entry of a task that was withdrawn for this reason.
    pub fn withdrawal(entry: u64, reason: &Reason) -> Self {
        let cancelled = matches!(reason, Reason::Cancelled);
        Entry::Withdrawn { entry, cancelled }
    }
}

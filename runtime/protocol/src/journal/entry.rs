//! The entries of a log, as plain data.
//!
//! The derived serde impls define the format of a log: the order of variants and of fields is the order of their
//! bytes. A variant may be added at the end of its enum. Any other change needs another `VERSION` (see `log`), and
//! fails `tests/log_format.rs`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::code;
use crate::access::Access;
use crate::failure::Reason;
use crate::kernel::Signature;
use crate::launch::{LaunchCount, Pattern};
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::ScalarSlot;

/// One entry of a log. Streams, kernels, slices, recordings and parameters are numbered in order of appearance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// A stream was created.
    Stream {
        /// The number of its client.
        client: u32,
        /// Its priority.
        priority: Priority,
        /// Its share of the turns.
        weight: u32,
    },
    /// A kernel was prepared. Its code is not logged: a replay receives kernels by name.
    Kernel {
        /// Its name.
        name: Arc<str>,
        /// Its declared arguments.
        signature: Signature,
    },
    /// Tasks were recorded. Their parameters are bound by each replay of the recording.
    Recording {
        /// The tasks.
        #[serde(deserialize_with = "steps")]
        steps: Vec<Step>,
    },
    /// A slice, or a point, was created.
    Slice {
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
        /// The ranges that the task accesses.
        parts: Vec<Part>,
    },
    /// The last handle of an object was dropped.
    Dropped {
        /// The number of the object.
        object: u32,
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
        /// The cube count; a dynamic one is read from the last part.
        count: LaunchCount,
        /// The packed scalars.
        scalars: Vec<u64>,
        /// The metadata words.
        metadata: Vec<u32>,
    },
    /// Copies bytes from the host.
    Upload {
        /// The bytes.
        #[serde(borrow, with = "code::bytes")]
        bytes: Cow<'a, [u8]>,
        /// The layout within the part; `None` if the bytes are contiguous.
        layout: Option<Box<Strided>>,
    },
    /// Copies the parts to the host.
    Readback {
        /// The tag that the caller gave the readback, if it was a number, such as that of a frame.
        tag: Option<u64>,
        /// The layout of each part; `None` if its bytes are contiguous. Boxed, because most are `None` and take one
        /// byte of the log.
        layouts: Vec<Option<Box<Strided>>>,
    },
    /// Copies the first part to the second.
    Copy,
    /// Fills the part.
    Fill(Pattern),
    /// Does nothing, in order: makes a point, or waits for one.
    Mark,
    /// Replays a recording with the parts as its parameters.
    Replay {
        /// The recording.
        recording: u32,
        /// The words for its slots.
        words: Vec<u64>,
    },
    /// Code that is not logged, with its name.
    Gap(Arc<str>),
}

/// A range of a slice, and how a task accesses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The number of the slice; within a recording, the index of the parameter.
    pub slice: u32,
    /// The first byte.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// How the bytes are accessed.
    pub access: Access,
}

/// One task of a recording: a launch, a copy or a fill. Its parts are ranges of the parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The work of the task.
    #[serde(deserialize_with = "recorded")]
    pub work: Work<'static>,
    /// The scalars that a replay sets.
    pub slots: Vec<ScalarSlot>,
    /// The ranges that the task accesses.
    pub parts: Vec<Part>,
}

impl Entry<'_> {
    /// Returns `true` if the entry creates an object, which takes the next number.
    pub fn is_numbered(&self) -> bool {
        !matches!(
            self,
            Entry::Task { .. } | Entry::Dropped { .. } | Entry::Withdrawn { .. }
        )
    }

    /// Creates the entry of a task that was withdrawn for this reason.
    pub fn withdrawal(entry: u64, reason: &Reason) -> Self {
        let cancelled = matches!(reason, Reason::Cancelled);
        Entry::Withdrawn { entry, cancelled }
    }
}

/// Deserializes the work of a recorded task, which has no bytes of its own and replays no recording.
fn recorded<'de, D: Deserializer<'de>>(from: D) -> Result<Work<'static>, D::Error> {
    Ok(match Work::deserialize(from)? {
        Work::Launch {
            kernel,
            count,
            scalars,
            metadata,
        } => Work::Launch {
            kernel,
            count,
            scalars,
            metadata,
        },
        Work::Copy => Work::Copy,
        Work::Fill(pattern) => Work::Fill(pattern),
        Work::Gap(name) => Work::Gap(name),
        Work::Upload { .. } | Work::Readback { .. } | Work::Mark | Work::Replay { .. } => {
            return Err(de::Error::custom("this task cannot be recorded"));
        }
    })
}

/// Deserializes the tasks of a recording.
///
/// A launch without arguments takes 7 bytes of a log and 120 in memory. The list grows by an eighth, because a list
/// that doubles takes three times its contents while it is moved.
fn steps<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Step>, D::Error> {
    struct Steps;

    impl<'de> Visitor<'de> for Steps {
        type Value = Vec<Step>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the tasks of a recording")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Step>, A::Error> {
            let mut steps: Vec<Step> = Vec::new();
            while let Some(step) = seq.next_element::<Step>()? {
                let least = match step.work {
                    Work::Copy => 2,
                    Work::Fill(_) => 1,
                    _ => 0,
                };
                if step.parts.len() < least {
                    return Err(de::Error::custom("a copy or a fill has too few parts"));
                }
                if steps.len() == steps.capacity() {
                    steps.reserve_exact(4 + steps.len() / 8);
                }
                steps.push(step);
            }
            Ok(steps)
        }
    }
    from.deserialize_seq(Steps)
}

//! What is logged, as plain data.
//!
//! The derived impls of serde are the format of a log: the order of variants, and of fields, is the order of their
//! bytes. A variant may be added at the end of its list; any other change needs another `VERSION` (see `log`), and
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
use crate::launch::Pattern;
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::WordSlot;

/// One entry of a log. Streams, kernels, slices and recordings take the next number as they appear.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// A stream was made.
    Stream {
        /// The number of its client.
        client: u32,
        /// How urgent its work is.
        #[serde(with = "code::PriorityCode")]
        priority: Priority,
        /// Its share of the turns.
        weight: u32,
    },
    /// A kernel was prepared. Its code is not logged: a replay is given it by name.
    Kernel {
        /// Its name.
        name: Arc<str>,
        /// What a launch of it brings.
        #[serde(with = "code::signature")]
        signature: Signature,
    },
    /// Tasks were recorded, over parameters that a replay of the recording binds.
    Recording {
        /// The tasks.
        #[serde(deserialize_with = "steps")]
        steps: Vec<Step>,
    },
    /// A slice, or a point, was made.
    Slice {
        /// The stream.
        stream: u32,
        /// Its length in bytes.
        bytes: u64,
        /// How its memory is reserved; a point has none.
        #[serde(with = "code::mode")]
        mode: Option<AllocationMode>,
    },
    /// A task was added to a stream.
    Task {
        /// The stream.
        stream: u32,
        /// What it does.
        #[serde(borrow)]
        work: Work<'a>,
        /// What it touches.
        parts: Vec<Part>,
    },
    /// The last handle of an object is gone.
    Dropped {
        /// Its number.
        object: u32,
    },
    /// An earlier slice or task was withdrawn before it was issued.
    Withdrawn {
        /// Which entry of the log that was, from 0.
        entry: u64,
        /// Was it cancelled? Else its deadline had passed.
        cancelled: bool,
    },
    /// A parameter of recordings was made.
    Parameter {
        /// Its length in bytes.
        bytes: u64,
    },
}

/// What a task does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Work<'a> {
    /// Runs a kernel.
    Launch {
        /// The kernel.
        kernel: u32,
        /// Its cubes.
        count: Count,
        /// Its packed scalars.
        scalars: Vec<u64>,
        /// Its metadata words.
        metadata: Vec<u32>,
    },
    /// Copies these bytes from the host.
    Upload {
        /// The bytes.
        #[serde(borrow, with = "code::bytes")]
        bytes: Cow<'a, [u8]>,
        /// Where they go within the part, if not one after the other.
        layout: Option<Box<Strided>>,
    },
    /// Copies the parts to the host.
    Readback {
        /// What the asker called it, where that was a number: a frame.
        tag: Option<u64>,
        /// How each part lies, where it is not one byte after the other. In boxes: most are none, and take a byte of
        /// the log.
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
        /// What it has in its slots.
        words: Vec<u64>,
    },
    /// Ran code that is not logged.
    Gap(Arc<str>),
}

/// The cubes of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Count {
    /// So many.
    Static([u32; 3]),
    /// As the last part says.
    Dynamic,
}

/// A part of a slice, and how a task touches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The slice; within a recording, the parameter.
    pub slice: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How they are touched.
    #[serde(with = "code::AccessCode")]
    pub access: Access,
}

/// One task of a recording: a launch, a copy or a fill. Its parts are parts of the parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What it does.
    #[serde(deserialize_with = "recorded")]
    pub work: Work<'static>,
    /// The scalars of a launch that a replay sets.
    pub slots: Vec<WordSlot>,
    /// What it touches.
    pub parts: Vec<Part>,
}

impl Entry<'_> {
    /// Does it take the next number?
    pub fn is_numbered(&self) -> bool {
        !matches!(
            self,
            Entry::Task { .. } | Entry::Dropped { .. } | Entry::Withdrawn { .. }
        )
    }

    /// That a task was withdrawn for this reason.
    pub fn withdrawal(entry: u64, reason: &Reason) -> Self {
        let cancelled = matches!(reason, Reason::Cancelled);
        Entry::Withdrawn { entry, cancelled }
    }
}

/// Work that a recording may have: without bytes of its own, or another recording.
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
            return Err(de::Error::custom("a task that is not recorded"));
        }
    })
}

/// The tasks of a recording. A launch without anything takes 7 bytes of a log and 120 in memory, so the list grows by
/// an eighth: while one that doubles is moved, there would be three times what it had.
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
                    return Err(de::Error::custom("a task without what it works on"));
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

//! The limits of a program, and the failures that it accepts.

use std::sync::Arc;
use std::time::Duration;

use millstream::Error;

use crate::contents::AllowedFailures;
use crate::end::End;
use crate::tally::{Count, Tally};

/// The number of elements of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// The same number in each buffer.
    All(usize),
    /// From 1 to this number; all powers of two are equally likely.
    UpTo(usize),
}

/// The limits of a program, and the failures that it accepts.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// The counters and violations.
    pub tally: Arc<Tally>,
    /// Reasons for which any task may fail.
    pub allowed: AllowedFailures,
    /// The number of elements of each buffer.
    pub sizes: Sizes,
    /// Parts of buffers begin at a multiple of this number of elements.
    pub part_alignment: usize,
    /// The maximum number of buffers. If all have the same size, a program starts with this number.
    pub buffers_max: usize,
    /// The maximum number of streams.
    pub streams_max: usize,
    /// The hard limit of the clients. A call that it refuses is no violation.
    pub limit_bytes: Option<u64>,
    /// How long to wait for an answer; far longer than any answer takes.
    pub patience: Duration,
    /// Whether a buffer may start without contents. Reads of it then differ between devices.
    pub may_be_undefined: bool,
    /// Whether external tasks and late writes end at later steps of the program. Until then no call of the program may
    /// have to wait for room.
    pub ends_tasks_later: bool,
    /// Whether the program's thread drives the device. Such a program does nothing that depends on time, so all its
    /// runs are equal.
    pub is_driven: bool,
}

impl ProgramConfig {
    /// Returns limits for a few small buffers, and accepts only failures that the program causes itself.
    pub fn small(elements: usize) -> Self {
        Self {
            tally: Arc::default(),
            allowed: AllowedFailures::NONE,
            sizes: Sizes::All(elements),
            part_alignment: 1,
            buffers_max: 4,
            streams_max: 6,
            limit_bytes: None,
            patience: Duration::from_secs(10),
            may_be_undefined: true,
            ends_tasks_later: false,
            is_driven: false,
        }
    }

    /// Returns how a program ends whose call was refused. Notes a violation if the refusal has no accepted reason.
    pub fn refused(&self, what: &str, error: &Error) -> End {
        match error {
            Error::DeviceLost { .. } if self.allowed.has(AllowedFailures::LOST) => {
                self.tally.increment(Count::Lost);
                End::Lost
            }
            error => {
                self.tally.note_unexpected(format!("{what}: {error}"));
                End::Wrong
            }
        }
    }
}

//! What a program may do, and what may go wrong with it.

use std::sync::Arc;
use std::time::Duration;

use millstream::Error;

use crate::contents::Excuses;
use crate::end::End;
use crate::tally::{Count, Tally};

/// The number of elements of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// All the same number.
    All(usize),
    /// Up to this many; each power of two is as likely as any other.
    UpTo(usize),
}

/// What a program may do, and what may go wrong with it.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The counters and violations.
    pub tally: Arc<Tally>,
    /// Reasons for which any task may fail.
    pub excuses: Excuses,
    /// Elements of buffers.
    pub sizes: Sizes,
    /// Most buffers at a time, and as many as there are at first where all have the same size.
    pub buffers_max: usize,
    /// Most streams at a time.
    pub streams_max: usize,
    /// The hard limit of the clients. A refusal by it is no violation.
    pub limit_bytes: Option<u64>,
    /// How long to wait for an answer; far longer than any answer takes.
    pub patience: Duration,
    /// Whether a buffer may start without contents. What is read from it then differs between devices.
    pub may_be_undefined: bool,
    /// Whether the program's thread drives the device. Such a program does nothing that depends on time, so all its runs are equal.
    pub is_driven: bool,
}

impl Ground {
    /// A ground with a few small buffers, on which no task may fail without its own reason.
    pub fn small(elements: usize) -> Self {
        Self {
            tally: Arc::default(),
            excuses: Excuses::NONE,
            sizes: Sizes::All(elements),
            buffers_max: 4,
            streams_max: 6,
            limit_bytes: None,
            patience: Duration::from_secs(10),
            may_be_undefined: true,
            is_driven: false,
        }
    }

    /// The end of a program whose call was refused; notes a refusal without a reason.
    pub fn refused(&self, what: &str, error: &Error) -> End {
        match error {
            Error::DeviceLost { .. } if self.excuses.has(Excuses::LOST) => {
                self.tally.one(Count::Lost);
                End::Lost
            }
            error => {
                self.tally.note_unexpected(format!("{what}: {error}"));
                End::Wrong
            }
        }
    }
}

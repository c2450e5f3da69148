//! What a program may do, and what may go wrong with it.

use std::sync::Arc;
use std::time::Duration;

use millstream::Error;

use crate::contents::Excuses;
use crate::end::End;
use crate::tally::{Count, Tally};

/// How many elements buffers have.
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
    /// What was done and what was wrong.
    pub tally: Arc<Tally>,
    /// What may always go wrong.
    pub excuses: Excuses,
    /// Elements of buffers.
    pub sizes: Sizes,
    /// Most buffers at a time, and as many as there are at first where all have the same size.
    pub buffers_max: usize,
    /// Most streams at a time.
    pub streams_max: usize,
    /// A hard limit of the clients, whose refusals are no errors.
    pub limit_bytes: Option<u64>,
    /// How long an answer may take: far longer than any does.
    pub patience: Duration,
    /// Whether a buffer may start without contents. What is read from it then differs between devices.
    pub may_be_undefined: bool,
    /// The device is driven by the program's own thread, and its runs are to be the same: nothing depends on time.
    pub is_driven: bool,
}

impl Ground {
    /// A few small buffers, and nothing goes wrong.
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

    /// What ends a program whose call was refused.
    pub fn refused(&self, what: &str, error: &Error) -> End {
        match error {
            Error::DeviceLost { .. } if self.excuses.has(Excuses::LOST) => {
                self.tally.one(Count::Lost);
                End::Lost
            }
            error => {
                self.tally.is_unexpected(format!("{what}: {error}"));
                End::Wrong
            }
        }
    }
}

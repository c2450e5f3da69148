//! Recordings that a program can replay.

use std::ops::Range;

use millstream::{Handle, Recording};

/// A recording of a `mix` and an `add`.
pub(crate) enum Recorded {
    /// On two buffers: the id of each, and the range of elements.
    Bound {
        recording: Recording,
        from: (u64, Range<usize>),
        to: (u64, Range<usize>),
    },
    /// On parameters, which each replay binds.
    Open {
        recording: Recording,
        from: Handle<u32>,
        to: Handle<u32>,
    },
}

//! Recordings that a program can replay.

use std::ops::Range;

use millstream::{Handle, Recording};

/// A recording of a `mix` and an `add`.
pub(crate) enum Recorded {
    /// Over two buffers: the number of each, and the elements.
    Bound {
        recording: Recording,
        from: (u64, Range<usize>),
        to: (u64, Range<usize>),
    },
    /// Over parameters, which each replay binds.
    Open {
        recording: Recording,
        from: Handle<u32>,
        to: Handle<u32>,
    },
}

//! What a program keeps of a recording, to know what each replay does.

use std::ops::Range;

use millstream::{Handle, Recording};

/// A recording that mixes some elements into others, then adds to them.
pub(crate) enum Recorded {
    /// Of two buffers: their numbers, and which elements.
    Bound {
        recording: Recording,
        from: (u64, Range<usize>),
        to: (u64, Range<usize>),
    },
    /// Of what a replay binds.
    Open {
        recording: Recording,
        from: Handle<u32>,
        to: Handle<u32>,
    },
}

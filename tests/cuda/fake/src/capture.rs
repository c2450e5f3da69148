//! Captures of streams, and the calls that they forbid.

use std::thread::{self, ThreadId};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`: also forbids calls of other threads.
pub(crate) const GLOBAL: u32 = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: forbids none, and is forbidden none.
pub(crate) const RELAXED: u32 = 2;

/// A capture of a stream.
pub(crate) struct Capture {
    mode: u32,
    /// The thread that began it.
    thread: ThreadId,
    /// Whether a call was made that it forbids.
    pub(crate) is_invalid: bool,
}

impl Capture {
    /// Begins a capture on this thread.
    pub(crate) fn new(mode: u32) -> Self {
        Self {
            mode,
            thread: thread::current().id(),
            is_invalid: false,
        }
    }

    /// Returns `true` if the capture forbids unsafe calls on this thread, which has this mode.
    pub(crate) fn forbids(&self, mode: u32) -> bool {
        let is_own = self.mode != RELAXED && self.thread == thread::current().id();
        mode != RELAXED && (is_own || (mode == GLOBAL && self.mode == GLOBAL))
    }
}

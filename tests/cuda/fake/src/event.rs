//! Events: what one remembers is a moment of a stream, and when that was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Moment;

/// When an event was recorded, once it was: the place that its record fills in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded(Arc<AtomicU64>);

impl Recorded {
    // Relaxed, both: the lock of the state orders them.
    pub(crate) fn at_ns(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An event.
pub(crate) struct Event {
    /// The context that it was made in.
    pub(crate) context: u64,
    /// It was made to tell times.
    pub(crate) timed: bool,
    /// What it remembers, if it was ever recorded.
    pub(crate) last: Option<(Moment, Recorded)>,
    /// It was recorded last in a stream that was captured: by which capture, and after which nodes.
    pub(crate) captured: Option<(u64, Vec<u64>)>,
}

//! Events: the point of a stream at the last record, and its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Point;

/// The time of a record, set when the record is executed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded(Arc<AtomicU64>);

impl Recorded {
    // Relaxed for both accesses: the lock of the state orders them.
    pub(crate) fn at_ns(&self, now_ns: u64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An event of the driver.
pub(crate) struct Event {
    /// The context that it was created in.
    pub(crate) context: u64,
    /// Whether it records times.
    pub(crate) timed: bool,
    /// The last record, if there was one.
    pub(crate) last: Option<(Point, Recorded)>,
    /// Whether the last record was captured.
    pub(crate) captured: bool,
}

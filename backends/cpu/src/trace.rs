//! When the tasks of one queue ran.
//!
//! The queue's runner writes, the device thread takes. Bounded: what comes when the log is full is
//! not recorded, since the first spans of an interval are those that explain the others (I12).

use std::time::Instant;

use millstream_core::backend::Span;
use millstream_core::id::Point;
use millstream_sync::facade::{Figure, Mutex, lock};

/// Spans that a log has room for at once, without growing.
const SPANS_AT_FIRST: usize = 1024;

/// Spans and time in use of one queue.
pub(crate) struct SpanLog {
    /// The backend's beginning of time.
    epoch: Instant,
    /// 0 records none.
    capacity: usize,
    spans: Mutex<Vec<Span>>,
    busy_ns: Figure,
}

impl SpanLog {
    pub(crate) fn new(epoch: Instant, capacity: usize) -> Self {
        Self {
            epoch,
            capacity,
            spans: Mutex::new(Vec::with_capacity(capacity.min(SPANS_AT_FIRST))),
            busy_ns: Figure::new(0),
        }
    }

    /// A task ran from `start` to `end`. Called by the queue's runner alone.
    #[inline]
    pub(crate) fn note(&self, point: Point, start: Instant, end: Instant) {
        self.busy_ns
            .set(self.busy_ns.get() + nanoseconds(start, end));
        if self.capacity > 0 {
            self.record(point, start, end);
        }
    }

    #[cold]
    fn record(&self, point: Point, start: Instant, end: Instant) {
        let mut spans = lock(&self.spans);
        if spans.len() < self.capacity {
            spans.push(Span {
                point,
                start_ns: nanoseconds(self.epoch, start),
                end_ns: nanoseconds(self.epoch, end),
            });
        }
    }

    /// Moves the recorded spans to `all`.
    pub(crate) fn take(&self, all: &mut Vec<Span>) {
        all.append(&mut lock(&self.spans));
    }

    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns.get()
    }
}

pub(crate) fn nanoseconds(start: Instant, end: Instant) -> u64 {
    u64::try_from(end.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

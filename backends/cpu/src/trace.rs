//! Records when the tasks of one queue ran.
//!
//! The queue's runner writes, the device thread takes. When the log is full, the oldest spans are dropped; the server
//! drops the oldest of its records, too (I12).

use std::collections::VecDeque;
use std::time::Instant;

use millstream_protocol::{FailureRef, Point, Span};
use millstream_sync::facade::{Mutex, Statistic, lock};

/// The spans that a log allocates initially.
const SPANS_PREALLOCATED: usize = 1024;

/// Spans and busy time of one queue.
///
/// Reading the clock is not cheap compared to a small task. So busy time is measured from the first task of a burst
/// to the queue's next pause, and single tasks are timed only while spans are recorded.
pub(crate) struct SpanLog {
    /// The origin of the backend's times.
    epoch: Instant,
    /// The capacity set when the device was opened; 0 records no spans.
    capacity_min: u64,
    /// The capacity now. The device thread changes it before it queues a task that is to be recorded, and the queue's
    /// runner reads it after it took that task, so the queue orders the two.
    capacity: Statistic,
    spans: Mutex<VecDeque<Span>>,
    /// The busy time of all bursts that have ended.
    past_ns: Statistic,
    /// The start of the current burst, since the epoch; 0 while the queue pauses.
    burst_start_ns: Statistic,
    /// The greatest busy time that was returned. It keeps the result from decreasing, because the two above are not
    /// read at once.
    reported_ns: Statistic,
}

impl SpanLog {
    pub(crate) fn new(epoch: Instant, capacity: usize) -> Self {
        Self {
            epoch,
            capacity_min: capacity as u64,
            capacity: Statistic::new(capacity as u64),
            spans: Mutex::new(VecDeque::with_capacity(capacity.min(SPANS_PREALLOCATED))),
            past_ns: Statistic::new(0),
            burst_start_ns: Statistic::new(0),
            reported_ns: Statistic::new(0),
        }
    }

    /// Sets the capacity, at least to the one set when the device was opened.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.capacity.set(self.capacity_min.max(capacity as u64));
    }

    /// A task starts. One load if spans are not recorded. Called only by the queue's runner, like the next two.
    #[inline]
    pub(crate) fn start(&self) -> Option<Instant> {
        if self.capacity.get() == 0 && self.burst_start_ns.get() != 0 {
            return None;
        }
        let now = Instant::now();
        if self.burst_start_ns.get() == 0 {
            self.burst_start_ns.set(nanoseconds(self.epoch, now).max(1));
        }
        Some(now)
    }

    /// The task that started at `start` ends.
    #[inline]
    pub(crate) fn end(&self, point: Point, start: Option<Instant>, failure: Option<&FailureRef>) {
        if let Some(start) = start
            && self.capacity.get() > 0
        {
            self.record(point, start, failure.cloned());
        }
    }

    /// The queue has no task to run for now.
    #[inline]
    pub(crate) fn pause(&self) {
        let burst = self.burst_start_ns.get();
        if burst != 0 {
            let now = nanoseconds(self.epoch, Instant::now());
            self.burst_start_ns.set(0);
            self.past_ns
                .set(self.past_ns.get() + now.saturating_sub(burst));
        }
    }

    #[cold]
    fn record(&self, point: Point, start: Instant, failure: Option<FailureRef>) {
        let end = Instant::now();
        let mut spans = lock(&self.spans);
        while spans.len() as u64 >= self.capacity.get().max(1) {
            spans.pop_front();
        }
        spans.push_back(Span {
            point,
            start_ns: nanoseconds(self.epoch, start),
            end_ns: nanoseconds(self.epoch, end),
            failure,
        });
    }

    /// Moves the recorded spans to `all`.
    pub(crate) fn take(&self, all: &mut Vec<Span>) {
        all.extend(lock(&self.spans).drain(..));
    }

    /// Returns the busy time so far.
    pub(crate) fn busy_ns(&self) -> u64 {
        let now = nanoseconds(self.epoch, Instant::now());
        let burst = match self.burst_start_ns.get() {
            0 => 0,
            began => now.saturating_sub(began),
        };
        let busy = self.reported_ns.get().max(self.past_ns.get() + burst);
        self.reported_ns.set(busy);
        busy
    }
}

pub(crate) fn nanoseconds(start: Instant, end: Instant) -> u64 {
    u64::try_from(end.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

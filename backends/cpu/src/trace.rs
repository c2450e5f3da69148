//! When the tasks of one queue ran.
//!
//! The queue's runner writes, the device thread takes. Bounded: when the log is full the oldest give way, as those do that the server
//! remembers whose they are (I12).

use std::collections::VecDeque;
use std::time::Instant;

use millstream_protocol::backend::Span;
use millstream_protocol::failure::FailureRef;
use millstream_protocol::id::Point;
use millstream_sync::facade::{Figure, Mutex, lock};

/// Spans that a log has room for at once, without growing.
const SPANS_PREALLOCATED: usize = 1024;

/// Spans and time in use of one queue.
///
/// The clock is not cheap beside a small task. So time in use is measured from the first task of a burst
/// to the queue's next pause; single tasks are timed only where spans are recorded.
pub(crate) struct SpanLog {
    /// The backend's beginning of time.
    epoch: Instant,
    /// Spans that were asked for when the device was opened; 0 records none.
    capacity_min: u64,
    /// Room for spans now. The device thread changes it before it queues a task that is to be recorded, and the queue's runner
    /// reads it when it has taken that, so the queue orders the two.
    capacity: Figure,
    spans: Mutex<VecDeque<Span>>,
    /// Time in use of the bursts that have ended.
    past_ns: Figure,
    /// When the present burst began, since the epoch; 0 while the queue pauses.
    burst_start_ns: Figure,
    /// The greatest time in use that was told: it never decreases, although the two above are not
    /// read at once.
    reported_ns: Figure,
}

impl SpanLog {
    pub(crate) fn new(epoch: Instant, capacity: usize) -> Self {
        Self {
            epoch,
            capacity_min: capacity as u64,
            capacity: Figure::new(capacity as u64),
            spans: Mutex::new(VecDeque::with_capacity(capacity.min(SPANS_PREALLOCATED))),
            past_ns: Figure::new(0),
            burst_start_ns: Figure::new(0),
            reported_ns: Figure::new(0),
        }
    }

    /// From here on there is room for so many spans, or for as many as ever.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.capacity.set(self.capacity_min.max(capacity as u64));
    }

    /// A task starts: one look at the room, while nobody wants to know when. Called by the queue's runner alone, like the next two.
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

    /// A task ends that had started so.
    #[inline]
    pub(crate) fn end(&self, point: Point, start: Option<Instant>, failure: Option<&FailureRef>) {
        if let Some(start) = start
            && self.capacity.get() > 0
        {
            self.record(point, start, failure.cloned());
        }
    }

    /// The queue has nothing to run for now.
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

    /// Time in use until now.
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

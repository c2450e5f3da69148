//! The spans of completed tasks until they are taken, and the busy time of each queue.
//!
//! - At most as many spans are kept as the capacity; the oldest give way (I12). The busy time counts those, too.
//! - The threads that complete batches add, and the device thread takes: a short lock orders them. It is taken only while
//!   spans are recorded, and no driver call is made under it.
//! - The spans of one queue are in the order of its tasks, since one thread at a time completes its batches. Those of several
//!   queues are mixed in any order.
//!
//! `tests` below check the capacity; the modules `spans` of `tests/cuda` and `clock` of `tests/vulkan`, and `profiles` of the
//! conformance suite, check the times.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use millstream_protocol::{Point, QueueId, Span};
use millstream_sync::facade::{Mutex, lock};

/// Spans that the threads of queues add and the device thread takes.
pub struct Spans {
    /// Most spans kept until [`Spans::take`].
    capacity: AtomicUsize,
    /// The least that this is.
    always: usize,
    busy_ns: Box<[AtomicU64]>,
    kept: Mutex<VecDeque<Span>>,
}

impl Spans {
    /// Creates an empty list for `queues` queues that keeps at most `always` spans, for the life of a device; 0 if they were
    /// not requested when it was opened.
    pub fn new(queues: usize, always: usize) -> Self {
        Self {
            capacity: AtomicUsize::new(always),
            always,
            busy_ns: (0..queues).map(|_| AtomicU64::new(0)).collect(),
            kept: Mutex::default(),
        }
    }

    /// Makes room for `room` spans of each queue; 0 for those that are always kept. Returns whether spans are kept.
    pub fn set_room(&self, room: usize) -> bool {
        let capacity = self.always.max(room.saturating_mul(self.busy_ns.len()));
        // Relaxed: it is set before the first timed task is issued, and orders nothing.
        self.capacity.store(capacity, Ordering::Relaxed);
        capacity > 0
    }

    /// Adds the span of a task; the oldest gives way.
    pub fn add(&self, point: Point, start_ns: u64, end_ns: u64) {
        // Relaxed: a statistic that orders nothing.
        self.busy_ns[point.queue.index()].fetch_add(end_ns - start_ns, Ordering::Relaxed);
        let mut kept = lock(&self.kept);
        // Relaxed: see `set_room`.
        let capacity = self.capacity.load(Ordering::Relaxed);
        while kept.len() >= capacity.max(1) {
            kept.pop_front();
        }
        kept.push_back(Span {
            point,
            start_ns,
            end_ns,
            // A kernel that fails while it runs loses the whole device.
            failure: None,
        });
    }

    /// Returns the spans since the last call.
    pub fn take(&self) -> Vec<Span> {
        lock(&self.kept).drain(..).collect()
    }

    /// Returns the sum of a queue's spans, or 0 if they are not always kept: during a profile only some tasks are timed, so
    /// the sum would not be the queue's busy time.
    pub fn busy_ns(&self, queue: QueueId) -> u64 {
        match self.always {
            0 => 0,
            // Relaxed: see `add`.
            _ => self.busy_ns[queue.index()].load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_spans_give_way_and_count_as_busy_time_i12() {
        let spans = Spans::new(2, 2);
        let queue = QueueId(1);
        for cursor in 1..=3 {
            spans.add(Point::new(queue, cursor), 10 * cursor, 10 * cursor + 4);
        }
        let kept: Vec<_> = spans.take().iter().map(|span| span.point.cursor).collect();
        assert_eq!((kept, spans.take().len()), (vec![2, 3], 0));
        assert_eq!((spans.busy_ns(queue), spans.busy_ns(QueueId(0))), (12, 0));
    }
}

//! The spans of completed tasks until they are taken, and the busy time of each queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_protocol::backend::Span;
use millstream_protocol::id::{Point, QueueId};

/// Spans that the threads of queues add and the device thread takes.
pub struct Spans {
    /// Most spans kept until [`Spans::take`].
    capacity: AtomicUsize,
    busy_ns: Box<[AtomicU64]>,
    kept: Mutex<VecDeque<Span>>,
}

impl Spans {
    /// Creates an empty list for `queues` queues that keeps at most `capacity` spans.
    pub fn new(queues: usize, capacity: usize) -> Self {
        Self {
            capacity: AtomicUsize::new(capacity),
            busy_ns: (0..queues).map(|_| AtomicU64::new(0)).collect(),
            kept: Mutex::default(),
        }
    }

    /// Sets the largest number of spans kept.
    pub fn set_capacity(&self, capacity: usize) {
        // Relaxed: it is set before the first timed task is issued, and orders nothing.
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Adds the span of a task; the oldest gives way.
    pub fn add(&self, point: Point, start_ns: u64, end_ns: u64) {
        // Relaxed: a statistic that orders nothing.
        self.busy_ns[point.queue.index()].fetch_add(end_ns - start_ns, Ordering::Relaxed);
        let mut kept = self.lock();
        // Relaxed: see `set_capacity`.
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
        self.lock().drain(..).collect()
    }

    /// Returns the sum of a queue's spans.
    pub fn busy_ns(&self, queue: QueueId) -> u64 {
        // Relaxed: see `add`.
        self.busy_ns[queue.index()].load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Span>> {
        // A panic under the lock leaves the list consistent.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

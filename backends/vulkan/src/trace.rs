//! Start and end times of tasks, by the device's clock: the queue writes a timestamp before and after each task.
//!
//! A timestamp is written once all earlier commands of the queue have completed. So the spans of a queue do not overlap:
//! if tasks run at the same time, a task begins, as its span shows it, when the task before it ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;
use millstream_protocol::backend::Span;
use millstream_protocol::id::{Cursor, Point, QueueId};

use crate::driver::{Code, Context};

/// A timestamp: a query of a pool.
pub(crate) type Timestamp = (vk::QueryPool, u32);

/// A task of a batch, and the timestamps before and after it.
pub(crate) struct Timing {
    pub(crate) cursor: Cursor,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// Reads timestamps and keeps the resulting spans.
pub(crate) struct Tracer {
    context: Arc<Context>,
    /// The clock of each queue.
    clocks: Box<[Clock]>,
    /// Most spans kept until `take`.
    capacity: AtomicUsize,
    busy_ns: Box<[AtomicU64]>,
    spans: Mutex<VecDeque<Span>>,
}

/// The clock of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The value at time 0.
    pub(crate) origin: u64,
    /// The number of valid bits.
    pub(crate) bits: u32,
    /// Nanoseconds of one tick.
    pub(crate) period_ns: f64,
}

impl Clock {
    /// Returns the time of a value in nanoseconds. Values wrap around at the number of valid bits.
    fn ns(&self, value: u64) -> u64 {
        let mask = u64::MAX >> (64 - self.bits.clamp(1, 64));
        let ticks = value.wrapping_sub(self.origin) & mask;
        (ticks as f64 * self.period_ns) as u64
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks leaves the data consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracer {
    /// Creates a tracer that keeps at most `capacity` spans.
    pub(crate) fn new(context: &Arc<Context>, clocks: Box<[Clock]>, capacity: usize) -> Self {
        Self {
            context: context.clone(),
            busy_ns: clocks.iter().map(|_| AtomicU64::new(0)).collect(),
            clocks,
            capacity: AtomicUsize::new(capacity),
            spans: Mutex::default(),
        }
    }

    /// Sets the largest number of spans kept.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        // Relaxed: it is set before the first timed task is issued, and orders nothing.
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// Computes the spans of tasks that have completed.
    pub(crate) fn complete(&self, queue: QueueId, timings: &[Timing]) {
        let clock = self.clocks[queue.index()];
        for timing in timings {
            // If the driver reports no times, the task has no span but is complete nevertheless.
            let times = self
                .value(timing.start)
                .and_then(|start| Ok((start, self.value(timing.end)?)));
            let Ok((start, end)) = times else { continue };
            let start_ns = clock.ns(start);
            let end_ns = clock.ns(end).max(start_ns);
            // Relaxed: a statistic that orders nothing.
            self.busy_ns[queue.index()].fetch_add(end_ns - start_ns, Ordering::Relaxed);
            let mut spans = lock(&self.spans);
            // Relaxed: see `set_capacity`.
            let capacity = self.capacity.load(Ordering::Relaxed);
            while spans.len() >= capacity.max(1) {
                spans.pop_front();
            }
            spans.push_back(Span {
                point: Point::new(queue, timing.cursor),
                start_ns,
                end_ns,
                // A kernel that fails while it runs loses the device.
                failure: None,
            });
        }
    }

    fn value(&self, (pool, query): Timestamp) -> Result<u64, Code> {
        let mut value = [0_u64];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: the pool is alive, since its command buffer is reused only after the batch was published.
        unsafe {
            let device = &self.context.device;
            device.get_query_pool_results(pool, query, &mut value, flags)
        }
        .map_err(Code::of("vkGetQueryPoolResults"))?;
        Ok(value[0])
    }

    /// Returns the spans since the last call.
    pub(crate) fn take(&self) -> Vec<Span> {
        lock(&self.spans).drain(..).collect()
    }

    pub(crate) fn busy_ns(&self, queue: QueueId) -> u64 {
        // Relaxed: see `complete`.
        self.busy_ns[queue.index()].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_continue_when_the_counter_wraps() {
        let clock = Clock {
            origin: 0xFFF0,
            bits: 16,
            period_ns: 2.0,
        };
        assert_eq!(clock.ns(0xFFF8), 16);
        assert_eq!(clock.ns(0x0010), 64);
    }
}

//! Start and end times of tasks, by the device's clock: the queue writes a timestamp before and after each task.
//!
//! A timestamp is written once all earlier commands of the queue have completed. So the spans of a queue do not overlap:
//! if tasks run at the same time, a task begins, as its span shows it, when the task before it ends.
//!
//! # The time axis
//! If the device can read its clock and the host's at the same moment, the times of all queues stand on one axis, which
//! follows the host's clock: it is calibrated when the device is opened, and again if [`RECALIBRATED`] has passed when a
//! timed task completes. Else each queue has an axis of its own, which hangs on the beginning of its first timed task: that
//! is when the host finds it to have completed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ash::vk;
use millstream_gpu::Spans;
use millstream_protocol::{Cursor, Point, QueueId};

use crate::driver::{Calibration, Code, Context};

/// A timestamp: a query of a pool.
pub(crate) type Timestamp = (vk::QueryPool, u32);

/// A task of a batch, and the timestamps before and after it.
pub(crate) struct Timing {
    pub(crate) cursor: Cursor,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
}

/// The time after which the clocks are compared again. Clocks drift by up to some 50 us in a second.
const RECALIBRATED: Duration = Duration::from_secs(1);

/// The largest difference between the measured and the stated period of the device's clock. A greater one means that a
/// clock was changed, or that the thread was preempted between the reads.
const PERIOD_ERROR_MAX: f64 = 1e-3;

/// Reads timestamps and keeps the resulting spans.
pub(crate) struct Tracer {
    context: Arc<Context>,
    created: Instant,
    /// The number of valid bits of each queue's clock.
    bits: Box<[u32]>,
    /// The axis of all queues, if the device can calibrate its clock.
    shared: Option<Mutex<Shared>>,
    /// Else that of each queue, once a timed task of it has completed.
    own: Box<[OnceLock<Axis>]>,
    /// For each queue the end of its last span.
    ends_ns: Box<[AtomicU64]>,
    pub(crate) spans: Spans,
}

/// A time axis: a value of the clock, its time, and the rate.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// A value of the clock.
    value: u64,
    /// The time of this value.
    ns: u64,
    /// Nanoseconds of one tick.
    period_ns: f64,
}

/// The axis of all queues.
struct Shared {
    axis: Axis,
    /// The last calibration.
    last: Calibration,
    /// The host's time at time 0.
    origin_ns: u64,
    /// The period that the driver states.
    period_ns: f64,
    calibrated: Instant,
}

impl Axis {
    /// Returns the time of a value of which `bits` bits are valid. Values wrap around at the number of bits.
    fn ns(&self, value: u64, bits: u32) -> u64 {
        let unused = 64 - bits.clamp(1, 64);
        // Signed: a calibration may be later than the value.
        let ticks = (value.wrapping_sub(self.value) << unused).cast_signed() >> unused;
        let ns = (ticks as f64 * self.period_ns) as i64;
        self.ns.saturating_add_signed(ns)
    }
}

impl Shared {
    /// Creates the axis whose time 0 is the calibration.
    fn new(first: Calibration, period_ns: f64) -> Self {
        Self {
            axis: Axis {
                value: first.device,
                ns: 0,
                period_ns,
            },
            last: first,
            origin_ns: first.host_ns,
            period_ns,
            calibrated: Instant::now(),
        }
    }

    /// Moves the axis to a later calibration, and corrects its rate.
    fn follow(&mut self, now: Calibration) {
        let ticks = now.device.wrapping_sub(self.last.device) as f64;
        let took_ns = now.host_ns.saturating_sub(self.last.host_ns) as f64;
        let measured = took_ns / ticks;
        let is_plausible = (measured / self.period_ns - 1.0).abs() <= PERIOD_ERROR_MAX;
        self.axis = Axis {
            value: now.device,
            ns: now.host_ns.saturating_sub(self.origin_ns),
            period_ns: match is_plausible {
                true => measured,
                false => self.period_ns,
            },
        };
        self.last = now;
    }
}

impl Tracer {
    /// Creates a tracer that keeps at most `capacity` spans, of queues whose clocks have this many valid bits. If there is a
    /// calibration, all times follow it.
    pub(crate) fn new(
        context: &Arc<Context>,
        bits: Box<[u32]>,
        calibration: Option<Calibration>,
        capacity: usize,
    ) -> Self {
        let shared = |first| Mutex::new(Shared::new(first, period_ns(context)));
        Self {
            context: context.clone(),
            created: Instant::now(),
            ends_ns: bits.iter().map(|_| AtomicU64::new(0)).collect(),
            spans: Spans::new(bits.len(), capacity),
            shared: calibration.map(shared),
            own: bits.iter().map(|_| OnceLock::new()).collect(),
            bits,
        }
    }

    /// Returns the axis for values that a queue has written by now; `start` is one of them.
    fn axis(&self, queue: QueueId, start: u64) -> Axis {
        let Some(shared) = &self.shared else {
            return *self.own[queue.index()].get_or_init(|| Axis {
                value: start,
                ns: self.created.elapsed().as_nanos() as u64,
                period_ns: period_ns(&self.context),
            });
        };
        // A panic under the lock leaves the axis consistent.
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.calibrated.elapsed() >= RECALIBRATED {
            // If it is refused, the axis goes on as it is.
            if let Some(Ok(now)) = self.context.calibrate() {
                shared.follow(now);
            }
            shared.calibrated = Instant::now();
        }
        shared.axis
    }

    /// Computes the spans of tasks that have completed. Called by one thread for each queue.
    pub(crate) fn complete(&self, queue: QueueId, timings: &[Timing]) {
        let bits = self.bits[queue.index()];
        let mut axis = None;
        for timing in timings {
            // If the driver reports no times, the task has no span but is complete nevertheless.
            let times = self
                .value(timing.start)
                .and_then(|start| Ok((start, self.value(timing.end)?)));
            let Ok((start, end)) = times else { continue };
            let axis = axis.get_or_insert_with(|| self.axis(queue, start));
            // Relaxed: only this thread uses it. A calibration may move the axis back by some microseconds.
            let last_ns = self.ends_ns[queue.index()].load(Ordering::Relaxed);
            let start_ns = axis.ns(start, bits).max(last_ns);
            let end_ns = axis.ns(end, bits).max(start_ns);
            self.ends_ns[queue.index()].store(end_ns, Ordering::Relaxed);
            let point = Point::new(queue, timing.cursor);
            self.spans.add(point, start_ns, end_ns);
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
}

/// Returns the nanoseconds of one tick, as the driver states them.
fn period_ns(context: &Context) -> f64 {
    f64::from(context.gpu.limits.timestamp_period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_continue_when_the_counter_wraps() {
        let axis = Axis {
            value: 0xFFF0,
            ns: 0,
            period_ns: 2.0,
        };
        assert_eq!(axis.ns(0xFFF8, 16), 16);
        assert_eq!(axis.ns(0x0010, 16), 64);
    }

    #[test]
    fn time_before_the_calibration_is_earlier() {
        let axis = Axis {
            value: 8,
            ns: 1_000,
            period_ns: 2.0,
        };
        assert_eq!(axis.ns(0xFFF8, 16), 1_000 - 32);
        assert_eq!(axis.ns(3, 64), 1_000 - 10);
    }

    #[test]
    fn axis_follows_the_host_clock() {
        let at = |device, host_ns| Calibration { device, host_ns };
        let mut shared = Shared::new(at(1_000, 50_000), 1.0);
        assert_eq!(shared.axis.ns(1_500, 64), 500);
        // The device's clock is slow by 1 in 10,000.
        shared.follow(at(1_001_000, 1_050_100));
        assert_eq!(shared.axis.ns(1_001_000, 64), 1_000_100);
        assert_eq!(shared.axis.ns(2_001_000, 64), 2_000_200);
        // A calibration that no drift explains changes no rate.
        shared.follow(at(2_001_000, 9_050_200));
        assert_eq!(shared.axis.ns(2_001_500, 64), 9_000_700);
    }
}

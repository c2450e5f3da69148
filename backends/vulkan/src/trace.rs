//! Start and end times of tasks, by the device's clock: the queue writes a timestamp before and after each task.
//!
//! A timestamp is written once all earlier commands of the queue have completed. So the spans of a queue do not overlap:
//! if tasks run at the same time, a task begins, as its span shows it, when the task before it ends.
//!
//! # The time axis
//! If the device can read its clock and the host's at the same moment, the times of all queues stand on one axis, which
//! follows the host's clock: it is calibrated when the device is opened, and again if [`RECALIBRATED`] has passed when a
//! timed task completes. Else each queue has an axis of its own, which hangs on the beginning of its first timed task: that
//! is when the host finds it to have completed. This axis moves to the first task of each batch, since the counter may have
//! few valid bits: after an idle time the host's clock says how often it has wrapped around.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use millstream_gpu::Spans;
use millstream_protocol::{Cursor, Point, QueueId};
use millstream_sync::facade::{Mutex, lock};

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
    /// The axis of all queues, if the device can calibrate its clock.
    shared: Option<Mutex<Shared>>,
    queues: Box<[Mutex<Times>]>,
    pub(crate) spans: Spans,
}

/// The times of a queue. One thread at a time completes its tasks.
struct Times {
    /// The number of valid bits of the queue's clock.
    bits: u32,
    /// The axis, if the device cannot calibrate its clock and a timed task has completed.
    own: Option<Axis>,
    /// The end of the last span.
    end_ns: u64,
}

/// A time axis: a value of the clock, its time, and the rate.
#[derive(Clone, Copy, PartialEq, Debug)]
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
    /// Hangs on the last calibration.
    axis: Axis,
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

    /// Moves the axis to a later value, which a task has written not long before this time of the host: the clock may have
    /// wrapped around any number of times in between.
    fn moved(self, value: u64, bits: u32, now_ns: u64) -> Self {
        let unused = 64 - bits.clamp(1, 64);
        let ticks = (value.wrapping_sub(self.value) << unused) >> unused;
        let ns = self.ns as f64 + ticks as f64 * self.period_ns;
        let wrap_ns = 2_f64.powi(64 - unused as i32) * self.period_ns;
        let wraps = ((now_ns as f64 - ns) / wrap_ns).round();
        Self {
            value,
            ns: (ns + wraps * wrap_ns).round() as u64,
            ..self
        }
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
            origin_ns: first.host_ns,
            period_ns,
            calibrated: Instant::now(),
        }
    }

    /// Moves the axis to a later calibration, and corrects its rate.
    fn follow(&mut self, now: Calibration) {
        let ticks = now.device.wrapping_sub(self.axis.value) as f64;
        let ns = now.host_ns.saturating_sub(self.origin_ns);
        let measured = ns.saturating_sub(self.axis.ns) as f64 / ticks;
        let is_plausible = (measured / self.period_ns - 1.0).abs() <= PERIOD_ERROR_MAX;
        self.axis = Axis {
            value: now.device,
            ns,
            period_ns: match is_plausible {
                true => measured,
                false => self.period_ns,
            },
        };
    }
}

impl Tracer {
    /// Creates a tracer that keeps at most `capacity` spans, of queues whose clocks have this many valid bits. If there is a
    /// calibration, all times follow it.
    pub(crate) fn new(
        context: &Arc<Context>,
        bits: &[u32],
        calibration: Option<Calibration>,
        capacity: usize,
    ) -> Self {
        let shared = |first| Mutex::new(Shared::new(first, period_ns(context)));
        let times = |bits: &u32| {
            Mutex::new(Times {
                bits: *bits,
                own: None,
                end_ns: 0,
            })
        };
        Self {
            context: context.clone(),
            created: Instant::now(),
            spans: Spans::new(bits.len(), capacity),
            shared: calibration.map(shared),
            queues: bits.iter().map(times).collect(),
        }
    }

    /// Returns the axis for values that a queue has written by now; `start` is the first of them.
    fn axis(&self, times: &mut Times, start: u64) -> Axis {
        let Some(shared) = &self.shared else {
            let now_ns = self.created.elapsed().as_nanos() as u64;
            let first = || Axis {
                value: start,
                ns: now_ns,
                period_ns: period_ns(&self.context),
            };
            let moved = times.own.map(|axis| axis.moved(start, times.bits, now_ns));
            return *times.own.insert(moved.unwrap_or_else(first));
        };
        let mut shared = lock(shared);
        if shared.calibrated.elapsed() >= RECALIBRATED {
            // If it is refused, the axis goes on as it is.
            if let Some(Ok(now)) = self.context.calibrate() {
                shared.follow(now);
            }
            shared.calibrated = Instant::now();
        }
        shared.axis
    }

    /// Computes the spans of tasks that have completed. Called by one thread at a time for each queue.
    pub(crate) fn complete(&self, queue: QueueId, timings: &[Timing]) {
        let mut times = lock(&self.queues[queue.index()]);
        let mut axis = None;
        for timing in timings {
            // If the driver reports no times, the task has no span but is complete nevertheless.
            let values = self
                .value(timing.start)
                .and_then(|start| Ok((start, self.value(timing.end)?)));
            let Ok((start, end)) = values else { continue };
            let axis = axis.get_or_insert_with(|| self.axis(&mut times, start));
            // A calibration may move the axis back by some microseconds.
            let start_ns = axis.ns(start, times.bits).max(times.end_ns);
            times.end_ns = axis.ns(end, times.bits).max(start_ns);
            let point = Point::new(queue, timing.cursor);
            self.spans.add(point, start_ns, times.end_ns);
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

    /// Without calibration: the counter has wrapped around while no task ran, for less or more than its range.
    #[test]
    fn moved_axis_continues_after_any_number_of_wraps() {
        let axis = Axis {
            value: 0xFFF0,
            ns: 1_000,
            period_ns: 2.0,
        };
        let range_ns = 2 * 0x1_0000;
        // More than half of the range later; the host finds the task complete a little after it.
        let later = axis.moved(0xBFF0, 16, 1_000 + 2 * 0xC000 + 500);
        assert_eq!((later.value, later.ns), (0xBFF0, 1_000 + 2 * 0xC000));
        assert_eq!(later.ns(0xBFF8, 16), later.ns + 16);
        for wraps in [1, 2, 1_000] {
            let ns = 1_000 + 64 + wraps * range_ns;
            assert_eq!(axis.moved(0x0010, 16, ns + 500).ns, ns);
            // The clock of the host may be slower.
            assert_eq!(axis.moved(0x0010, 16, ns - 500).ns, ns);
        }
        assert_eq!(axis.moved(0xFFF1, 64, u64::MAX / 4).ns, 1_002);
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

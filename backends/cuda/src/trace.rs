//! Start and end times of tasks, by the GPU's clock: the device records a timed event before and after each task.
//!
//! A timed event costs about ten times as much as an untimed one, so events are recorded only if spans are requested:
//! for the life of the device when it is opened, or for the duration of a profile.
//!
//! # The time axis
//! The driver reports the time between two events that have completed. So the axis of all queues hangs on the beginning of
//! the task that is the first to complete, which the host finds to be at the time since the device was opened. No task
//! waits for another queue or stream because of it, whatever these are busy with; a task that began earlier and completes
//! later is at an earlier time. Time 0 is the opening, or later by at most the time until that first task has completed.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use millstream_gpu::Spans;
use millstream_protocol::{Cursor, Point, QueueId};
use millstream_sync::facade::{Mutex, lock};

use crate::driver::{Code, Context, CuEvent, CuStream};

/// The driver reports times as `f32` milliseconds since an earlier event. Up to this distance they are exact to 60 ns.
const NEAR_MS: f32 = 1000.0;

/// Driver calls of a timed task: the task itself and its two events.
pub(crate) const CALLS_TIMED: usize = 3;

/// Records timed events and keeps the resulting spans.
pub(crate) struct Tracer {
    context: Arc<Context>,
    pub(crate) spans: Spans,
    created: Instant,
    /// The beginning of the task that was the first to complete.
    first: OnceLock<Origin>,
    /// For each queue an event that has completed, once a timed task has.
    origins: Box<[Mutex<Option<Origin>>]>,
    /// The free list of events.
    spare: Mutex<Vec<Arc<CuEvent>>>,
}

/// An event that has completed, and its time.
#[derive(Clone)]
struct Origin {
    event: Arc<CuEvent>,
    ns: f64,
}

/// A task in flight, and the events before and after it.
pub(crate) struct Timing {
    pub(crate) cursor: Cursor,
    pub(crate) start: Arc<CuEvent>,
    pub(crate) end: Arc<CuEvent>,
}

impl Tracer {
    /// Creates a tracer that always keeps at most `capacity` spans. Makes no driver calls.
    pub(crate) fn new(context: &Arc<Context>, queues: usize, capacity: usize) -> Self {
        Self {
            context: context.clone(),
            spans: Spans::new(queues, capacity),
            created: Instant::now(),
            first: OnceLock::new(),
            origins: (0..queues).map(|_| Mutex::default()).collect(),
            spare: Mutex::default(),
        }
    }

    /// Records an event at the end of the stream.
    pub(crate) fn record(&self, stream: &CuStream) -> Result<Arc<CuEvent>, Code> {
        let spare = lock(&self.spare).pop();
        let event = match spare {
            Some(event) => event,
            None => Arc::new(CuEvent::timed(&self.context)?),
        };
        stream.record(&event)?;
        Ok(event)
    }

    /// Computes the spans of tasks that have completed.
    pub(crate) fn complete(&self, queue: QueueId, timings: Vec<Timing>) {
        let mut origin = lock(&self.origins[queue.index()]);
        for timing in timings {
            let origin = origin.get_or_insert_with(|| self.first(&timing.start));
            // If the driver reports no times, the task has no span but is complete nevertheless.
            if let Ok((start, end)) = origin.times(&timing) {
                let point = Point::new(queue, timing.cursor);
                self.spans.add(point, start as u64, end as u64);
            }
            // An event that is an origin is not recorded again.
            let events = [timing.start, timing.end].into_iter();
            lock(&self.spare).extend(events.filter(|event| Arc::strong_count(event) == 1));
        }
    }

    /// Returns the origin of a queue whose first timed task, which has completed, began at this event.
    fn first(&self, start: &Arc<CuEvent>) -> Origin {
        let since_creation = || Origin {
            event: start.clone(),
            ns: self.created.elapsed().as_nanos() as f64,
        };
        self.first.get_or_init(since_creation).clone()
    }
}

impl Origin {
    /// Returns when a task began and ended, in nanoseconds. Moves the origin to the end of the task once it is too far
    /// away for exact times.
    fn times(&mut self, timing: &Timing) -> Result<(f64, f64), Code> {
        // The time of the task by itself: after hours of idling a distance from the origin is rounded to milliseconds.
        let far = timing.start.ms_since(&self.event)?;
        let took = timing.end.ms_since(&timing.start)?;
        let start = self.ns + f64::from(far) * 1e6;
        let end = start + f64::from(took) * 1e6;
        if far + took > NEAR_MS {
            (self.event, self.ns) = (timing.end.clone(), end);
        }
        // Never before time 0: the clocks of the GPU and of the host may differ.
        let start = start.max(0.0);
        Ok((start, end.max(start)))
    }
}

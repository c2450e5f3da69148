//! Start and end times of tasks, by the GPU's clock: the device records a timed event before and after each task.
//!
//! A timed event costs about ten times as much as an untimed one, so events are recorded only if spans are requested:
//! for the life of the device when it is opened, or for the duration of a profile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_gpu::Spans;
use millstream_protocol::{Cursor, Point, QueueId};

use crate::driver::{Code, Context, CuEvent, CuStream};

/// The driver reports times as `f32` milliseconds since an earlier event. Up to this distance they are exact to 60 ns.
const NEAR_MS: f32 = 1000.0;

/// Driver calls of a timed task: the task itself and its two events.
pub(crate) const CALLS_TIMED: usize = 3;

/// Records timed events and keeps the resulting spans.
pub(crate) struct Tracer {
    context: Arc<Context>,
    pub(crate) spans: Spans,
    /// For each queue an event that precedes its timed tasks, and its time.
    origins: Box<[Mutex<Origin>]>,
    /// The free list of events.
    spare: Mutex<Vec<Arc<CuEvent>>>,
}

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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks leaves the data consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracer {
    /// Creates a tracer that keeps at most `capacity` spans. Time 0 is now: an event on an empty stream, which completes at
    /// once. Later tasks of the queues wait for it on the GPU, so it has completed when one of them has, and no thread waits
    /// for it.
    pub(crate) fn new<'q>(
        context: &Arc<Context>,
        queues: impl ExactSizeIterator<Item = &'q CuStream>,
        capacity: usize,
    ) -> Result<Self, Code> {
        let event = Arc::new(CuEvent::timed(context)?);
        CuStream::new(context, 0)?.record(&event)?;
        let spans = Spans::new(queues.len(), capacity);
        let origins = queues.map(|stream| {
            stream.wait(&event)?;
            let event = event.clone();
            Ok(Mutex::new(Origin { event, ns: 0.0 }))
        });
        Ok(Self {
            context: context.clone(),
            spans,
            origins: origins.collect::<Result<_, Code>>()?,
            spare: Mutex::default(),
        })
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
            // If the driver reports no times, the task has no span but is complete nevertheless.
            if let Ok((start, end)) = origin.times(&timing) {
                let point = Point::new(queue, timing.cursor);
                self.spans.add(point, start as u64, end as u64);
            }
            let mut spare = lock(&self.spare);
            spare.push(timing.start);
            // `times` may have made this event the queue's new origin.
            spare.extend((!Arc::ptr_eq(&timing.end, &origin.event)).then_some(timing.end));
        }
    }
}

impl Origin {
    /// Returns when a task began and ended, in nanoseconds since the tracer was created. Moves the origin to the end of
    /// the task once it is too far away for exact times.
    fn times(&mut self, timing: &Timing) -> Result<(f64, f64), Code> {
        let since = |event: &CuEvent| {
            event
                .ms_since(&self.event)
                .map(|ms| (ms, self.ns + f64::from(ms) * 1e6))
        };
        let ((_, start), (far, end)) = (since(&timing.start)?, since(&timing.end)?);
        if far > NEAR_MS {
            (self.event, self.ns) = (timing.end.clone(), end);
        }
        Ok((start, end.max(start)))
    }
}

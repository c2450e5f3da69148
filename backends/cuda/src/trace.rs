//! When tasks ran, by the GPU's own clock: a timed event on either side of each. Only where spans are asked for, since
//! a timed event costs about ten times as much as one that is only waited for. Who opens a device asks once and for all; a profile
//! asks for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_protocol::backend::Span;
use millstream_protocol::id::{Cursor, Point, QueueId};

use crate::driver::{Code, Context, CuStream, TimedEvent};

/// Times are floats of milliseconds since some event: this far from it one knows them to 60 ns.
const NEAR_MS: f32 = 1000.0;

/// A task with times is so many calls of the driver: one for each of the two, too.
pub(crate) const CALLS_TIMED: usize = 3;

/// What is recorded, and what came of it.
pub(crate) struct Tracer {
    context: Arc<Context>,
    /// Spans that nobody has taken, at most.
    capacity: AtomicUsize,
    /// For each queue, an event that has passed, and when that was.
    origins: Box<[Mutex<Origin>]>,
    busy_ns: Box<[AtomicU64]>,
    spans: Mutex<VecDeque<Span>>,
    /// Events that nobody uses.
    spare: Mutex<Vec<Arc<TimedEvent>>>,
}

struct Origin {
    event: Arc<TimedEvent>,
    ns: f64,
}

/// A task on its way, between its events.
pub(crate) struct Timing {
    cursor: Cursor,
    start: Arc<TimedEvent>,
    end: Arc<TimedEvent>,
}

/// The tasks of a batch, and who wants to know when they ran.
pub(crate) struct Timings {
    tracer: Arc<Tracer>,
    of: Vec<Timing>,
}

impl Timings {
    /// Of no task yet.
    pub(crate) fn of(tracer: &Arc<Tracer>) -> Self {
        Self {
            tracer: tracer.clone(),
            of: Vec::new(),
        }
    }

    /// One task more.
    pub(crate) fn push(&mut self, timing: Timing) {
        self.of.push(timing);
    }

    /// These tasks of a queue have passed.
    pub(crate) fn passed(self, queue: QueueId) {
        self.tracer.passed(queue, self.of);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracer {
    /// For so many queues, and at most `capacity` spans that nobody has taken. Now is the beginning of time: what an empty
    /// stream is waited for, which has nothing to wait for.
    pub(crate) fn new(
        context: &Arc<Context>,
        queues: usize,
        capacity: usize,
    ) -> Result<Self, Code> {
        let stream = CuStream::new(context, 0)?;
        let event = Arc::new(TimedEvent::new(context)?);
        event.record(&stream)?;
        stream.synchronize()?;
        let origin = || {
            let event = event.clone();
            Mutex::new(Origin { event, ns: 0.0 })
        };
        Ok(Self {
            context: context.clone(),
            capacity: AtomicUsize::new(capacity),
            origins: (0..queues).map(|_| origin()).collect(),
            busy_ns: (0..queues).map(|_| AtomicU64::new(0)).collect(),
            spans: Mutex::default(),
            spare: Mutex::default(),
        })
    }

    /// From here on so many spans are kept that nobody has taken.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    fn event(&self) -> Result<Arc<TimedEvent>, Code> {
        match lock(&self.spare).pop() {
            Some(event) => Ok(event),
            None => TimedEvent::new(&self.context).map(Arc::new),
        }
    }

    /// Remembers when the stream comes here.
    pub(crate) fn note(&self, stream: &CuStream) -> Result<Arc<TimedEvent>, Code> {
        let event = self.event()?;
        event.record(stream)?;
        Ok(event)
    }

    /// A task that began at `start` and ends where the stream is now.
    pub(crate) fn end(
        &self,
        cursor: Cursor,
        start: Arc<TimedEvent>,
        stream: &CuStream,
    ) -> Result<Timing, Code> {
        let end = self.note(stream)?;
        Ok(Timing { cursor, start, end })
    }

    fn passed(&self, queue: QueueId, timings: Vec<Timing>) {
        let mut origin = lock(&self.origins[queue.index()]);
        for timing in timings {
            // Without times there is no span; the task is over all the same.
            if let Ok((start, end)) = origin.times(&timing) {
                let span = Span {
                    point: Point::new(queue, timing.cursor),
                    start_ns: start as u64,
                    end_ns: end as u64,
                    // A kernel that fails as it runs takes the context along: the device is lost then.
                    failure: None,
                };
                // Relaxed: a figure that orders nothing.
                self.busy_ns[queue.index()].fetch_add((end - start) as u64, Ordering::Relaxed);
                let mut spans = lock(&self.spans);
                // Relaxed: whoever asks for spans says how many before the first task of them.
                let capacity = self.capacity.load(Ordering::Relaxed);
                while spans.len() >= capacity.max(1) {
                    spans.pop_front();
                }
                spans.push_back(span);
            }
            let mut spare = lock(&self.spare);
            spare.push(timing.start);
            // The last may be where times are counted from now.
            spare.extend((!Arc::ptr_eq(&timing.end, &origin.event)).then_some(timing.end));
        }
    }

    /// The spans since the last call.
    pub(crate) fn take(&self) -> Vec<Span> {
        lock(&self.spans).drain(..).collect()
    }

    pub(crate) fn busy_ns(&self, queue: QueueId) -> u64 {
        // Relaxed: see `passed`.
        self.busy_ns[queue.index()].load(Ordering::Relaxed)
    }
}

impl Origin {
    /// When a task began and ended, in nanoseconds since the device was opened.
    fn times(&mut self, timing: &Timing) -> Result<(f64, f64), Code> {
        let since = |event: &TimedEvent| {
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

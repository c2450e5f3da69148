//! The device thread's side of a queue: a stream of the driver, and the events of its batches. [`Completer`] has the
//! protocol.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_gpu::{BatchMemory, Completer};
use millstream_protocol::{Cursor, QueueId};
use millstream_sync::timeline::Timeline;

use crate::completer::{Batch, BatchNeeds, Shared, complete};
use crate::driver::{Code, Context, CuEvent, CuStream, Pinned};
use crate::trace::{Timing, Tracer};

/// A queue of the device.
pub(crate) struct Queue {
    id: QueueId,
    pub(crate) stream: CuStream,
    context: Arc<Context>,
    timeline: Arc<Timeline>,
    /// `None` for a driven device, whose batches `poll` completes.
    completer: Option<Completer<Batch>>,
    /// The last issued cursor.
    issued: Cursor,
    /// The last cursor of the last flushed batch.
    recorded: Cursor,
    /// The batches that may not have completed, oldest first.
    in_flight: VecDeque<InFlight>,
    /// The free list of events.
    events: Vec<Arc<CuEvent>>,
    /// What the tasks of the open batch need.
    open: BatchNeeds,
    /// `Some` while spans are recorded.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The event before the task that is being issued.
    started: Option<Arc<CuEvent>>,
}

/// A flushed batch that may not have completed.
struct InFlight {
    cursor: Cursor,
    /// The event after the batch.
    event: Arc<CuEvent>,
    /// The batch itself, if `poll` completes it.
    batch: Option<Batch>,
}

impl Queue {
    /// Creates a queue with at most `depth` batches in flight.
    pub(crate) fn new(
        id: QueueId,
        stream: CuStream,
        shared: &Shared,
        (completer, depth): (Option<Completer<Batch>>, usize),
    ) -> Self {
        Self {
            id,
            stream,
            context: shared.context.clone(),
            timeline: shared.timelines[id.index()].clone(),
            completer,
            issued: 0,
            recorded: 0,
            in_flight: VecDeque::with_capacity(depth),
            events: Vec::with_capacity(depth),
            open: BatchNeeds::default(),
            tracer: None,
            started: None,
        }
    }

    /// Records the start event of the next task, if spans are recorded.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if let Some(tracer) = &self.tracer {
            // A task without times is better than a refused task.
            self.started = tracer.record(&self.stream).ok();
        }
    }

    /// Notes a cursor without work on the stream.
    pub(crate) fn skip(&mut self, cursor: Cursor) {
        self.started = None;
        self.issued = cursor;
    }

    /// Notes that the task at this cursor is on the stream.
    #[inline]
    pub(crate) fn issue(&mut self, cursor: Cursor) {
        self.issue_range(cursor, cursor);
    }

    /// Notes that the tasks from `first` to `last` are on the stream; their times are one span.
    #[inline]
    pub(crate) fn issue_range(&mut self, first: Cursor, last: Cursor) {
        self.issued = last;
        if let (Some(tracer), Some(start)) = (&self.tracer, self.started.take())
            && let Ok(end) = tracer.record(&self.stream)
        {
            let cursor = first;
            self.open.timings.push(Timing { cursor, start, end });
            self.open.tracer.get_or_insert_with(|| tracer.clone());
        }
    }

    /// Returns the memory that the copies of the open batch use.
    pub(crate) fn memory(&mut self) -> &mut BatchMemory<Pinned> {
        &mut self.open.memory
    }

    /// Ends the open batch: records an event after everything that was issued.
    pub(crate) fn flush(&mut self) -> Result<(), Code> {
        if self.issued == self.recorded {
            return Ok(());
        }
        self.reclaim_events();
        let cursor = self.issued;
        let event = match self.events.pop() {
            Some(event) => event,
            None => Arc::new(CuEvent::new(&self.context)?),
        };
        self.stream.record(&event)?;
        let batch = Batch {
            cursor,
            event: event.clone(),
            needs: std::mem::take(&mut self.open),
        };
        let batch = match &self.completer {
            // This fails only if the thread has ended after a loss, which ended all timelines.
            Some(completer) => completer.send(batch).err(),
            None => Some(batch),
        };
        self.recorded = cursor;
        self.in_flight.push_back(InFlight {
            cursor,
            event,
            batch,
        });
        Ok(())
    }

    /// Removes the completed batches and returns their events to the free list.
    fn reclaim_events(&mut self) {
        let completed = self.timeline.completed();
        while let Some(batch) = self
            .in_flight
            .pop_front_if(|batch| batch.cursor <= completed)
        {
            self.events.push(batch.event);
        }
    }

    /// Returns an event at or after a cursor, recording one if there is none. Returns `None` if the cursor has
    /// completed.
    pub(crate) fn event_after(&mut self, cursor: Cursor) -> Result<Option<Arc<CuEvent>>, Code> {
        if self.timeline.completed() >= cursor {
            return Ok(None);
        }
        if cursor > self.recorded {
            self.flush()?;
        }
        let place = self
            .in_flight
            .partition_point(|batch| batch.cursor < cursor);
        Ok(self.in_flight.get(place).map(|batch| batch.event.clone()))
    }

    /// Completes the batches of a driven device that the GPU has completed. Returns `true` if there was one.
    pub(crate) fn poll(&mut self) -> Result<bool, Code> {
        let mut any = false;
        while let Some(oldest) = self.in_flight.front_mut()
            && let Some(batch) = &oldest.batch
            && batch.event.is_complete()?
        {
            if let Some(batch) = oldest.batch.take() {
                complete(batch, self.id, &self.timeline);
            }
            self.reclaim_events();
            any = true;
        }
        Ok(any)
    }

    /// Returns `true` if a batch is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.timeline.completed() < self.recorded
    }
}

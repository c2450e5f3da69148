//! The device thread's side of a queue: a stream of the driver, and the events of its batches. [`Completer`] has the
//! protocol.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_gpu::{BatchMemory, Completer};
use millstream_protocol::{Cursor, QueueId};
use millstream_sync::timeline::Timeline;

use crate::completer::{Batch, complete};
use crate::driver::{Code, Context, CuEvent, CuStream, Pinned};
use crate::trace::{Timing, Tracer};
use crate::word::ProgressWord;

/// A queue of the device.
pub(crate) struct Queue {
    id: QueueId,
    pub(crate) stream: CuStream,
    context: Arc<Context>,
    timeline: Arc<Timeline>,
    /// `None` for a driven device, whose batches `poll` completes.
    completer: Option<Completer<Batch>>,
    /// The word that the GPU writes at the end of each batch, on driven devices that support it.
    word: Option<ProgressWord>,
    /// The last issued cursor.
    issued: Cursor,
    /// The last cursor of the last flushed batch.
    recorded: Cursor,
    /// The batches that may not have completed, oldest first.
    in_flight: VecDeque<InFlight>,
    /// The free list of events.
    events: Vec<Arc<CuEvent>>,
    /// What the tasks of the open batch need.
    batch: Batch,
    /// `Some` while spans are recorded.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The event before the task that is being issued.
    started: Option<Arc<CuEvent>>,
}

/// A flushed batch that may not have completed.
struct InFlight {
    cursor: Cursor,
    /// The event after the batch. `None` if the GPU writes a word instead and no other queue has waited for the batch.
    event: Option<Arc<CuEvent>>,
    /// The batch itself, if `poll` completes it.
    batch: Option<Batch>,
}

/// The configuration of a queue.
pub(crate) struct QueueConfig {
    pub(crate) id: QueueId,
    pub(crate) context: Arc<Context>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) completer: Option<Completer<Batch>>,
    pub(crate) word: Option<ProgressWord>,
    /// Most batches in flight.
    pub(crate) depth: usize,
}

impl Queue {
    pub(crate) fn new(stream: CuStream, config: QueueConfig) -> Self {
        Self {
            id: config.id,
            stream,
            context: config.context,
            timeline: config.timeline,
            completer: config.completer,
            word: config.word,
            issued: 0,
            recorded: 0,
            in_flight: VecDeque::with_capacity(config.depth),
            events: Vec::with_capacity(config.depth),
            batch: Batch::default(),
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
            self.batch.timings.push(Timing { cursor, start, end });
            self.batch.tracer.get_or_insert_with(|| tracer.clone());
        }
    }

    /// Returns the memory that the copies of the open batch use.
    pub(crate) fn memory(&mut self) -> &mut BatchMemory<Pinned> {
        &mut self.batch.memory
    }

    /// Ends the open batch: records an event, or a write of the word, after everything that was issued.
    pub(crate) fn flush(&mut self) -> Result<(), Code> {
        if self.issued == self.recorded {
            return Ok(());
        }
        self.reclaim_events();
        let cursor = self.issued;
        let event = match &self.word {
            Some(word) => {
                word.write(&self.stream, cursor)?;
                None
            }
            None => Some(self.record_event()?),
        };
        let batch = Batch {
            cursor,
            event: event.clone(),
            ..std::mem::take(&mut self.batch)
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

    /// Records an event at the end of the stream.
    fn record_event(&mut self) -> Result<Arc<CuEvent>, Code> {
        let event = match self.events.pop() {
            Some(event) => event,
            None => Arc::new(CuEvent::new(&self.context)?),
        };
        self.stream.record(&event)?;
        Ok(event)
    }

    /// Removes the completed batches and returns their events to the free list.
    fn reclaim_events(&mut self) {
        let completed = self.timeline.completed();
        while let Some(batch) = self
            .in_flight
            .pop_front_if(|batch| batch.cursor <= completed)
        {
            self.events.extend(batch.event);
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
        let after = self.in_flight.iter().skip(place);
        let known = after.filter_map(|batch| batch.event.clone()).next();
        if known.is_some() || place == self.in_flight.len() {
            return Ok(known);
        }
        let event = self.record_event()?;
        if let Some(last) = self.in_flight.back_mut() {
            last.event = Some(event.clone());
        }
        Ok(Some(event))
    }

    /// Returns `true` if the batch that ends at `cursor` has completed on the GPU.
    fn is_complete(&self, cursor: Cursor, batch: &Batch) -> Result<bool, Code> {
        match (&self.word, &batch.event) {
            (Some(word), _) => Ok(word.completed() >= cursor),
            (None, Some(event)) => event.is_complete(),
            (None, None) => Ok(true),
        }
    }

    /// Completes the batches of a driven device that the GPU has completed. Returns `true` if there was one.
    pub(crate) fn poll(&mut self) -> Result<bool, Code> {
        let mut any = false;
        while let Some(oldest) = self.in_flight.front() {
            let Some(batch) = &oldest.batch else { break };
            if !self.is_complete(oldest.cursor, batch)? {
                break;
            }
            if let Some(batch) = self
                .in_flight
                .front_mut()
                .and_then(|oldest| oldest.batch.take())
            {
                complete(batch, self.id, &self.timeline);
            }
            self.reclaim_events();
            any = true;
        }
        Ok(any)
    }

    /// Returns the error of a destroyed context. `pump` calls this if no batch has completed: a word that the GPU does
    /// not write looks the same whether the stream is busy or the context is gone.
    pub(crate) fn check(&self) -> Result<(), Code> {
        match &self.word {
            Some(_) if self.is_busy() => self.stream.is_idle().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Returns `true` if a batch is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.timeline.completed() < self.recorded
    }
}

//! The device thread's side of a queue: a stream, and the events of what it was given.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_protocol::id::{Cursor, QueueId};
use millstream_protocol::message::HostBytes;
use millstream_sync::timeline::Timeline;

use crate::completer::{Batch, Completer, Returning, complete};
use crate::driver::{Code, Context, CuEvent, CuStream, TimedEvent};
use crate::staging::Staged;
use crate::trace::{Timings, Tracer};
use crate::word::Word;

/// A queue of the device.
pub(crate) struct Queue {
    id: QueueId,
    pub(crate) stream: CuStream,
    context: Arc<Context>,
    timeline: Arc<Timeline>,
    /// None where the device is driven: then `poll` completes.
    completer: Option<Completer>,
    /// How far the stream has come, where it tells so by itself and nobody sleeps until then.
    word: Option<Word>,
    /// The last cursor that was issued.
    issued: Cursor,
    /// The last cursor of the last batch.
    recorded: Cursor,
    /// Events of batches that may not have passed, oldest first.
    flights: VecDeque<Flight>,
    /// Events that nobody waits for any more.
    events: Vec<Arc<CuEvent>>,
    /// Of the batch that is being made.
    landings: Vec<Returning>,
    uploads: Vec<Staged>,
    sources: Vec<Box<dyn HostBytes>>,
    timings: Option<Timings>,
    /// Spans are asked for.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The task that is being issued began here.
    begun: Option<Arc<TimedEvent>>,
}

/// A batch that may not have passed.
struct Flight {
    cursor: Cursor,
    /// What is behind it on the stream; none, where the stream writes a word and nobody has waited yet.
    event: Option<Arc<CuEvent>>,
    /// What there is to do once it has passed, where no thread does it.
    batch: Option<Batch>,
}

/// What a queue is made of beside its stream.
pub(crate) struct QueueParts {
    pub(crate) id: QueueId,
    pub(crate) context: Arc<Context>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) completer: Option<Completer>,
    pub(crate) word: Option<Word>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Batches in flight, at most.
    pub(crate) depth: usize,
}

impl Queue {
    pub(crate) fn new(stream: CuStream, parts: QueueParts) -> Self {
        let QueueParts {
            id,
            context,
            timeline,
            completer,
            word,
            tracer,
            depth,
        } = parts;
        Self {
            id,
            stream,
            context,
            timeline,
            completer,
            word,
            issued: 0,
            recorded: 0,
            flights: VecDeque::with_capacity(depth),
            events: Vec::with_capacity(depth),
            landings: Vec::new(),
            uploads: Vec::new(),
            sources: Vec::new(),
            timings: None,
            tracer,
            begun: None,
        }
    }

    /// A task is about to be given to the stream.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if let Some(tracer) = &self.tracer {
            // Times that cannot be had are not worth a refused task.
            self.begun = tracer.note(&self.stream).ok();
        }
    }

    /// Nothing was given to the stream at this cursor.
    pub(crate) fn pass(&mut self, cursor: Cursor) {
        self.begun = None;
        self.issued = cursor;
    }

    /// The task at this cursor has been given to the stream.
    #[inline]
    pub(crate) fn issue(&mut self, cursor: Cursor) {
        self.issue_all(cursor, cursor);
    }

    /// The same of all tasks from `first` to `last`, as one.
    #[inline]
    pub(crate) fn issue_all(&mut self, first: Cursor, last: Cursor) {
        self.issued = last;
        if let (Some(tracer), Some(start)) = (&self.tracer, self.begun.take())
            && let Ok(timing) = tracer.end(first, start, &self.stream)
        {
            let timings = self.timings.get_or_insert_with(|| Timings::of(tracer));
            timings.push(timing);
        }
    }

    /// Has these bytes taken to who asked for them, with the batch that is being made.
    pub(crate) fn bring_back(&mut self, returning: Returning) {
        self.landings.push(returning);
    }

    /// Keeps what is copied from until the batch has passed.
    pub(crate) fn keep(&mut self, staged: Staged) {
        self.uploads.push(staged);
    }

    /// Keeps these bytes until the batch has passed.
    pub(crate) fn keep_source(&mut self, source: Box<dyn HostBytes>) {
        self.sources.push(source);
    }

    /// Ends a batch: one event, behind everything that was issued, or one word that the stream writes.
    pub(crate) fn flush(&mut self) -> Result<(), Code> {
        if self.issued == self.recorded {
            return Ok(());
        }
        self.prune();
        let cursor = self.issued;
        let event = match &self.word {
            Some(word) => {
                word.write(&self.stream, cursor)?;
                None
            }
            None => Some(self.event_here()?),
        };
        let batch = Batch {
            cursor,
            event: event.clone(),
            landings: std::mem::take(&mut self.landings),
            uploads: std::mem::take(&mut self.uploads),
            sources: std::mem::take(&mut self.sources),
            timings: self.timings.take(),
        };
        let batch = match &self.completer {
            // It refuses only when its thread has ended, which ends all timelines.
            Some(completer) => completer.take(batch).err(),
            None => Some(batch),
        };
        self.recorded = cursor;
        self.flights.push_back(Flight {
            cursor,
            event,
            batch,
        });
        Ok(())
    }

    /// An event behind everything that the stream was given.
    fn event_here(&mut self) -> Result<Arc<CuEvent>, Code> {
        let event = match self.events.pop() {
            Some(event) => event,
            None => Arc::new(CuEvent::new(&self.context)?),
        };
        self.stream.record(&event)?;
        Ok(event)
    }

    /// Takes back the events of what has passed.
    fn prune(&mut self) {
        let completed = self.timeline.completed();
        while let Some(flight) = self
            .flights
            .pop_front_if(|flight| flight.cursor <= completed)
        {
            self.events.extend(flight.event);
        }
    }

    /// The event behind a cursor, recorded now if there is none; none if the cursor has passed.
    pub(crate) fn event_behind(&mut self, cursor: Cursor) -> Result<Option<Arc<CuEvent>>, Code> {
        if self.timeline.completed() >= cursor {
            return Ok(None);
        }
        if cursor > self.recorded {
            self.flush()?;
        }
        let place = self
            .flights
            .partition_point(|flight| flight.cursor < cursor);
        let behind = self.flights.iter().skip(place);
        let known = behind.filter_map(|flight| flight.event.clone()).next();
        if known.is_some() || place == self.flights.len() {
            return Ok(known);
        }
        let event = self.event_here()?;
        if let Some(last) = self.flights.back_mut() {
            last.event = Some(event.clone());
        }
        Ok(Some(event))
    }

    /// Has the oldest flight passed?
    fn has_passed(&self, cursor: Cursor, batch: &Batch) -> Result<bool, Code> {
        match (&self.word, &batch.event) {
            (Some(word), _) => Ok(word.passed() >= cursor),
            (None, Some(event)) => event.is_over(),
            (None, None) => Ok(true),
        }
    }

    /// Completes what has passed, where no thread does, and says whether there was any.
    pub(crate) fn poll(&mut self) -> Result<bool, Code> {
        let mut any = false;
        while let Some(flight) = self.flights.front() {
            let Some(batch) = &flight.batch else { break };
            if !self.has_passed(flight.cursor, batch)? {
                break;
            }
            if let Some(batch) = self
                .flights
                .front_mut()
                .and_then(|flight| flight.batch.take())
            {
                complete(batch, self.id, &self.timeline);
            }
            self.prune();
            any = true;
        }
        Ok(any)
    }

    /// Does the stream go on? A word that is not written says nothing of why; asked when nothing has passed.
    pub(crate) fn check(&self) -> Result<(), Code> {
        match &self.word {
            Some(_) if self.is_busy() => self.stream.is_idle().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Is something in flight?
    pub(crate) fn is_busy(&self) -> bool {
        self.timeline.completed() < self.recorded
    }
}

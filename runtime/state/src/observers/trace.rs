//! The trace: the spans of completed tasks with their names, owners and waits, until a user takes them.

use std::collections::{HashSet, VecDeque};

use millstream_protocol::{Point, TraceSpan, TraceWait};

/// A trace of at most `capacity` spans: the newest.
pub struct Trace {
    capacity: usize,
    spans: VecDeque<TraceSpan>,
    /// What the task at `place`, which is about to be issued, waits for.
    waits: Vec<TraceWait>,
    place: Option<Point>,
}

impl Trace {
    /// Creates a trace of at most `capacity` spans. With 0 it is off.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            spans: VecDeque::new(),
            waits: Vec::new(),
            place: None,
        }
    }

    /// Returns `true` if the trace is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Records that the task at `place`, which is about to be issued, waits for another.
    #[inline]
    pub(super) fn note_wait(&mut self, place: Point, waited_for: Point) {
        if !self.is_on() {
            return;
        }
        if self.place.replace(place) != Some(place) {
            self.waits.clear();
        }
        self.waits.push(TraceWait {
            queue: u32::from(waited_for.queue.0),
            cursor: waited_for.cursor,
        });
    }

    /// Takes what the task at `place` waits for.
    pub fn waits_of(&mut self, place: Point) -> Vec<TraceWait> {
        match self.place.take() == Some(place) {
            true => std::mem::take(&mut self.waits),
            false => Vec::new(),
        }
    }

    /// Adds the span of a completed task. If there is no room, the oldest span is evicted.
    pub(super) fn add(&mut self, span: TraceSpan) {
        if self.spans.len() == self.capacity {
            self.spans.pop_front();
        }
        self.spans.push_back(span);
    }

    /// Takes the spans. `live` has the numbers of the streams that exist.
    pub fn take(&mut self, live: &HashSet<u64>) -> Vec<TraceSpan> {
        let mut spans: Vec<TraceSpan> = std::mem::take(&mut self.spans).into();
        for span in &mut spans {
            span.stream_ended = !live.contains(&span.stream);
        }
        spans.sort_by_key(|span| (span.start_ns, span.queue));
        spans
    }
}

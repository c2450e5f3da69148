//! The issued tasks that profiles cover or the trace observes, until they have completed: here the spans of the backend find
//! their owners.
//!
//! Invariant: the tasks of a queue are in the order of their cursors, and no two of them have the same.

use std::collections::{HashSet, VecDeque};

use millstream_protocol::{Cursor, Point, Span, TraceSpan, TraceWait};

use super::Observers;
use super::profiles::Tokens;

/// A task that was issued and may not have completed.
struct NotedTask {
    cursor: Cursor,
    /// Its name and its owner.
    task: TraceSpan,
    /// The profiles that cover it.
    tokens: Tokens,
}

/// The noted tasks of each queue.
pub(super) struct NotedTasks(Vec<VecDeque<NotedTask>>);

impl NotedTasks {
    pub(super) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| VecDeque::new()).collect())
    }

    /// Returns `true` if a profile covers any of the tasks.
    pub(super) fn are_covered(&self) -> bool {
        let mut tasks = self.0.iter().flatten();
        tasks.any(|task| !task.tokens.is_empty())
    }
}

impl Observers {
    /// Records a task at `point`, which these tokens cover.
    pub fn note(&mut self, point: Point, task: TraceSpan, tokens: &Tokens) {
        self.profiles.issued(point, tokens);
        let queue = point.queue.index();
        // A replay may have ended before its last task; its place now has another.
        let is_replaced = |last: &mut NotedTask| last.cursor >= point.cursor;
        while let Some(never_ran) = self.noted.0[queue].pop_back_if(is_replaced) {
            self.gather(never_ran, None);
        }
        self.noted.0[queue].push_back(NotedTask {
            cursor: point.cursor,
            task,
            tokens: tokens.clone(),
        });
    }

    /// Adds spans of the backend to the profiles and the trace.
    pub fn add_spans(&mut self, mut spans: Vec<Span>) {
        spans.sort_unstable_by_key(|span| (span.point.queue.0, span.point.cursor));
        for span in &spans {
            let Point { queue, cursor } = span.point;
            let is_reached = |first: &mut NotedTask| first.cursor <= cursor;
            while let Some(noted) = self.noted.0[queue.index()].pop_front_if(is_reached) {
                let of_it = (noted.cursor == cursor).then_some(span);
                self.gather(noted, of_it);
            }
        }
    }

    /// Records that everything on a queue up to `cursor` has passed: a task without a span by now has none.
    pub fn passed(&mut self, queue: usize, cursor: Cursor) {
        let has_passed = |first: &mut NotedTask| first.cursor <= cursor;
        while let Some(noted) = self.noted.0[queue].pop_front_if(has_passed) {
            self.gather(noted, None);
        }
    }

    /// Adds a completed task to its profiles, and to the trace if that is on.
    fn gather(&mut self, noted: NotedTask, span: Option<&Span>) {
        let NotedTask {
            mut task, tokens, ..
        } = noted;
        self.profiles.completed(&task.name, span, &tokens);
        if let Some(span) = span.filter(|_| self.trace.is_on()) {
            (task.queue, task.cursor) = (span.point.queue.0.into(), span.point.cursor);
            (task.start_ns, task.end_ns) = (span.start_ns, span.end_ns);
            self.trace.add(task);
        }
    }
}

// The trace: the spans of completed tasks with their names, owners and waits, until a user takes them.

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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use millstream_protocol::{QueueId, Settings};

    use super::*;

    fn tracing(capacity: usize) -> Observers {
        let settings = Settings {
            trace: capacity,
            ..Settings::default()
        };
        Observers::new(&settings, 1)
    }

    fn at(cursor: u64) -> Point {
        Point::new(QueueId(0), cursor)
    }

    fn span(cursor: u64) -> Span {
        Span {
            point: at(cursor),
            start_ns: cursor * 10,
            end_ns: cursor * 10 + 5,
            failure: None,
        }
    }

    fn note(observers: &mut Observers, cursor: u64) {
        let task = TraceSpan {
            stream: cursor,
            waits: observers.trace.waits_of(at(cursor)),
            ..TraceSpan::default()
        };
        observers.note(at(cursor), task, &Tokens::new());
    }

    #[test]
    fn traced_task_that_has_not_run_is_reported_later_with_its_waits() {
        let mut observers = tracing(8);
        note(&mut observers, 1);
        note(&mut observers, 2);
        observers.trace.note_wait(at(3), Point::new(QueueId(1), 7));
        note(&mut observers, 3);
        let live = HashSet::from([1, 3]);
        let fields = |spans: &[TraceSpan]| -> Vec<_> {
            let fields = spans.iter();
            fields
                .map(|span| (span.cursor, span.stream_ended, span.waits.len()))
                .collect()
        };
        observers.add_spans(vec![span(2), span(1)]);
        observers.passed(0, 2);
        let first = observers.trace.take(&live);
        assert_eq!(fields(&first), [(1, false, 0), (2, true, 0)]);
        observers.add_spans(vec![span(3)]);
        let second = observers.trace.take(&live);
        assert_eq!(fields(&second), [(3, false, 1)]);
    }

    /// I12: if there are more spans than the capacity, the oldest are evicted; a task without a span leaves nothing.
    #[test]
    fn trace_keeps_only_the_newest_tasks_i12() {
        let mut observers = tracing(2);
        (1..=5).for_each(|cursor| note(&mut observers, cursor));
        observers.add_spans(vec![span(2), span(3), span(4)]);
        observers.passed(0, 5);
        let spans = observers.trace.take(&HashSet::new());
        let cursors: Vec<_> = spans.iter().map(|span| span.cursor).collect();
        assert_eq!(cursors, [3, 4]);
        assert!(observers.noted.0[0].is_empty());
    }
}

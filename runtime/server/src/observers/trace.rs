//! The trace: the owner of each task and its waits, until the backend reports its span.

use std::collections::{HashMap, HashSet, VecDeque};

use millstream_protocol::backend::Span;
use millstream_protocol::id::Point;
use millstream_protocol::report::{TraceSpan, TraceWait};

/// The bounded records of a trace, at most `capacity` of each kind.
pub(crate) struct Trace {
    capacity: usize,
    /// The tasks whose spans the trace will report: their names and owners.
    tasks: VecDeque<(Point, TraceSpan)>,
    /// The tasks and the points that they waited for.
    waits: VecDeque<(Point, Point)>,
    /// Spans that were taken for profiles, and belong to the trace as well.
    spans: VecDeque<Span>,
}

impl Trace {
    /// Creates a trace of at most `capacity` tasks. With 0 it is off.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            tasks: VecDeque::new(),
            waits: VecDeque::new(),
            spans: VecDeque::new(),
        }
    }

    /// Returns `true` if the trace is on.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Records the name and the owner of the task at `point`.
    pub(crate) fn note(&mut self, point: Point, task: TraceSpan) {
        push_bounded(&mut self.tasks, (point, task), self.capacity);
    }

    /// Records that the task at `place` waits for another.
    #[inline]
    pub(super) fn note_wait(&mut self, place: Point, waited_for: Point) {
        if self.is_on() {
            push_bounded(&mut self.waits, (place, waited_for), self.capacity);
        }
    }

    /// Stores spans that were taken for profiles.
    pub(super) fn keep(&mut self, spans: &[Span]) {
        for span in spans.iter().filter(|_| self.capacity > 0) {
            push_bounded(&mut self.spans, span.clone(), self.capacity);
        }
    }

    /// Takes the spans of completed tasks, with their names and owners: `taken` and the stored ones. `live` has the
    /// numbers of the streams that exist, and `passed` returns `true` if a point has passed.
    pub(crate) fn take(
        &mut self,
        mut taken: Vec<Span>,
        live: &HashSet<u64>,
        passed: impl Fn(Point) -> bool,
    ) -> Vec<TraceSpan> {
        taken.extend(self.spans.drain(..));
        let ran = taken.into_iter().map(|span| (span.point, span));
        let mut ran: HashMap<Point, Span> = ran.collect();
        let mut waits: HashMap<Point, Vec<TraceWait>> = HashMap::new();
        for (place, waited_for) in &self.waits {
            waits.entry(*place).or_default().push(TraceWait {
                queue: u32::from(waited_for.queue.0),
                cursor: waited_for.cursor,
            });
        }
        let mut spans: Vec<TraceSpan> = Vec::new();
        // A task that has not run is reported by a later call, and keeps its order so that the oldest is evicted first.
        // If two tasks had one place, the later one has it.
        let mut later = VecDeque::new();
        for (point, mut task) in std::mem::take(&mut self.tasks).into_iter().rev() {
            match ran.remove(&point) {
                Some(span) => {
                    (task.queue, task.cursor) = (point.queue.0.into(), point.cursor);
                    task.stream_ended = !live.contains(&task.stream);
                    (task.start_ns, task.end_ns) = (span.start_ns, span.end_ns);
                    task.waits = waits.remove(&point).unwrap_or_default();
                    spans.push(task);
                }
                None if !passed(point) => later.push_front((point, task)),
                // It has passed, and its span was not recorded.
                None => {}
            }
        }
        self.tasks = later;
        self.waits
            .retain(|(place, _)| waits.contains_key(place) && !passed(*place));
        spans.sort_by_key(|span| (span.start_ns, span.queue));
        spans
    }
}

/// Appends a value to a ring buffer. If the buffer is full, the oldest value is evicted.
fn push_bounded<T>(ring: &mut VecDeque<T>, value: T, capacity: usize) {
    if ring.len() == capacity {
        ring.pop_front();
    }
    ring.push_back(value);
}

#[cfg(test)]
mod tests {
    use millstream_protocol::id::QueueId;

    use super::*;

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

    fn trace(capacity: usize, tasks: u64) -> Trace {
        let mut trace = Trace::new(capacity);
        for cursor in 1..=tasks {
            let task = TraceSpan {
                stream: cursor,
                ..TraceSpan::default()
            };
            trace.note(at(cursor), task);
        }
        trace
    }

    #[test]
    fn task_that_has_not_run_is_reported_later_with_its_waits() {
        let mut trace = trace(8, 3);
        trace.note_wait(at(3), Point::new(QueueId(1), 7));
        let live = HashSet::from([1, 3]);
        let first = trace.take(vec![span(2), span(1)], &live, |point| point.cursor <= 2);
        let fields = |spans: &[TraceSpan]| -> Vec<_> {
            let fields = spans.iter();
            fields
                .map(|span| (span.cursor, span.stream_ended, span.waits.len()))
                .collect()
        };
        assert_eq!(fields(&first), [(1, false, 0), (2, true, 0)]);
        let second = trace.take(vec![span(3)], &live, |_| true);
        assert_eq!(fields(&second), [(3, false, 1)]);
        assert!(trace.tasks.is_empty() && trace.waits.is_empty());
    }

    /// I12: if there are more records than the capacity, the oldest are evicted.
    #[test]
    fn trace_keeps_only_the_newest_tasks_i12() {
        let mut trace = trace(2, 5);
        trace.keep(&[span(3), span(4), span(5)]);
        let spans = trace.take(Vec::new(), &HashSet::new(), |_| true);
        let cursors: Vec<_> = spans.iter().map(|span| span.cursor).collect();
        assert_eq!(cursors, [4, 5]);
    }
}

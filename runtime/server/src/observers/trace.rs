//! The timeline: whose task is where and what it waited for, until the backend says when it ran.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use millstream_protocol::backend::Span;
use millstream_protocol::id::{ClientId, Point};
use millstream_protocol::report::{TraceSpan, TraceWait};

/// Whose a task is.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) client: ClientId,
    pub(crate) client_name: Arc<str>,
    /// The stream's number.
    pub(crate) stream: u64,
}

/// A task that the timeline is to tell of.
struct TracedTask {
    point: Point,
    owner: Owner,
    name: Arc<str>,
}

/// What is remembered for a timeline; of each kind at most as much as was asked for.
pub(crate) struct Trace {
    capacity: usize,
    tasks: VecDeque<TracedTask>,
    /// Which tasks waited for which.
    waits: VecDeque<(Point, Point)>,
    /// Spans that were taken for profiles, and are the timeline's as well.
    spans: VecDeque<Span>,
}

impl Trace {
    /// One that keeps `capacity` tasks; with 0 it is off.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            tasks: VecDeque::new(),
            waits: VecDeque::new(),
            spans: VecDeque::new(),
        }
    }

    /// Is anything kept?
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// The task at `point` is this one's.
    pub(crate) fn note(&mut self, point: Point, owner: Owner, name: Arc<str>) {
        push_bounded(
            &mut self.tasks,
            TracedTask { point, owner, name },
            self.capacity,
        );
    }

    /// The task that is to be at `place` waits for another.
    #[inline]
    pub(super) fn note_wait(&mut self, place: Point, waited_for: Point) {
        if self.is_on() {
            push_bounded(&mut self.waits, (place, waited_for), self.capacity);
        }
    }

    /// Keeps spans that profiles were given.
    pub(super) fn keep(&mut self, spans: &[Span]) {
        for span in spans.iter().filter(|_| self.capacity > 0) {
            push_bounded(&mut self.spans, span.clone(), self.capacity);
        }
    }

    /// These spans and those that were kept, with the names and streams that are remembered. `live` are the numbers of the streams
    /// that are there, and `passed` says whether a task is over.
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
        // What has not run yet is told the next time, and stays in its order: the oldest gives way. The last of a place is the one
        // that has it.
        let mut later: VecDeque<TracedTask> = VecDeque::new();
        for task in std::mem::take(&mut self.tasks).into_iter().rev() {
            match ran.remove(&task.point) {
                Some(span) => spans.push(TraceSpan {
                    name: task.name,
                    client: task.owner.client.0,
                    client_name: task.owner.client_name,
                    stream: task.owner.stream,
                    stream_ended: !live.contains(&task.owner.stream),
                    queue: u32::from(task.point.queue.0),
                    cursor: task.point.cursor,
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    waits: waits.remove(&task.point).unwrap_or_default(),
                }),
                None if !passed(task.point) => later.push_front(task),
                // It is over, and nobody took its times.
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

/// Puts a value into a ring: without room, the oldest gives way.
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
            let owner = Owner {
                client: ClientId(1),
                client_name: "client".into(),
                stream: cursor,
            };
            trace.note(at(cursor), owner, "task".into());
        }
        trace
    }

    #[test]
    fn what_has_not_run_is_told_the_next_time_with_its_waits() {
        let mut trace = trace(8, 3);
        trace.note_wait(at(3), Point::new(QueueId(1), 7));
        let live = HashSet::from([1, 3]);
        let first = trace.take(vec![span(2), span(1)], &live, |point| point.cursor <= 2);
        let told = |spans: &[TraceSpan]| -> Vec<_> {
            let told = spans.iter();
            told.map(|span| (span.cursor, span.stream_ended, span.waits.len()))
                .collect()
        };
        assert_eq!(told(&first), [(1, false, 0), (2, true, 0)]);
        let second = trace.take(vec![span(3)], &live, |_| true);
        assert_eq!(told(&second), [(3, false, 1)]);
        assert!(trace.tasks.is_empty() && trace.waits.is_empty());
    }

    /// I12: of more than was asked for the oldest give way.
    #[test]
    fn no_more_is_kept_than_was_asked_for_i12() {
        let mut trace = trace(2, 5);
        trace.keep(&[span(3), span(4), span(5)]);
        let spans = trace.take(Vec::new(), &HashSet::new(), |_| true);
        let cursors: Vec<_> = spans.iter().map(|span| span.cursor).collect();
        assert_eq!(cursors, [4, 5]);
    }
}

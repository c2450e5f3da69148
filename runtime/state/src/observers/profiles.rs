//! Profiles: which tasks each open profile covers, and when a profile is complete. The trace observes tasks in the same
//! way, and gets their spans.
//!
//! A token covers sequences of streams: those that the streams assign between its start and its end, which are messages
//! like any other. So the tokens of a task are known when it is issued, and are recorded with its point. Its times
//! follow from the backend when it has completed.
//!
//! ```text
//!  start                 end                        complete                              answer
//!  open, covers tasks ─► ending, covers no more ──► every covered task was issued and ──► the caller gets the sums
//!        │                                          the last of them has passed
//!        └─► cut: it has `tasks_max` tasks, covers no more, and its profile says so
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use millstream_protocol::backend::Span;
use millstream_protocol::error::Error;
use millstream_protocol::id::{ClientId, Cursor, Point, StreamId};
use millstream_protocol::message::Scope;
use millstream_protocol::profile::{ClockSource, Profile};
use millstream_protocol::report::TraceSpan;
use millstream_sync::reply::ReplySender;
use smallvec::SmallVec;

use super::profile_sums::ProfileSums;
use super::trace::Trace;
use crate::points::Points;

/// The most profiles that are open at once (I12). One more evicts the oldest.
const OPEN_MAX: usize = 16_384;

/// The tokens that cover a task.
pub type Tokens = SmallVec<[u64; 2]>;

/// A profile that was not answered yet.
struct Open {
    scope: Scope,
    sums: ProfileSums,
    /// The number of its issued tasks, and the last of them on each queue.
    issued: u64,
    last: Points,
    /// Whether it was full: it covers no further tasks.
    is_cut: bool,
    ended: Option<Ended>,
}

/// The end of a profile, which waits for its tasks.
pub struct Ended {
    /// The time between the calls that started and that ended it.
    pub calls: Duration,
    /// The reply to the caller that ended it.
    pub reply: ReplySender<Result<Profile, Error>>,
    /// Streams that hold tasks of it, each with the first sequence after these.
    pub holding: Vec<(StreamId, u64)>,
}

/// A task that was issued and may not have completed, and that profiles cover or the trace observes.
struct NotedTask {
    cursor: Cursor,
    /// Its name and its owner.
    task: TraceSpan,
    tokens: Tokens,
}

/// The profiles of a device.
pub struct Profiles {
    /// By token; tokens are nearly in the order in which the profiles were started.
    open: BTreeMap<u64, Open>,
    /// By queue, in the order of their cursors.
    noted: Vec<VecDeque<NotedTask>>,
    /// The spans of the last tasks.
    pub trace: Trace,
    /// Whether the backend records spans for profiles.
    is_recording: bool,
    /// The profiles that were ended and wait for their tasks.
    ending: Vec<u64>,
    /// The most tasks of one profile. Further tasks are not counted.
    tasks_max: u64,
}

impl Profiles {
    /// Creates profiles for this number of queues.
    pub(super) fn new(queues: usize, tasks_max: u64, trace: Trace) -> Self {
        Self {
            open: BTreeMap::new(),
            noted: (0..queues).map(|_| VecDeque::new()).collect(),
            trace,
            is_recording: false,
            ending: Vec::new(),
            tasks_max,
        }
    }

    /// Returns `true` if the trace or the profiles need spans, or profiles wait for tasks.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.needs_spans() || !self.ending.is_empty()
    }

    /// Returns `true` if the trace or the profiles need the spans of tasks.
    #[inline]
    pub fn needs_spans(&self) -> bool {
        self.is_recording || self.trace.is_on()
    }

    /// Returns `true` if an ended profile waits for its tasks.
    pub fn has_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Returns the profile to evict, if there is no room for one more: the oldest that was not ended, or else the
    /// oldest.
    pub fn to_evict(&self) -> Option<u64> {
        if self.open.len() < OPEN_MAX {
            return None;
        }
        let unasked = self.open.iter().find(|(_, open)| open.ended.is_none());
        unasked.or(self.open.iter().next()).map(|(token, _)| *token)
    }

    /// Removes a profile. A caller that waits for it receives an error.
    pub fn evict(&mut self, token: u64) {
        let dropped = self.open.remove(&token);
        if let Some(ended) = dropped.and_then(|open| open.ended) {
            self.ending.retain(|ending| *ending != token);
            let number = token;
            ended.reply.send(Err(Error::NoProfile { number }));
        }
    }

    /// Opens a profile.
    pub fn start(&mut self, token: u64, scope: Scope) {
        let open = Open {
            scope,
            sums: ProfileSums::default(),
            issued: 0,
            last: Points::default(),
            is_cut: false,
            ended: None,
        };
        self.open.insert(token, open);
    }

    /// Returns the profiles that cover a new stream of this client.
    pub fn covering_new_stream(&self, client: ClientId) -> Vec<u64> {
        let covers = |open: &Open| {
            let all = open.scope == Scope::Device || open.scope == Scope::Client(client);
            all && open.ended.is_none() && !open.is_cut
        };
        let open = self.open.iter();
        open.filter(|(_, open)| covers(open))
            .map(|(token, _)| *token)
            .collect()
    }

    /// Returns the scope of a profile.
    pub fn scope(&self, token: u64) -> Option<Scope> {
        Some(self.open.get(&token)?.scope.clone())
    }

    /// Returns `true` if the profile is open and was not ended.
    pub fn can_end(&self, token: u64) -> bool {
        let open = self.open.get(&token);
        open.is_some_and(|open| open.ended.is_none())
    }

    /// Ends a profile: it covers no task that is sent from here on.
    pub fn end(&mut self, token: u64, ended: Ended) {
        if let Some(open) = self.open.get_mut(&token) {
            open.ended = Some(ended);
            self.ending.push(token);
        }
    }

    /// Returns `true` if the profile has no room for `tasks` further tasks.
    pub fn is_full_for(&self, token: u64, tasks: u64) -> bool {
        let open = self.open.get(&token);
        open.is_some_and(|open| open.issued.saturating_add(tasks) > self.tasks_max)
    }

    /// Cuts a profile: it covers no further tasks.
    pub fn cut(&mut self, token: u64) {
        if let Some(open) = self.open.get_mut(&token) {
            open.is_cut = true;
            if let Some(ended) = &mut open.ended {
                ended.holding.clear();
            }
        }
    }

    /// Returns the ended profiles, which may be complete.
    pub fn ending(&self) -> Vec<u64> {
        self.ending.clone()
    }

    /// Returns `true` if the tasks of an ended profile have all completed. `holds` returns `true` if a stream has not
    /// issued its tasks before a sequence, `passed` if a point has passed.
    pub fn is_complete(
        &mut self,
        token: u64,
        holds: impl Fn(StreamId, u64) -> bool,
        passed: impl Fn(Point) -> bool,
    ) -> bool {
        let Some(open) = self.open.get_mut(&token) else {
            return true;
        };
        let Some(ended) = &mut open.ended else {
            return true;
        };
        ended
            .holding
            .retain(|(stream, until)| holds(*stream, *until));
        ended.holding.is_empty() && open.last.iter().all(passed)
    }

    /// Answers the caller of a complete profile, timed by `clock`.
    pub fn answer(&mut self, token: u64, clock: ClockSource) {
        self.ending.retain(|ending| *ending != token);
        if let Some(open) = self.open.remove(&token)
            && let Some(ended) = open.ended
        {
            let profile = open.sums.profile(clock, ended.calls, open.is_cut);
            ended.reply.send(Ok(profile));
        }
    }

    /// Returns the least cursor of a queue that ended profiles wait for. The queue has issued and completed the given
    /// cursors.
    pub fn wake_cursor(&self, queue: usize, issued: Cursor, completed: Cursor) -> Option<Cursor> {
        let ending = self.ending.iter();
        let open = ending.filter_map(|token| self.open.get(token));
        let points = open.flat_map(|open| open.last.iter());
        let here = points.filter(|point| point.queue.index() == queue);
        here.map(|point| point.cursor.min(issued))
            .filter(|cursor| *cursor > completed)
            .min()
    }

    /// Returns whether spans must be recorded, if that has changed: while a profile may get more tasks, or a covered
    /// task may be about to run.
    pub(super) fn recording_change(&mut self) -> Option<bool> {
        let is_covered = |task: &NotedTask| !task.tokens.is_empty();
        let is_recording = self.open.values().any(|open| !open.is_cut)
            || (self.is_recording && self.noted.iter().flatten().any(is_covered));
        if is_recording == self.is_recording {
            return None;
        }
        self.is_recording = is_recording;
        Some(is_recording)
    }

    /// Ends all profiles because the device is lost or closed. Callers that wait receive the error `why`.
    pub fn fail_all(&mut self, why: impl Fn() -> Error) {
        let noted = self.noted.iter_mut().flatten();
        noted.for_each(|task| task.tokens.clear());
        self.ending.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            if let Some(ended) = open.ended {
                ended.reply.send(Err(why()));
            }
        }
    }

    /// Records a task at `point`, which these tokens cover.
    pub fn note(&mut self, point: Point, task: TraceSpan, tokens: &Tokens) {
        for token in tokens {
            if let Some(open) = self.open.get_mut(token) {
                open.issued += 1;
                open.last.insert(point);
            }
        }
        let queue = point.queue.index();
        // A replay may have ended before its last task; its place now has another.
        while self.noted[queue]
            .back()
            .is_some_and(|last| last.cursor >= point.cursor)
        {
            let never_ran = self.noted[queue].pop_back();
            self.gather(never_ran, None);
        }
        self.noted[queue].push_back(NotedTask {
            cursor: point.cursor,
            task,
            tokens: tokens.clone(),
        });
    }

    /// Adds a completed task to its profiles, and to the trace if it is on.
    fn gather(&mut self, noted: Option<NotedTask>, span: Option<&Span>) {
        let Some(mut noted) = noted else { return };
        for token in &noted.tokens {
            if let Some(open) = self.open.get_mut(token) {
                let times = span.map(|span| (span.start_ns, span.end_ns));
                open.sums.add(&noted.task.name, times);
                if let Some(failure) = span.and_then(|span| span.failure.as_ref()) {
                    open.sums.fail(failure);
                }
            }
        }
        if let Some(span) = span.filter(|_| self.trace.is_on()) {
            let task = &mut noted.task;
            (task.queue, task.cursor) = (span.point.queue.0.into(), span.point.cursor);
            (task.start_ns, task.end_ns) = (span.start_ns, span.end_ns);
            self.trace.add(noted.task);
        }
    }

    /// Adds spans, which are sorted by queue and cursor.
    pub(super) fn add_spans(&mut self, spans: &[Span]) {
        for span in spans {
            let queue = span.point.queue.index();
            while let Some(first) = self.noted[queue].front()
                && first.cursor <= span.point.cursor
            {
                let of_it = (first.cursor == span.point.cursor).then_some(span);
                let noted = self.noted[queue].pop_front();
                self.gather(noted, of_it);
            }
        }
    }

    /// Records that everything on a queue up to `completed` has passed: a task without a span by now has none.
    pub fn passed(&mut self, queue: usize, completed: Cursor) {
        while self.noted[queue]
            .front()
            .is_some_and(|first| first.cursor <= completed)
        {
            let noted = self.noted[queue].pop_front();
            self.gather(noted, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    fn note(profiles: &mut Profiles, cursor: u64) {
        let task = TraceSpan {
            stream: cursor,
            waits: profiles.trace.waits_of(at(cursor)),
            ..TraceSpan::default()
        };
        profiles.note(at(cursor), task, &Tokens::new());
    }

    #[test]
    fn traced_task_that_has_not_run_is_reported_later_with_its_waits() {
        let mut profiles = Profiles::new(1, 0, Trace::new(8));
        note(&mut profiles, 1);
        note(&mut profiles, 2);
        profiles.trace.note_wait(at(3), Point::new(QueueId(1), 7));
        note(&mut profiles, 3);
        let live = HashSet::from([1, 3]);
        let fields = |spans: &[TraceSpan]| -> Vec<_> {
            let fields = spans.iter();
            fields
                .map(|span| (span.cursor, span.stream_ended, span.waits.len()))
                .collect()
        };
        profiles.add_spans(&[span(1), span(2)]);
        profiles.passed(0, 2);
        let first = profiles.trace.take(&live);
        assert_eq!(fields(&first), [(1, false, 0), (2, true, 0)]);
        profiles.add_spans(&[span(3)]);
        let second = profiles.trace.take(&live);
        assert_eq!(fields(&second), [(3, false, 1)]);
    }

    /// I12: if there are more spans than the capacity, the oldest are evicted; a task without a span leaves nothing.
    #[test]
    fn trace_keeps_only_the_newest_tasks_i12() {
        let mut profiles = Profiles::new(1, 0, Trace::new(2));
        (1..=5).for_each(|cursor| note(&mut profiles, cursor));
        profiles.add_spans(&[span(2), span(3), span(4)]);
        profiles.passed(0, 5);
        let spans = profiles.trace.take(&HashSet::new());
        let cursors: Vec<_> = spans.iter().map(|span| span.cursor).collect();
        assert_eq!(cursors, [3, 4]);
        assert!(profiles.noted[0].is_empty());
    }
}

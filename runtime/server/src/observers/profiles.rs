//! Profiles: which tasks are whose, and what is told of them in the end.
//!
//! A token covers sequences of streams: those that they gave out between its start and its end, which are messages like any other. So
//! whose a task is is known when it is issued, and is noted with its point; its times follow from the backend, once it is over. A
//! profile is told when its streams have issued what it covers, and the last of that has passed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::Span;
use millstream_protocol::error::{Error, ProfileError};
use millstream_protocol::id::{ClientId, Cursor, Point, StreamId};
use millstream_protocol::message::Scope;
use millstream_protocol::profile::{ClockSource, Profile};
use millstream_sync::reply::ReplySender;
use smallvec::SmallVec;

use super::profile_sums::ProfileSums;
use crate::points::Points;

/// Profiles that are open at once (I12): the oldest gives way to one more.
const OPEN_MAX: usize = 16_384;

/// The tokens that cover a task.
pub(crate) type Tokens = SmallVec<[u64; 2]>;

/// A profile that was not told yet.
struct Open {
    scope: Scope,
    sums: ProfileSums,
    /// Tasks that were issued, and where the last of them are.
    issued: u64,
    last: Points,
    /// It was full: nothing more is its.
    is_cut: bool,
    ended: Option<Ended>,
}

/// A profile that waits for its tasks.
pub(crate) struct Ended {
    /// Between the calls that started it and that ended it.
    pub(crate) calls: Duration,
    /// Who is told.
    pub(crate) reply: ReplySender<Result<Profile, Error>>,
    /// Streams that hold tasks of it: until they have issued this sequence.
    pub(crate) holding: Vec<(StreamId, u64)>,
}

/// A task that was issued and may not be over.
struct ProfiledTask {
    cursor: Cursor,
    name: Arc<str>,
    tokens: Tokens,
}

/// The profiles of a device.
pub(crate) struct Profiles {
    /// By number, which is about the order in which they were started.
    open: BTreeMap<u64, Open>,
    /// Tasks that are somebody's, in the order of their cursors, by queue.
    noted: Vec<VecDeque<ProfiledTask>>,
    /// Does the backend record for us?
    is_recording: bool,
    /// Those that wait for their tasks.
    ending: Vec<u64>,
    /// Tasks of one profile, after which it counts no more.
    tasks_max: u64,
}

impl Profiles {
    /// For so many queues.
    pub(super) fn new(queues: usize, tasks_max: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            noted: (0..queues).map(|_| VecDeque::new()).collect(),
            is_recording: false,
            ending: Vec::new(),
            tasks_max,
        }
    }

    /// Is there anything to do for them?
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.is_recording || !self.ending.is_empty()
    }

    /// Does the backend record for them?
    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Does any wait for its tasks?
    pub(crate) fn has_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// The profile that gives way, if there are so many that one more has no room: one that nobody waits for, if there is one.
    pub(crate) fn to_evict(&self) -> Option<u64> {
        if self.open.len() < OPEN_MAX {
            return None;
        }
        let unasked = self.open.iter().find(|(_, open)| open.ended.is_none());
        unasked.or(self.open.iter().next()).map(|(token, _)| *token)
    }

    /// Who waits for this profile is told that there is none.
    pub(crate) fn evict(&mut self, token: u64) {
        let dropped = self.open.remove(&token);
        if let Some(ended) = dropped.and_then(|open| open.ended) {
            self.ending.retain(|ending| *ending != token);
            ended.reply.send(Err(ProfileError::Unknown.into()));
        }
    }

    /// One more is open.
    pub(crate) fn start(&mut self, token: u64, scope: Scope) {
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

    /// Those that a new stream of this client is in.
    pub(crate) fn covering_new_stream(&self, client: ClientId) -> Vec<u64> {
        let covers = |open: &Open| {
            let all = open.scope == Scope::Device || open.scope == Scope::Client(client);
            all && open.ended.is_none() && !open.is_cut
        };
        let open = self.open.iter();
        open.filter(|(_, open)| covers(open))
            .map(|(token, _)| *token)
            .collect()
    }

    /// Whose tasks a profile is of.
    pub(crate) fn scope(&self, token: u64) -> Option<Scope> {
        Some(self.open.get(&token)?.scope.clone())
    }

    /// Is it one that has begun and was not asked for?
    pub(crate) fn can_end(&self, token: u64) -> bool {
        let open = self.open.get(&token);
        open.is_some_and(|open| open.ended.is_none())
    }

    /// What is sent from here on is not the profile's.
    pub(crate) fn end(&mut self, token: u64, ended: Ended) {
        if let Some(open) = self.open.get_mut(&token) {
            open.ended = Some(ended);
            self.ending.push(token);
        }
    }

    /// Has it no room for so many tasks more?
    pub(crate) fn is_full_for(&self, token: u64, tasks: u64) -> bool {
        let open = self.open.get(&token);
        open.is_some_and(|open| open.issued.saturating_add(tasks) > self.tasks_max)
    }

    /// It counts no more.
    pub(crate) fn cut(&mut self, token: u64) {
        if let Some(open) = self.open.get_mut(&token) {
            open.is_cut = true;
            if let Some(ended) = &mut open.ended {
                ended.holding.clear();
            }
        }
    }

    /// Those that wait for their tasks, and may be complete.
    pub(crate) fn ending(&self) -> Vec<u64> {
        self.ending.clone()
    }

    /// Are the tasks of a profile that was asked for all over? `holds` says of a stream whether it has not issued so far, `passed`
    /// of a point whether it has passed.
    pub(crate) fn is_complete(
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

    /// Tells a profile that is complete, timed by `clock`.
    pub(crate) fn answer(&mut self, token: u64, clock: ClockSource) {
        self.ending.retain(|ending| *ending != token);
        if let Some(open) = self.open.remove(&token)
            && let Some(ended) = open.ended
        {
            let profile = open.sums.profile(clock, ended.calls, open.is_cut);
            ended.reply.send(Ok(profile));
        }
    }

    /// The first point that those that were asked for wait for on a queue, which has issued and completed this much.
    pub(crate) fn wake_cursor(
        &self,
        queue: usize,
        issued: Cursor,
        completed: Cursor,
    ) -> Option<Cursor> {
        let ending = self.ending.iter();
        let open = ending.filter_map(|token| self.open.get(token));
        let points = open.flat_map(|open| open.last.iter());
        let here = points.filter(|point| point.queue.index() == queue);
        here.map(|point| point.cursor.min(issued))
            .filter(|cursor| *cursor > completed)
            .min()
    }

    /// Whether spans are to be recorded, where that has changed: while there is a profile that may have more tasks, or one that may
    /// be about to run.
    pub(super) fn recording_change(&mut self) -> Option<bool> {
        let is_recording = self.open.values().any(|open| !open.is_cut)
            || (self.is_recording && self.noted.iter().any(|noted| !noted.is_empty()));
        if is_recording == self.is_recording {
            return None;
        }
        self.is_recording = is_recording;
        Some(is_recording)
    }

    /// Nothing is over any more: who waits is told why.
    pub(crate) fn lose(&mut self, why: impl Fn() -> Error) {
        self.noted.iter_mut().for_each(VecDeque::clear);
        self.ending.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            if let Some(ended) = open.ended {
                ended.reply.send(Err(why()));
            }
        }
    }

    /// The task at `point` is theirs.
    pub(crate) fn note(&mut self, point: Point, name: &Arc<str>, tokens: &Tokens) {
        for token in tokens {
            if let Some(open) = self.open.get_mut(token) {
                open.issued += 1;
                open.last.insert(point);
            }
        }
        let queue = point.queue.index();
        // A replay may have ended before its last task: another has that place now.
        while self.noted[queue]
            .back()
            .is_some_and(|last| last.cursor >= point.cursor)
        {
            let never_ran = self.noted[queue].pop_back();
            self.gather(never_ran, None);
        }
        self.noted[queue].push_back(ProfiledTask {
            cursor: point.cursor,
            name: name.clone(),
            tokens: tokens.clone(),
        });
    }

    /// A task is over.
    fn gather(&mut self, noted: Option<ProfiledTask>, span: Option<&Span>) {
        let Some(noted) = noted else { return };
        for token in &noted.tokens {
            if let Some(open) = self.open.get_mut(token) {
                let times = span.map(|span| (span.start_ns, span.end_ns));
                open.sums.add(&noted.name, times);
                if let Some(failure) = span.and_then(|span| span.failure.as_ref()) {
                    open.sums.fail(failure);
                }
            }
        }
    }

    /// Takes these spans, in the order of queues and cursors.
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

    /// Everything of a queue up to there is over: what has no times by now has none.
    pub(crate) fn passed(&mut self, queue: usize, completed: Cursor) {
        while self.noted[queue]
            .front()
            .is_some_and(|first| first.cursor <= completed)
        {
            let noted = self.noted[queue].pop_front();
            self.gather(noted, None);
        }
    }
}

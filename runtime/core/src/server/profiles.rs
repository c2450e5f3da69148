//! Profiles: which tasks are whose, and what is told of them in the end.
//!
//! A token covers sequences of streams: those that they gave out between its start and its end, which are messages like any other. So
//! whose a task is is known when it is issued, and is noted with its point; its times follow from the backend, once it is over. A
//! profile is told when its streams have issued what it covers, and the last of that has passed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millstream_sync::reply::ReplySender;
use smallvec::SmallVec;

use crate::backend::{Backend, Span};
use crate::error::{Error, ProfileError};
use crate::hazard::points::Points;
use crate::id::{Cursor, Point, StreamId};
use crate::profile::{Gathered, Profile};
use crate::report::Scope;

use super::Server;
use super::noted::push_bounded;

/// Profiles that are open at once (I12): the oldest gives way to one more.
const OPEN_MAX: usize = 16_384;

/// The tokens that cover a task.
pub(super) type Tokens = SmallVec<[u64; 2]>;

/// A profile that was not told yet.
struct Open {
    scope: Scope,
    gathered: Gathered,
    /// Tasks that were issued, and where the last of them are.
    issued: u64,
    last: Points,
    /// It was full: nothing more is its.
    is_cut: bool,
    ended: Option<Ended>,
}

/// A profile that waits for its tasks.
struct Ended {
    calls: Duration,
    reply: ReplySender<Result<Profile, Error>>,
    /// Streams that hold tasks of it: until they have issued this sequence.
    holding: Vec<(StreamId, u64)>,
}

/// A task that was issued and may not be over.
struct Noted {
    cursor: Cursor,
    name: Arc<str>,
    tokens: Tokens,
}

/// The profiles of a device.
#[derive(Default)]
pub(super) struct Profiles {
    /// By number, which is about the order in which they were started.
    open: BTreeMap<u64, Open>,
    /// Tasks that are somebody's, in the order of their cursors, by queue.
    noted: Vec<VecDeque<Noted>>,
    /// Does the backend record for us?
    pub(super) records: bool,
    /// Those that wait for their tasks.
    asked: Vec<u64>,
    /// Spans that were taken for us, of a device that has a timeline, too.
    pub(super) for_timeline: VecDeque<Span>,
}

impl Profiles {
    /// For so many queues.
    pub(super) fn new(queues: usize) -> Self {
        Self {
            noted: (0..queues).map(|_| VecDeque::new()).collect(),
            ..Self::default()
        }
    }

    /// Is there anything to do for them?
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.records || !self.asked.is_empty()
    }

    /// The task at `point` is theirs.
    pub(super) fn note(&mut self, point: Point, name: &Arc<str>, tokens: &Tokens) {
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
        self.noted[queue].push_back(Noted {
            cursor: point.cursor,
            name: name.clone(),
            tokens: tokens.clone(),
        });
    }

    /// A task is over.
    fn gather(&mut self, noted: Option<Noted>, span: Option<&Span>) {
        let Some(noted) = noted else { return };
        for token in &noted.tokens {
            if let Some(open) = self.open.get_mut(token) {
                let times = span.map(|span| (span.start_ns, span.end_ns));
                open.gathered.add(&noted.name, times);
                if let Some(failure) = span.and_then(|span| span.failure.as_ref()) {
                    open.gathered.fail(failure);
                }
            }
        }
    }

    /// Takes these spans, in the order of queues and cursors.
    fn take_up(&mut self, spans: &[Span]) {
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
    fn passed(&mut self, queue: usize, completed: Cursor) {
        while self.noted[queue]
            .front()
            .is_some_and(|first| first.cursor <= completed)
        {
            let noted = self.noted[queue].pop_front();
            self.gather(noted, None);
        }
    }
}

impl<B: Backend> Server<B> {
    /// What the streams of `scope` are sent from here on is the profile's.
    pub(super) fn start_profile(&mut self, number: u64, scope: Scope) {
        if self.profiles.open.len() >= OPEN_MAX {
            self.drop_oldest_profile();
        }
        for stream in self.streams_of(&scope) {
            self.streams[stream as usize].cover(number);
        }
        let open = Open {
            scope,
            gathered: Gathered::default(),
            issued: 0,
            last: Points::default(),
            is_cut: false,
            ended: None,
        };
        self.profiles.open.insert(number, open);
        self.record_spans_if_needed();
    }

    /// A new stream is in the profiles of its client, and of the device.
    pub(super) fn cover_new(&mut self, stream: u32) {
        let client = self.streams[stream as usize].client;
        let covers = |open: &Open| {
            let all = open.scope == Scope::Device || open.scope == Scope::Client(client);
            all && open.ended.is_none() && !open.is_cut
        };
        let open = self.profiles.open.iter();
        let tokens: Vec<u64> = open
            .filter(|(_, open)| covers(open))
            .map(|(token, _)| *token)
            .collect();
        for token in tokens {
            self.streams[stream as usize].cover(token);
        }
    }

    /// What is sent from here on is not the profile's. It is told once what was sent before is over.
    pub(super) fn end_profile(
        &mut self,
        number: u64,
        calls: Duration,
        reply: ReplySender<Result<Profile, Error>>,
    ) {
        let open = self.profiles.open.get(&number);
        let Some(open) = open.filter(|open| open.ended.is_none()) else {
            return reply.send(Err(ProfileError::Unknown.into()));
        };
        let streams = self.streams_of(&open.scope.clone());
        let mut holding = Vec::new();
        for stream in &streams {
            let actor = &mut self.streams[*stream as usize];
            if let Some(until) = actor.end_cover(number) {
                holding.push((actor.id, until));
            }
        }
        if let Some(open) = self.profiles.open.get_mut(&number) {
            open.ended = Some(Ended {
                calls,
                reply,
                holding,
            });
            self.profiles.asked.push(number);
        }
        self.flush_keys(&streams);
        self.progress();
    }

    /// The tokens that cover the task that a stream issues next.
    pub(super) fn tokens_of_next(&mut self, stream: u32, tasks: u64) -> Tokens {
        let actor = &self.streams[stream as usize];
        let sequence = actor.issued + 1;
        let mut tokens = Tokens::new();
        for covers in &actor.covered {
            if (covers.from..covers.until).contains(&sequence) {
                tokens.push(covers.token);
            }
        }
        let most = self.options.profile_tasks;
        for index in (0..tokens.len()).rev() {
            let token = tokens[index];
            let full = |open: &Open| open.issued.saturating_add(tasks) > most;
            if self.profiles.open.get(&token).is_some_and(full) {
                tokens.remove(index);
                self.cut(token);
            }
        }
        tokens
    }

    /// A profile is full.
    #[cold]
    fn cut(&mut self, token: u64) {
        if let Some(open) = self.profiles.open.get_mut(&token) {
            open.is_cut = true;
            if let Some(ended) = &mut open.ended {
                ended.holding.clear();
            }
        }
        self.uncover(token);
    }

    /// No stream has anything of this token any more.
    fn uncover(&mut self, token: u64) {
        let Some(open) = self.profiles.open.get(&token) else {
            return;
        };
        for stream in self.streams_of(&open.scope.clone()) {
            self.streams[stream as usize].uncover(token);
        }
    }

    #[cold]
    fn drop_oldest_profile(&mut self) {
        let open = &self.profiles.open;
        let unasked = open.iter().find(|(_, open)| open.ended.is_none());
        let Some(token) = unasked.or(open.iter().next()).map(|(token, _)| *token) else {
            return;
        };
        self.uncover(token);
        let dropped = self.profiles.open.remove(&token);
        if let Some(ended) = dropped.and_then(|open| open.ended) {
            self.profiles.asked.retain(|asked| *asked != token);
            ended.reply.send(Err(ProfileError::Unknown.into()));
        }
    }

    /// Takes up the times of what is over, and tells the profiles that are complete.
    pub(super) fn progress_profiles(&mut self, moved: bool) {
        let asked = !self.profiles.asked.is_empty();
        if !moved && !asked {
            return;
        }
        let mut spans = self.backend.take_spans();
        let capacity = self.options.trace_capacity;
        for span in spans.iter().filter(|_| capacity > 0) {
            push_bounded(&mut self.profiles.for_timeline, span.clone(), capacity);
        }
        spans.sort_unstable_by_key(|span| (span.point.queue.0, span.point.cursor));
        self.profiles.take_up(&spans);
        for (index, queue) in self.queues.iter().enumerate() {
            let idle = queue.completed == queue.issued;
            let until = if idle { Cursor::MAX } else { queue.completed };
            self.profiles.passed(index, until);
        }
        if asked {
            self.tell_profiles();
        }
        self.record_spans_if_needed();
    }

    /// Tells the profiles whose tasks are all over.
    fn tell_profiles(&mut self) {
        let mut asked = std::mem::take(&mut self.profiles.asked);
        asked.retain(|token| !self.tell_if_complete(*token));
        self.profiles.asked = asked;
    }

    /// Tells a profile that was asked for, if its tasks are all over.
    fn tell_if_complete(&mut self, token: u64) -> bool {
        let open = self.profiles.open.get_mut(&token);
        let Some((open, ended)) = open.and_then(|open| Some((&open.last, open.ended.as_mut()?)))
        else {
            return true;
        };
        ended.holding.retain(|(id, until)| {
            let stream = self.links.stream(*id);
            stream.is_some_and(|key| self.streams[key as usize].issued + 1 < *until)
        });
        let passed = |point: Point| {
            let queue = &self.queues[point.queue.index()];
            queue.completed >= point.cursor.min(queue.issued)
        };
        if !ended.holding.is_empty() || !open.iter().all(passed) {
            return false;
        }
        self.uncover(token);
        if let Some(open) = self.profiles.open.remove(&token)
            && let Some(ended) = open.ended
        {
            let clock = self.backend.clock();
            let profile = open.gathered.profile(clock, ended.calls, open.is_cut);
            ended.reply.send(Ok(profile));
        }
        true
    }

    /// Where the profiles that were asked for wait on a queue: the first of those points.
    pub(super) fn profiles_want(&self, queue: usize) -> Option<Cursor> {
        let asked = self.profiles.asked.iter();
        let open = asked.filter_map(|token| self.profiles.open.get(token));
        let points = open.flat_map(|open| open.last.iter());
        let here = points.filter(|point| point.queue.index() == queue);
        let state = &self.queues[queue];
        here.map(|point| point.cursor.min(state.issued))
            .filter(|cursor| *cursor > state.completed)
            .min()
    }

    /// Spans are recorded while there is a profile that may have more tasks, or one that may be about to run.
    fn record_spans_if_needed(&mut self) {
        let profiles = &mut self.profiles;
        let records = profiles.open.values().any(|open| !open.is_cut)
            || (profiles.records && profiles.noted.iter().any(|noted| !noted.is_empty()));
        if records == profiles.records {
            return;
        }
        profiles.records = records;
        let room = if records {
            self.options.profile_spans
        } else {
            0
        };
        let depth = self.backend.record_spans(room);
        self.options.max_in_flight = self.in_flight_max.min(depth);
        self.notes_tasks = records || self.options.trace_capacity > 0 || self.sampling.is_some();
    }

    /// Nothing is over any more: who waits is told why.
    pub(super) fn lose_profiles(&mut self) {
        self.profiles.noted.iter_mut().for_each(VecDeque::clear);
        self.profiles.asked.clear();
        for (_, open) in std::mem::take(&mut self.profiles.open) {
            if let Some(ended) = open.ended {
                ended.reply.send(Err(self.loss.gone.error()));
            }
        }
    }
}

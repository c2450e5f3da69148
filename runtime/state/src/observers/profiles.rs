//! Profiles: which tasks each open profile covers, and when a profile is complete.
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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{
    ClientId, ClockSource, Cursor, Error, Point, Profile, Scope, Span, StreamId,
};
use millstream_sync::reply::ReplySender;
use smallvec::SmallVec;

use super::profile_sums::ProfileSums;
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

/// The profiles of a device.
pub struct Profiles {
    /// By token; tokens are nearly in the order in which the profiles were started.
    open: BTreeMap<u64, Open>,
    /// The profiles that were ended and wait for their tasks.
    ending: Vec<u64>,
    /// The most tasks of one profile. Further tasks are not counted.
    tasks_max: u64,
}

impl Profiles {
    /// Creates profiles of at most this number of tasks each.
    pub(super) fn new(tasks_max: u64) -> Self {
        Self {
            open: BTreeMap::new(),
            ending: Vec::new(),
            tasks_max,
        }
    }

    /// Returns `true` if an ended profile waits for its tasks.
    #[inline]
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

    /// Returns the scope of a profile that was not ended.
    pub fn scope_to_end(&self, token: u64) -> Option<Scope> {
        let open = self.open.get(&token).filter(|open| open.ended.is_none())?;
        Some(open.scope.clone())
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

    /// Returns `true` if a profile may get further tasks.
    pub(super) fn may_cover(&self) -> bool {
        self.open.values().any(|open| !open.is_cut)
    }

    /// Ends all profiles because the device is lost or closed. Callers that wait receive the error `why`.
    pub fn fail_all(&mut self, why: impl Fn() -> Error) {
        self.ending.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            if let Some(ended) = open.ended {
                ended.reply.send(Err(why()));
            }
        }
    }

    /// Counts a task of these profiles that was issued at `point`.
    pub(super) fn issued(&mut self, point: Point, tokens: &Tokens) {
        for token in tokens {
            if let Some(open) = self.open.get_mut(token) {
                open.issued += 1;
                open.last.insert(point);
            }
        }
    }

    /// Adds a completed task of this name to its profiles, with its span if it has one.
    pub(super) fn completed(&mut self, name: &Arc<str>, span: Option<&Span>, tokens: &Tokens) {
        for token in tokens {
            if let Some(open) = self.open.get_mut(token) {
                let times = span.map(|span| (span.start_ns, span.end_ns));
                open.sums.add(name, times);
                if let Some(failure) = span.and_then(|span| span.failure.as_ref()) {
                    open.sums.fail(failure);
                }
            }
        }
    }
}

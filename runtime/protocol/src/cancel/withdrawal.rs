//! Withdrawal of a task that is issued and has not begun, by a device that begins its tasks itself.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use millstream_sync::timeline::Timeline;

use super::Terms;
use crate::failure::Reason;
use crate::id::Cursor;

/// The terms of one task of a queue, for the device: whether it is withdrawn is decided once, when its first cursor
/// begins. A task may have several cursors (a replay, a copy of several results), which share the decision.
///
/// ```
/// use millstream_protocol::cancel::{CancelToken, Terms, Withdrawal};
/// use millstream_protocol::failure::Reason;
/// # use std::sync::Arc;
/// let (token, timeline) = (CancelToken::new(), Arc::default());
/// let task = Withdrawal::new(Terms::of(&token), 7, 7, true);
/// assert_eq!(task.reason(7, &timeline), None);
/// token.cancel();
/// // It has begun.
/// assert_eq!(task.reason(7, &timeline), None);
/// let next = Withdrawal::new(Terms::of(&token), 8, 8, true);
/// assert_eq!(next.reason(8, &timeline), Some(Reason::Cancelled));
/// ```
#[derive(Debug)]
pub struct Withdrawal {
    terms: Terms,
    first: Cursor,
    last: Cursor,
    /// Whether the clock is read for a deadline.
    has_clock: bool,
    decision: OnceLock<Option<Reason>>,
}

impl Withdrawal {
    /// Creates the terms of the task with the cursors `first` to `last`. Without a clock a deadline that passes after the
    /// task was issued does not withdraw it.
    pub fn new(terms: Terms, first: Cursor, last: Cursor, has_clock: bool) -> Self {
        Self {
            terms,
            first,
            last,
            has_clock,
            decision: OnceLock::new(),
        }
    }

    /// Returns `true` if the cursor is one of the task's.
    #[inline]
    pub fn covers(&self, cursor: Cursor) -> bool {
        (self.first..=self.last).contains(&cursor)
    }

    /// Returns why the work at `cursor`, which is about to begin, must not run, or `None` if it may. `timeline` is that
    /// of the task's queue.
    pub fn reason(&self, cursor: Cursor, timeline: &Arc<Timeline>) -> Option<Reason> {
        if !self.covers(cursor) {
            return None;
        }
        let decide = || {
            let now = self.terms.deadline().filter(|_| self.has_clock);
            let reason = self.terms.withdrawn(now.map(|_| Instant::now()))?;
            self.terms.did_not_begin(timeline, self.first..=self.last);
            Some(reason)
        };
        self.decision.get_or_init(decide).clone()
    }
}

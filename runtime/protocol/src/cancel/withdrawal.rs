//! Withdrawal of a task that is issued and has not begun, by a device that begins its tasks itself.

use std::sync::Arc;
use std::time::Instant;

use millstream_sync::timeline::Timeline;

use super::Terms;
use crate::failure::Reason;
use crate::id::Cursor;

/// The terms of one task of a queue. A task may have several cursors (a replay, a copy of several results): whether it is
/// withdrawn is decided when its first cursor begins, for all of them.
#[derive(Clone, Debug)]
pub struct Withdrawal {
    /// The terms.
    pub terms: Arc<Terms>,
    /// The task's first cursor.
    pub first: Cursor,
    /// Its last cursor.
    pub last: Cursor,
    /// Whether the clock is read for a deadline. Otherwise a deadline that passes after the task was issued does not
    /// withdraw it.
    pub has_clock: bool,
}

/// The task of a queue that may be withdrawn when it begins, for the thread that runs the queue.
///
/// ```
/// use std::sync::Arc;
/// use millstream_protocol::{CancelToken, Terms, Withdrawal, Withdrawals};
/// use millstream_protocol::Reason;
///
/// let (token, timeline) = (CancelToken::new(), Arc::default());
/// let terms = Arc::new(Terms::of(&token));
/// let task = |first, last| Withdrawal { terms: terms.clone(), first, last, has_clock: true };
/// let mut queue = Withdrawals::default();
///
/// queue.set(task(7, 8));
/// assert_eq!(queue.reason(7, &timeline), None);
/// token.cancel();
/// assert_eq!(queue.reason(8, &timeline), None, "the task has begun");
///
/// queue.set(task(9, 9));
/// assert_eq!(queue.reason(9, &timeline), Some(Reason::Cancelled));
/// assert_eq!(queue.reason(10, &timeline), None, "a task without terms");
/// ```
#[derive(Default, Debug)]
pub struct Withdrawals {
    /// A task that has not begun, or further cursors of one that was withdrawn.
    task: Option<Withdrawal>,
}

impl Withdrawals {
    /// Sets the terms of the task that comes next.
    pub fn set(&mut self, task: Withdrawal) {
        self.task = Some(task);
    }

    /// Returns why the work at `cursor`, which is about to begin, must not run, or `None` if it may. `timeline` is that
    /// of the queue.
    #[inline]
    pub fn reason(&mut self, cursor: Cursor, timeline: &Arc<Timeline>) -> Option<Reason> {
        let task = self.task.take()?;
        let reason = task.reason(cursor, timeline)?;
        self.task = Some(task);
        Some(reason)
    }
}

impl Withdrawal {
    #[cold]
    fn reason(&self, cursor: Cursor, timeline: &Arc<Timeline>) -> Option<Reason> {
        if cursor > self.last {
            return None;
        }
        let now = self.terms.deadline().filter(|_| self.has_clock);
        let reason = self.terms.withdrawn(now.map(|_| Instant::now()))?;
        if cursor == self.first {
            self.terms.did_not_begin(timeline, self.first, self.last);
        }
        Some(reason)
    }
}

//! Vector clocks over queues. The checker has its own, because it must not trust the ones it checks.

use std::collections::BTreeMap;

use millstream_protocol::{Cursor, MAX_QUEUES, Point};

/// For every queue, the cursor up to which its tasks happen before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Clock([Cursor; MAX_QUEUES]);

impl Clock {
    pub(super) fn covers(&self, point: Point) -> bool {
        self.0
            .get(point.queue.index())
            .is_some_and(|known| *known >= point.cursor)
    }

    /// Adds everything that `other` covers.
    pub(super) fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Adds a point and all earlier points of its queue.
    pub(super) fn advance(&mut self, point: Point) {
        if let Some(mine) = self.0.get_mut(point.queue.index()) {
            *mine = (*mine).max(point.cursor);
        }
    }
}

/// What happens before the next task of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Known {
    /// Through any order: queues, waits, and publication.
    pub(super) all: Clock,
    /// Through waits alone, which is all that a runtime's own clock can know (I3).
    pub(super) waited: Clock,
}

impl Known {
    pub(super) fn join(&mut self, other: &Known) {
        self.all.join(&other.all);
        self.waited.join(&other.waited);
    }

    pub(super) fn advance(&mut self, point: Point) {
        self.all.advance(point);
        self.waited.advance(point);
    }
}

/// The clocks that the tasks of a queue were issued with, with one entry where the clock changed.
#[derive(Default, Debug)]
pub(super) struct History(BTreeMap<Cursor, Known>);

impl History {
    /// The task at `cursor` was issued with this clock.
    pub(super) fn push(&mut self, cursor: Cursor, clock: Known) {
        if self.at(cursor) != clock {
            self.0.insert(cursor, clock);
        }
    }

    /// Returns what happens before the task at `cursor`, on other queues.
    pub(super) fn at(&self, cursor: Cursor) -> Known {
        let last = self.0.range(..=cursor).next_back();
        last.map(|(_, known)| *known).unwrap_or_default()
    }

    /// Removes entries before `cursor`, which will not be read any more.
    pub(super) fn prune(&mut self, cursor: Cursor) {
        if let Some((&from, _)) = self.0.range(..=cursor).next_back() {
            self.0 = self.0.split_off(&from);
        }
    }
}

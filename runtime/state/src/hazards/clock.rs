//! Vector clocks: for each queue, the points that come before its next task anyway (I3).
//!
//! The clock of a queue holds, for every queue, the greatest cursor that is known to come before the next task. A wait
//! for a point joins two things into it: the point, and the clock that the point's queue had **when the point was
//! issued**. What that queue waited for later is not implied, so a [`QueueClock`] keeps its earlier clocks for as long
//! as a point of theirs may be waited for.
//!
//! ```text
//!  queue b                          queue c
//!  5: wait for a's 3                                    b.at(5..=8) = {a: 3}
//!  9: wait for a's 7                                    b.at(9..)   = {a: 7}
//!                                   1: wait for b's 6   joins b.at(6): c covers b's 6 and a's 3, not a's 4
//! ```

use std::collections::VecDeque;

use millstream_protocol::{Cursor, MAX_QUEUES, Point};

/// For every queue, the greatest cursor that is known to come before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Clock([Cursor; MAX_QUEUES]);

impl Clock {
    /// Returns `true` if `point` is known to come before.
    #[inline]
    pub(super) fn covers(&self, point: Point) -> bool {
        self.0[point.queue.index()] >= point.cursor
    }

    /// Adds everything that `other` covers.
    #[inline]
    fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Adds `point`.
    #[inline]
    fn advance(&mut self, point: Point) {
        let mine = &mut self.0[point.queue.index()];
        *mine = (*mine).max(point.cursor);
    }
}

/// The clock of one queue, and its earlier clocks at points that may still be waited for.
#[derive(Debug, Default)]
pub(super) struct QueueClock {
    now: Clock,
    /// The clock from this cursor on, oldest first. One entry for each change of `now`, not for each point.
    changes: VecDeque<(Cursor, Clock)>,
}

impl QueueClock {
    /// Returns `true` if `point` is known to come before everything that is issued from now on.
    #[inline]
    pub(super) fn covers(&self, point: Point) -> bool {
        self.now.covers(point)
    }

    /// Records a wait of the task with cursor `next`, the queue's next, for a point with this clock.
    pub(super) fn wait(&mut self, next: Cursor, point: Point, clock_at_point: Clock) {
        self.now.join(&clock_at_point);
        self.now.advance(point);
        match self.changes.back_mut() {
            Some((from, clock)) if *from == next => *clock = self.now,
            _ => self.changes.push_back((next, self.now)),
        }
    }

    /// Returns the clock that the queue had when `cursor` was issued.
    pub(super) fn at(&self, cursor: Cursor) -> Clock {
        let after = self.changes.partition_point(|(from, _)| *from <= cursor);
        match after.checked_sub(1) {
            Some(index) => self.changes[index].1,
            None => Clock::default(),
        }
    }

    /// Removes the clocks of points up to `completed`: these have passed, so no queue will wait for them. The last
    /// clock at or before `completed` stays, since it is in force for the cursors that follow.
    pub(super) fn prune(&mut self, completed: Cursor) {
        while self.changes.len() > 1 && self.changes[1].0 <= completed {
            self.changes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::QueueId;

    use super::*;

    const A: QueueId = QueueId(0);
    const B: QueueId = QueueId(1);

    #[test]
    fn wait_joins_the_clock_of_the_point_and_nothing_later_i3() {
        let (mut b, mut c) = (QueueClock::default(), QueueClock::default());
        b.wait(5, Point::new(A, 3), Clock::default());
        b.wait(9, Point::new(A, 7), Clock::default());
        c.wait(1, Point::new(B, 6), b.at(6));
        assert!(c.covers(Point::new(B, 6)) && c.covers(Point::new(A, 3)));
        assert!(
            !c.covers(Point::new(A, 4)) && !c.covers(Point::new(B, 7)),
            "the clock of the point does not cover what came after it (I3)"
        );
    }

    #[test]
    fn prune_keeps_the_clock_in_force() {
        let mut b = QueueClock::default();
        for step in 1..=10 {
            b.wait(step * 10, Point::new(A, step), Clock::default());
        }
        b.prune(55);
        assert_eq!(b.changes.len(), 6);
        assert!(b.at(57).covers(Point::new(A, 5)) && !b.at(57).covers(Point::new(A, 6)));
    }
}

//! What each queue is known to come after.
//!
//! A queue's clock holds, for every queue, the greatest cursor that it has waited for, with all that
//! the wait implied. A recorded point keeps the clock its queue had **at that moment**, so that
//! waiting on it brings in what it had waited for and nothing later (I3).

use std::collections::VecDeque;

use millstream_protocol::id::{Cursor, MAX_QUEUES, Point};

/// For every queue, a cursor that is known to come before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock([Cursor; MAX_QUEUES]);

impl Clock {
    /// Is `point` known to come before?
    #[inline]
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.0[point.queue.index()] >= point.cursor
    }

    /// Takes in everything that `other` covers.
    #[inline]
    pub(crate) fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Takes in `point` itself.
    #[inline]
    pub(crate) fn advance(&mut self, point: Point) {
        let mine = &mut self.0[point.queue.index()];
        *mine = (*mine).max(point.cursor);
    }
}

/// The clock of one queue, and the clocks it had at the points that may still be waited for.
#[derive(Debug, Default)]
pub(crate) struct QueueClock {
    now: Clock,
    /// The clock from this cursor on, oldest first: an entry per change of `now`, not per point.
    changes: VecDeque<(Cursor, Clock)>,
}

impl QueueClock {
    /// Is `point` implied for what is issued from now on?
    #[inline]
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.now.covers(point)
    }

    /// The queue, whose next task has cursor `next`, waits for a point with this clock.
    pub(crate) fn wait(&mut self, next: Cursor, point: Point, clock_at_point: Clock) {
        self.now.join(&clock_at_point);
        self.now.advance(point);
        match self.changes.back_mut() {
            Some((from, clock)) if *from == next => *clock = self.now,
            _ => self.changes.push_back((next, self.now)),
        }
    }

    /// The clock that the queue had when `cursor` was issued.
    pub(crate) fn at(&self, cursor: Cursor) -> Clock {
        let after = self.changes.partition_point(|(from, _)| *from <= cursor);
        match after.checked_sub(1) {
            Some(index) => self.changes[index].1,
            None => Clock::default(),
        }
    }

    /// Everything up to `completed` has passed: nobody will wait for it, its clocks can go. The last
    /// one at or before `completed` stays, it holds for what follows.
    pub(crate) fn prune(&mut self, completed: Cursor) {
        while self.changes.len() > 1 && self.changes[1].0 <= completed {
            self.changes.pop_front();
        }
    }

    /// Clocks that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.changes.len()
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::id::QueueId;

    use super::*;

    const A: QueueId = QueueId(0);
    const B: QueueId = QueueId(1);

    #[test]
    fn a_wait_brings_in_what_the_point_had_waited_for_and_nothing_later() {
        let (mut b, mut c) = (QueueClock::default(), QueueClock::default());
        b.wait(5, Point::new(A, 3), Clock::default());
        b.wait(9, Point::new(A, 7), Clock::default());
        c.wait(1, Point::new(B, 6), b.at(6));
        assert!(c.covers(Point::new(B, 6)) && c.covers(Point::new(A, 3)));
        assert!(
            !c.covers(Point::new(A, 4)) && !c.covers(Point::new(B, 7)),
            "what came after the point is not implied (I3)"
        );
    }

    #[test]
    fn pruning_keeps_the_clock_that_still_holds() {
        let mut b = QueueClock::default();
        for step in 1..=10 {
            b.wait(step * 10, Point::new(A, step), Clock::default());
        }
        b.prune(55);
        assert_eq!(b.kept(), 6);
        assert!(b.at(57).covers(Point::new(A, 5)) && !b.at(57).covers(Point::new(A, 6)));
    }
}

//! Happens-before between tasks: the queues' clocks, what was flushed, and what the host has been able to see.
//!
//! A task comes after another if they share a queue, if it waited for the other, or if the host could see the other's
//! cursor published before it issued the task. A wait adds the clock that **the task at the awaited point** was
//! issued with, and nothing that its queue waited for later.

use millstream_protocol::{Cursor, Point, QueueId};

use super::Violation;
use super::accesses::{Clock, History, Known};

/// Counts of waits, and of needless ones (I3).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waits {
    /// Waits that were issued.
    pub issued: u64,
    /// Waits for a point that earlier waits of the queue already cover, or that another wait of the same task covers.
    pub implied: u64,
    /// Waits for a point that was published when the wait was issued. On a device that is not driven it may have been
    /// published a moment before.
    pub passed: u64,
}

impl Waits {
    /// Returns the sums of both.
    pub(crate) fn plus(self, more: Self) -> Self {
        Self {
            issued: self.issued + more.issued,
            implied: self.implied + more.implied,
            passed: self.passed + more.passed,
        }
    }
}

#[derive(Default)]
struct Lane {
    issued: Cursor,
    flushed: Cursor,
    published: Cursor,
    now: Known,
    history: History,
    /// Waits since the last task.
    waits: Vec<Point>,
}

/// The order of everything that was issued.
pub(super) struct Order {
    lanes: Vec<Lane>,
    /// What the host has been able to see, and everything that happens before that.
    host: Clock,
    pub(super) waits: Waits,
}

impl Order {
    pub(super) fn new(queues: usize) -> Self {
        Self {
            lanes: std::iter::repeat_with(Lane::default).take(queues).collect(),
            host: Clock::default(),
            waits: Waits::default(),
        }
    }

    fn lane(&mut self, queue: QueueId) -> Option<&mut Lane> {
        self.lanes.get_mut(queue.index())
    }

    /// Returns `true` if `point` happens before the task that was issued last on `queue`.
    pub(super) fn is_before(&self, point: Point, queue: QueueId) -> bool {
        let lane = self.lanes.get(queue.index());
        point.queue == queue || lane.is_some_and(|lane| lane.now.all.covers(point))
    }

    /// Returns `true` if the host has been able to see that `point` passed.
    pub(super) fn is_seen(&self, point: Point) -> bool {
        self.host.covers(point)
    }

    pub(super) fn issue(&mut self, point: Point) -> Option<Violation> {
        let host = self.host;
        let lane = self.lane(point.queue)?;
        let issued = lane.issued;
        lane.now.all.join(&host);
        lane.issued = issued.max(point.cursor);
        lane.waits.clear();
        lane.history.push(point.cursor, lane.now);
        match point.cursor > issued {
            true => None,
            false => Some(Violation::CursorNotNext { point, issued }),
        }
    }

    pub(super) fn flush(&mut self, point: Point) -> Option<Violation> {
        let lane = self.lane(point.queue)?;
        let (issued, flushed) = (lane.issued, lane.flushed);
        lane.flushed = flushed.max(point.cursor);
        match flushed < point.cursor && point.cursor <= issued {
            true => None,
            false => Some(Violation::FlushOutOfOrder {
                point,
                issued,
                flushed,
            }),
        }
    }

    /// From now on the host can see that `point` has passed.
    pub(super) fn publish(&mut self, point: Point) {
        let Some(lane) = self.lane(point.queue) else {
            return;
        };
        let before = lane.history.at(point.cursor);
        lane.history.prune(point.cursor);
        lane.published = lane.published.max(point.cursor);
        self.host.join(&before.all);
        self.host.advance(point);
    }

    pub(super) fn wait(&mut self, queue: QueueId, point: Point) -> Option<Violation> {
        self.waits.issued += 1;
        if point.queue == queue {
            return Some(Violation::WaitForSelf { point });
        }
        let host = self.host;
        let other = self.lanes.get(point.queue.index())?;
        let (flushed, passed) = (other.flushed, other.published >= point.cursor);
        let mut known = other.history.at(point.cursor);
        if passed {
            // The host also knows everything that happened before a published point.
            known.all.join(&host);
        }
        known.advance(point);
        let lane = self.lane(queue)?;
        // A later wait that covers an earlier one of the same task makes the earlier one needless.
        let brings_in = |earlier: &Point| known.waited.covers(*earlier);
        let implied = lane.now.waited.covers(point) || lane.waits.iter().any(brings_in);
        lane.now.join(&known);
        lane.waits.push(point);
        self.waits.implied += u64::from(implied);
        self.waits.passed += u64::from(passed);
        match point.cursor <= flushed {
            true => None,
            false => Some(Violation::WaitUnflushed {
                queue,
                point,
                flushed,
            }),
        }
    }
}

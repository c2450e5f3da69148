//! What is on its way to be dropped: slots whose messages the mailbox has not passed, slices that held tasks use, and slots whose
//! memory is used still.

use std::collections::VecDeque;

use millstream_protocol::id::{Cursor, Point, QueueId};

use crate::points::Points;

/// A slot of a freed slice that may be recycled once its last uses have passed.
pub(super) struct Retiring {
    pub(super) slot: u32,
    /// Its use on this queue.
    pub(super) cursor: Cursor,
    /// Its uses on other queues.
    pub(super) others: Points,
    /// When it was dropped, if latencies are sampled; else 0.
    pub(super) since_ns: u64,
}

/// Those of one queue, by the cursor that they wait for.
#[derive(Default)]
struct RetiringSlots {
    slots: VecDeque<Retiring>,
    /// The GC actor was told to watch for this cursor.
    watched: Cursor,
}

/// What is on its way to be dropped.
pub(super) struct DeferredDrops {
    /// Messages admitted: the position up to which drops can be honoured.
    messages: u64,
    /// Drops that the mailbox has not passed yet: slot and stamp.
    pending: VecDeque<(u32, u64)>,
    /// Dropped slices that streams still hold tasks on.
    in_use: usize,
    retiring: Vec<RetiringSlots>,
}

impl DeferredDrops {
    /// Nothing, on so many queues.
    pub(super) fn new(queues: usize) -> Self {
        Self {
            messages: 0,
            pending: VecDeque::new(),
            in_use: 0,
            retiring: (0..queues).map(|_| RetiringSlots::default()).collect(),
        }
    }

    /// One more message was admitted.
    #[inline(always)]
    pub(super) fn pass(&mut self) {
        self.messages += 1;
    }

    /// The position in the mailbox of the message that is being admitted.
    pub(super) fn position(&self) -> u64 {
        self.messages
    }

    /// Has the mailbox passed every message that could name what was dropped at this stamp, and all that was dropped before?
    pub(super) fn is_due(&self, stamp: u64) -> bool {
        stamp <= self.messages && self.pending.is_empty()
    }

    /// The mailbox has not passed what may name a dropped slot.
    pub(super) fn defer(&mut self, slot: u32, stamp: u64) {
        self.pending.push_back((slot, stamp));
    }

    /// The next of those that the mailbox has passed by now.
    pub(super) fn next_due(&mut self) -> Option<u32> {
        let (slot, stamp) = self.pending.front().copied()?;
        if stamp > self.messages {
            return None;
        }
        self.pending.pop_front();
        Some(slot)
    }

    /// Are there any that the mailbox has not passed?
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// How many those are.
    pub(super) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// A slice was dropped that streams hold tasks on.
    pub(super) fn add_held_slice(&mut self) {
        self.in_use += 1;
    }

    /// The last of these tasks was issued.
    pub(super) fn remove_held_slice(&mut self) {
        self.in_use -= 1;
    }

    /// Dropped slices that streams hold tasks on.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// A slot waits for its last uses, of which the one on this queue is the next.
    pub(super) fn retire(&mut self, retiring: Retiring, queue: QueueId) {
        // Nearly sorted by cursor: frees follow issues. Sorted, so that only the front is looked at.
        let list = &mut self.retiring[queue.index()].slots;
        let at = list.partition_point(|other| other.cursor <= retiring.cursor);
        list.insert(at, retiring);
    }

    /// A slot whose last uses have passed, and since when it has waited.
    pub(super) fn next_retired(&mut self, passed: impl Fn(Point) -> bool) -> Option<(u32, u64)> {
        for index in 0..self.retiring.len() {
            let queue = QueueId(index as u8);
            while let Some(first) = self.retiring[index].slots.front()
                && passed(Point::new(queue, first.cursor))
            {
                let mut retiring = self.retiring[index].slots.pop_front()?;
                let next = retiring.others.iter().find(|point| !passed(*point));
                match next {
                    None => return Some((retiring.slot, retiring.since_ns)),
                    Some(point) => {
                        retiring.cursor = point.cursor;
                        self.retire(retiring, point.queue);
                    }
                }
            }
        }
        None
    }

    /// The slots that wait.
    pub(super) fn retiring(&self) -> impl Iterator<Item = &Retiring> {
        self.retiring.iter().flat_map(|queue| &queue.slots)
    }

    /// The last cursor of a queue that a slot waits for, or `busy` memory, if that has not passed and nobody watches for it. It is
    /// watched for from here on.
    pub(super) fn next_watch(
        &mut self,
        queue: QueueId,
        busy: Option<Cursor>,
        completed: Cursor,
    ) -> Option<Cursor> {
        let state = &mut self.retiring[queue.index()];
        let last = state.slots.back().map(|retiring| retiring.cursor);
        let cursor = last.max(busy).filter(|cursor| *cursor > completed)?;
        let is_new = state.watched < cursor;
        state.watched = state.watched.max(cursor);
        is_new.then_some(cursor)
    }

    /// The device is lost: no use will pass.
    pub(super) fn lose(&mut self) {
        for queue in &mut self.retiring {
            queue.slots.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(queue: u8, cursor: u64) -> Point {
        Point::new(QueueId(queue), cursor)
    }

    fn retiring(slot: u32, cursor: u64, others: &[Point]) -> Retiring {
        Retiring {
            slot,
            cursor,
            others: others.iter().copied().collect(),
            since_ns: 0,
        }
    }

    /// I4: a slot is not used again before its last use on any queue.
    #[test]
    fn slot_waits_for_its_uses_on_every_queue_i4() {
        let mut drops = DeferredDrops::new(2);
        drops.retire(retiring(1, 5, &[at(1, 3)]), QueueId(0));
        drops.retire(retiring(2, 4, &[]), QueueId(0));
        let passed = |first: u64, second: u64| {
            move |point: Point| point.cursor <= [first, second][point.queue.index()]
        };
        assert_eq!(drops.next_retired(passed(4, 9)), Some((2, 0)));
        assert_eq!(drops.next_retired(passed(5, 2)), None);
        assert_eq!(drops.retiring().count(), 1);
        assert_eq!(drops.next_retired(passed(5, 3)), Some((1, 0)));
    }

    #[test]
    fn drops_are_due_in_their_order() {
        let mut drops = DeferredDrops::new(1);
        assert!(drops.is_due(0) && !drops.is_due(1));
        drops.defer(7, 2);
        assert!(!drops.is_due(0), "an earlier one goes first");
        drops.pass();
        assert_eq!(drops.next_due(), None);
        drops.pass();
        assert_eq!((drops.next_due(), drops.has_pending()), (Some(7), false));
    }

    #[test]
    fn each_cursor_is_watched_for_once() {
        let mut drops = DeferredDrops::new(1);
        drops.retire(retiring(1, 5, &[]), QueueId(0));
        assert_eq!(drops.next_watch(QueueId(0), Some(3), 1), Some(5));
        assert_eq!(drops.next_watch(QueueId(0), Some(3), 1), None);
        assert_eq!(drops.next_watch(QueueId(0), Some(8), 1), Some(8));
        assert_eq!(drops.next_watch(QueueId(0), None, 9), None);
    }
}

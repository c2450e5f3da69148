//! Deferred drops: slots whose messages the mailbox has not passed, slices that held tasks name, and slots whose memory
//! is still in use.
//!
//! ```text
//!  dropped, stamped ──► pending ──► due ──► held tasks name the slice ──► retiring ──► recycled
//!                       the mailbox         until they are issued         until its last uses
//!                       passes the stamp                                  have passed (I4)
//! ```

use std::collections::VecDeque;

use millstream_protocol::id::{Cursor, Point, QueueId};

use crate::points::Points;

/// A slot of a freed slice, which may be recycled once its last uses have passed.
pub(super) struct Retiring {
    pub(super) slot: u32,
    /// Its last use on this queue.
    pub(super) cursor: Cursor,
    /// Its last uses on other queues.
    pub(super) others: Points,
    /// When it was dropped, if latencies are sampled; else 0.
    pub(super) since_ns: u64,
}

/// The retiring slots of one queue, by the cursor that they wait for.
#[derive(Default)]
struct RetiringSlots {
    slots: VecDeque<Retiring>,
    /// The greatest cursor that the GC actor was requested to watch.
    watched: Cursor,
}

/// The deferred drops of a device.
pub(super) struct DeferredDrops {
    /// The number of admitted messages: drops with stamps up to this are due.
    messages: u64,
    /// Drops that the mailbox has not passed: slot and stamp.
    pending: VecDeque<(u32, u64)>,
    /// The number of dropped slices that held tasks name.
    held_slices: usize,
    retiring: Vec<RetiringSlots>,
}

impl DeferredDrops {
    /// Creates deferred drops for this number of queues.
    pub(super) fn new(queues: usize) -> Self {
        Self {
            messages: 0,
            pending: VecDeque::new(),
            held_slices: 0,
            retiring: (0..queues).map(|_| RetiringSlots::default()).collect(),
        }
    }

    /// Counts an admitted message.
    #[inline(always)]
    pub(super) fn pass(&mut self) {
        self.messages += 1;
    }

    /// Returns the mailbox position of the message that is being admitted.
    pub(super) fn position(&self) -> u64 {
        self.messages
    }

    /// Returns `true` if a drop with this stamp is due: the mailbox has passed every message that may name the slot,
    /// and no earlier drop is pending.
    pub(super) fn is_due(&self, stamp: u64) -> bool {
        stamp <= self.messages && self.pending.is_empty()
    }

    /// Defers the drop of a slot until the mailbox has passed `stamp`.
    pub(super) fn defer(&mut self, slot: u32, stamp: u64) {
        self.pending.push_back((slot, stamp));
    }

    /// Returns the next pending drop that is due.
    pub(super) fn next_due(&mut self) -> Option<u32> {
        let (slot, stamp) = self.pending.front().copied()?;
        if stamp > self.messages {
            return None;
        }
        self.pending.pop_front();
        Some(slot)
    }

    /// Returns `true` if a pending drop is due.
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        let first = self.pending.front();
        first.is_some_and(|(_, stamp)| *stamp <= self.messages)
    }

    /// Returns `true` if a drop is pending.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the number of pending drops.
    pub(super) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Counts a dropped slice that held tasks name.
    pub(super) fn add_held_slice(&mut self) {
        self.held_slices += 1;
    }

    /// Counts one less: the last held task that names such a slice was issued.
    pub(super) fn remove_held_slice(&mut self) {
        self.held_slices -= 1;
    }

    /// Returns the number of dropped slices that held tasks name.
    pub(super) fn held_slices(&self) -> usize {
        self.held_slices
    }

    /// Adds a slot that waits for its last uses, the first of which is on `queue`.
    pub(super) fn retire(&mut self, retiring: Retiring, queue: QueueId) {
        // Slots come nearly sorted by cursor, since frees follow issues. The list is kept sorted, so that only its
        // front is read.
        let list = &mut self.retiring[queue.index()].slots;
        let at = list.partition_point(|other| other.cursor <= retiring.cursor);
        list.insert(at, retiring);
    }

    /// Returns a slot whose last uses have passed, and since when it has waited.
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

    /// Iterates over the slots that wait.
    pub(super) fn retiring(&self) -> impl Iterator<Item = &Retiring> {
        self.retiring.iter().flat_map(|queue| &queue.slots)
    }

    /// Returns the last cursor of a queue that a slot or `busy` memory waits for, if it has not passed and is not
    /// watched. It counts as watched from here on.
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

    /// Removes all waiting slots: the device is lost, so no use will pass.
    pub(super) fn clear(&mut self) {
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

    /// I4: a slot is not recycled before its last use on each queue.
    #[test]
    fn slot_is_recycled_after_its_last_use_on_each_queue_i4() {
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
    fn drop_is_due_only_after_earlier_drops() {
        let mut drops = DeferredDrops::new(1);
        assert!(drops.is_due(0) && !drops.is_due(1));
        drops.defer(7, 2);
        assert!(!drops.is_due(0), "an earlier drop is pending");
        drops.pass();
        assert_eq!(drops.next_due(), None);
        drops.pass();
        assert_eq!((drops.next_due(), drops.has_pending()), (Some(7), false));
    }

    #[test]
    fn cursor_is_watched_once() {
        let mut drops = DeferredDrops::new(1);
        drops.retire(retiring(1, 5, &[]), QueueId(0));
        assert_eq!(drops.next_watch(QueueId(0), Some(3), 1), Some(5));
        assert_eq!(drops.next_watch(QueueId(0), Some(3), 1), None);
        assert_eq!(drops.next_watch(QueueId(0), Some(8), 1), Some(8));
        assert_eq!(drops.next_watch(QueueId(0), None, 9), None);
    }
}

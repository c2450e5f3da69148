//! Deferred drops: slots whose messages the mailbox has not passed, slices that held tasks name, and slots whose memory
//! is still in use.
//!
//! ```text
//!  dropped, stamped ──► pending ──► due ──► held tasks name the slice ──► retiring ──► recycled
//!                       the mailbox         until they are issued         until its last uses
//!                       passes the stamp                                  have passed (I4)
//! ```

use std::collections::VecDeque;

use millstream_protocol::{Cursor, MAX_QUEUES, QueueId};

use millstream_state::pending::Pending;
use millstream_state::points::Points;

/// A slot of a freed slice, which may be recycled once its last uses have passed.
pub(super) struct Retiring {
    pub(super) slot: u32,
    /// When it was dropped, if latencies are sampled; else 0.
    pub(super) since_ns: u64,
}

/// The deferred drops of a device.
#[derive(Default)]
pub(super) struct DeferredDrops {
    /// The number of admitted messages: drops with stamps up to this are due.
    messages: u64,
    /// Drops that the mailbox has not passed: slot and stamp.
    pending: VecDeque<(u32, u64)>,
    /// The number of values of users that were given up, to be dropped on another thread.
    pub(super) values: u64,
    /// The number of dropped slices that held tasks name.
    pub(super) held_slices: usize,
    pub(super) retiring: Pending<Retiring>,
    /// For each queue, the last use of any slot that was retired.
    last_uses: [Cursor; MAX_QUEUES],
}

impl DeferredDrops {
    /// Counts an admitted message.
    #[inline]
    pub(super) fn message_admitted(&mut self) {
        self.messages += 1;
    }

    /// Returns the number of admitted messages, which is the position of the message that is being admitted.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Adds a drop that is not due.
    pub(super) fn defer(&mut self, slot: u32, stamp: u64) {
        self.pending.push_back((slot, stamp));
    }

    /// Returns the number of pending drops.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns `true` if a drop with this stamp is due: the mailbox has passed every message that may name the slot,
    /// and no earlier drop is pending.
    pub(super) fn is_due(&self, stamp: u64) -> bool {
        stamp <= self.messages && self.pending.is_empty()
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

    /// Adds a slot that waits for its last uses, of which there is at least one.
    pub(super) fn retire(&mut self, retiring: Retiring, mut uses: Points) {
        for last in uses.iter() {
            let cursor = &mut self.last_uses[last.queue.index()];
            *cursor = last.cursor.max(*cursor);
        }
        if let Some(home) = uses.pop() {
            self.retiring.push(retiring, home, uses);
        }
    }

    /// Returns the last cursor of a queue that a slot and its memory wait for, or have waited for.
    pub(super) fn last_use(&self, queue: QueueId) -> Cursor {
        self.last_uses[queue.index()]
    }

    /// Forgets the slots that wait: their last uses will not pass.
    pub(super) fn end(&mut self) {
        (self.retiring, self.last_uses) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_is_due_only_after_earlier_drops() {
        let mut drops = DeferredDrops::default();
        assert!(drops.is_due(0) && !drops.is_due(1));
        drops.defer(7, 2);
        assert!(!drops.is_due(0), "an earlier drop is pending");
        drops.message_admitted();
        assert_eq!(drops.next_due(), None);
        drops.message_admitted();
        assert_eq!((drops.next_due(), drops.pending()), (Some(7), 0));
    }
}

//! The end of objects: the last handle of a slot is dropped, the last task that names it is issued, the last use of its
//! memory passes, and the slot is recycled.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use millstream_protocol::{Backend, Cursor, DeferredDrop, MAX_QUEUES, Point, QueueId, Table};
use millstream_state::hazards::{Backing, Removed};
use millstream_state::objects::{Kind, Object};
use millstream_state::observers::meter::NOT_FOLLOWED;
use millstream_state::pending::Pending;
use millstream_state::points::Points;

use super::{Effect, Handover, Server};

/// The most drops that a turn processes. A drop takes about 0.3 us.
const DROPS_PER_CALL: usize = 512;

impl<B: Backend> Server<B> {
    /// Counts one held task less that names this slice, and frees the slice if it is dropped and that was the last one.
    #[inline]
    pub(super) fn release_slice(&mut self, key: u32) {
        if self.hazards.release(key) {
            self.drops.held_slices -= 1;
            if let Backing::Reserved(reservation) = &self.hazards.slice(key).backing {
                self.memory.slice_not_held(reservation);
            }
            self.free_slice(key);
        }
    }

    /// Returns `true` if there is work for [`Server::process_drops`]. Costs only loads.
    #[inline]
    pub fn has_drops(&self) -> bool {
        self.table.has_dropped() || self.table.sink().has_rung() || self.drops.has_due()
    }

    /// Processes drops that the mailbox has passed: every task that could name them was admitted. A call processes at
    /// most 512, so that a turn is short; then [`Server::has_drops`] is `true`. If the table's bell has
    /// rung because a token was cancelled, also notes that.
    pub fn process_drops(&mut self) {
        self.process_drops_up_to(DROPS_PER_CALL);
    }

    /// Processes all drops that the mailbox has passed, for a caller that must observe its own.
    pub(super) fn process_all_drops(&mut self) {
        self.process_drops_up_to(usize::MAX);
    }

    fn process_drops_up_to(&mut self, mut left: usize) {
        if self.table.sink().take_ring() && self.table.sink().take_cancel() {
            self.withdrawals.note_cancel();
        }
        while left > 0
            && let Some(slot) = self.drops.next_due()
        {
            self.honour_drop(slot);
            left -= 1;
        }
        if !self.table.has_dropped() {
            return;
        }
        let table = self.table.clone();
        table.take_dropped(|slot, stamp| {
            if left > 0 && self.drops.is_due(stamp) {
                self.honour_drop(slot);
                left -= 1;
            } else {
                self.drops.defer(slot, stamp);
            }
        });
    }

    /// Processes the drop of `slot`: the mailbox has passed every message that could name it. An object that held tasks
    /// name stays linked until these are issued.
    fn honour_drop(&mut self, slot: u32) {
        let object = self.objects.at(slot);
        // A log has no clients, and nothing of an object whose registration was refused.
        let is_logged = match object {
            None => false,
            Some((Kind::Object, key)) => !self.objects.is_client(key),
            Some(_) => true,
        };
        if is_logged && let Some(log) = self.device.log() {
            log.note_dropped(slot);
        }
        match object {
            Some((Kind::Slice, key)) => {
                if self.hazards.drop_slice(key) {
                    self.free_slice(key);
                } else {
                    self.drops.held_slices += 1;
                    let now_ns = self.observers.meter.now_ns();
                    if now_ns != NOT_FOLLOWED {
                        self.drops.held_since.insert(key, now_ns);
                    }
                    if let Backing::Reserved(reservation) = &self.hazards.slice(key).backing {
                        self.memory.slice_dropped(reservation);
                    }
                }
            }
            Some((Kind::Object, key)) => {
                let unreferenced = self.objects.drop_object(key);
                self.remove_object(unreferenced);
            }
            Some((Kind::Stream, key)) => {
                self.scheduler.mark_dropped(key);
                self.remove_stream_if_done(key);
            }
            // An object whose registration was refused, or that was lost with the device. A slice among these has been
            // charged.
            None => {
                if let Some(shared) = self.table.slot(slot) {
                    shared.payload().charge.clear();
                }
                self.table.recycle(slot);
            }
        }
    }

    /// Removes an object without references, and recycles its slot. A kernel or recording is dropped on another thread,
    /// once no task runs it: the code of a kernel may be user code.
    pub(super) fn remove_object(&mut self, unreferenced: Option<(u32, Object)>) {
        let Some((slot, object)) = unreferenced else {
            return;
        };
        match object {
            Object::Client(client) => self.memory.accounts.close(client),
            object => self.collect(Box::new(object)),
        }
        self.table.recycle(slot);
    }

    /// Drops `value` once everything that was issued so far has passed.
    fn collect(&mut self, value: Box<dyn Any + Send>) {
        let after = self.scheduler.last_points().collect();
        self.collect_after(value, after);
    }

    /// Drops `value` on another thread once these points have passed.
    pub(super) fn collect_after(&mut self, value: Box<dyn Any + Send>, after: Points) {
        self.drops.values += 1;
        self.effects.push_back(Effect::HandOver(Handover {
            after,
            value: DeferredDrop::new(value, &self.table),
            since_ns: self.observers.meter.now_ns(),
        }));
    }

    /// Drops a value of a user on another thread. No task uses it.
    pub fn drop_elsewhere(&mut self, value: Box<dyn Any + Send>) {
        self.collect_after(value, Points::default());
    }

    /// Removes a dropped stream that holds no task.
    pub(super) fn remove_stream_if_done(&mut self, key: u32) {
        let Some(stream) = self.scheduler.remove_if_done(key) else {
            return;
        };
        let accounts = &mut self.memory.accounts;
        accounts.stream_removed(stream.client, stream.issued());
        self.objects.unlink(stream.id.index());
        self.table.recycle(stream.id.index());
    }

    /// Frees a slice: its range returns to the pool with the points that still use it, and its slot is recycled once
    /// these have passed.
    pub(super) fn free_slice(&mut self, key: u32) {
        let scheduler = &self.scheduler;
        let Removed {
            id,
            client,
            backing,
            busy,
        } = self
            .hazards
            .remove(key, |point| scheduler.has_passed(point));
        let slot = id.index();
        self.objects.unlink(slot);
        if let Backing::Reserved(reservation) = backing {
            self.device.backend.slice_released(id);
            self.log_memory("freed", reservation.bytes);
            self.memory.release(client, reservation, busy.clone());
        }
        let held_since = self.drops.held_since.remove(&key);
        if busy.is_empty() {
            self.observers
                .slice_waited(held_since.unwrap_or(NOT_FOLLOWED));
            return recycle_slice_slot(&self.table, slot);
        }
        let since_ns = held_since.unwrap_or_else(|| self.observers.meter.now_ns());
        self.drops.retire(Retiring { slot, since_ns }, busy);
    }

    /// Recycles the slots whose last uses have passed.
    pub(super) fn retire_passed(&mut self) {
        let scheduler = &self.scheduler;
        let passed = |point: Point| scheduler.has_passed(point);
        for queue in scheduler.queue_ids() {
            while let Some(retiring) = self.drops.retiring.pop_passed(queue, passed) {
                self.observers.slice_waited(retiring.since_ns);
                recycle_slice_slot(&self.table, retiring.slot);
            }
        }
    }
}

/// Recycles the slot of a slice. The last task that could poison it has completed.
fn recycle_slice_slot(table: &Table, slot: u32) {
    if let Some(shared) = table.slot(slot) {
        shared.payload().poison.reset();
        shared.payload().charge.clear();
    }
    table.recycle(slot);
}

// Deferred drops: slots whose messages the mailbox has not passed, slices that held tasks name, and slots whose memory
// is still in use.
//
// ```text
// dropped, stamped ──► pending ──► due ──► held tasks name the slice ──► retiring ──► recycled
// the mailbox         until they are issued         until its last uses
// passes the stamp                                  have passed (I4)
// ```

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
    /// When each slice was dropped on which a stream held a task then, if latencies are sampled.
    held_since: BTreeMap<u32, u64>,
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
        (self.retiring, self.held_since, self.last_uses) = Default::default();
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

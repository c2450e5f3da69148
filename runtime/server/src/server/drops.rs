//! How things go: the last handle of a slot is dropped, the last task that names it is issued, the last use of its
//! memory passes, and the slot is somebody else's.

use std::any::Any;

use millstream_protocol::backend::Backend;
use millstream_protocol::id::Point;
use millstream_protocol::leaving::Leaving;
use millstream_protocol::table::Table;
use smallvec::SmallVec;

use super::dropping::Retiring;
use super::{Effect, Server};
use crate::hazards::Backing;
use crate::objects::Gone;
use crate::objects::links::Kind;
use crate::points::Points;

impl<B: Backend> Server<B> {
    /// Streams hold one task less that names this slice.
    #[inline]
    pub(super) fn release_slice(&mut self, key: u32) {
        if self.hazards.release(key) {
            self.drops.leaves_use();
            self.free_slice(key);
        }
    }

    /// Is there anything for [`Server::honour_drops`]? Only loads.
    #[inline]
    pub fn has_drops(&self) -> bool {
        self.table.has_dropped() || self.table.sink().has_rung()
    }

    /// Honours the drops that the mailbox has passed: every task that could name them was admitted. Hears who has rung, as well.
    pub fn honour_drops(&mut self) {
        if self.table.sink().take_ring() {
            self.askers.note_cancel();
        }
        while let Some(slot) = self.drops.next_due() {
            self.honour_drop(slot);
        }
        if !self.table.has_dropped() {
            return;
        }
        let table = self.table.clone();
        table.take_dropped(|slot, stamp| {
            if self.drops.is_due(stamp) {
                self.honour_drop(slot);
            } else {
                self.drops.comes_early(slot, stamp);
            }
        });
    }

    /// The last handle of `slot` is gone, and so is every message that could name it. What streams
    /// still hold tasks on stays linked until those are issued.
    fn honour_drop(&mut self, slot: u32) {
        if let Some(log) = self.device.log() {
            log.note_dropped(slot);
        }
        match self.objects.at(slot) {
            Some((Kind::Slice, key)) => {
                let observers = &self.observers;
                if self.hazards.drop_slice(key, || observers.now_ns()) {
                    self.free_slice(key);
                } else {
                    self.drops.enters_use();
                }
            }
            Some((Kind::Kernel, key)) => {
                let gone = self.objects.drop_kernel(key);
                self.remove_object(gone);
            }
            Some((Kind::Recording, key)) => {
                let gone = self.objects.drop_recording(key);
                self.remove_object(gone);
            }
            Some((Kind::Stream, key)) => {
                self.scheduler.mark_dropped(key);
                self.remove_stream_if_done(key);
            }
            Some((Kind::Client, key)) => {
                let client = self.objects.remove_client(slot, key);
                self.memory.accounts_mut().close(client);
                self.table.recycle(slot);
            }
            // A thing whose registration was refused, or that was lost with the device: a slice among these has been charged.
            None => {
                if let Some(shared) = self.table.slot(slot) {
                    shared.payload().charge.clear();
                }
                self.table.recycle(slot);
            }
        }
    }

    /// A kernel or a recording that nothing names is dropped off the device thread, once nothing runs it: a kernel's code may be user
    /// code.
    pub(super) fn remove_object(&mut self, gone: Option<Gone>) {
        match gone {
            None => {}
            Some(Gone::Kernel(prepared)) => {
                let slot = prepared.slot();
                self.collect(Box::new((prepared.kernel, prepared.code)));
                self.table.recycle(slot);
            }
            Some(Gone::Recording(stored)) => {
                let slot = stored.id.index();
                self.collect(Box::new((stored.plan, stored.prepared)));
                self.table.recycle(slot);
            }
        }
    }

    /// Drops `value` once everything that was issued so far has passed.
    fn collect(&mut self, value: Box<dyn Any + Send>) {
        let mut after = Points::default();
        after.extend(self.scheduler.last_points());
        self.collect_after(value, after);
    }

    /// Drops `value` on another thread once these points have passed.
    pub(super) fn collect_after(&mut self, value: Box<dyn Any + Send>, after: Points) {
        let value = Leaving::new(value, &self.table);
        self.effects.push(Effect::Collect { value, after });
    }

    /// A dropped stream that holds nothing is gone.
    pub(super) fn remove_stream_if_done(&mut self, key: u32) {
        let Some(stream) = self.scheduler.remove_if_done(key) else {
            return;
        };
        let accounts = self.memory.accounts_mut();
        accounts.stream_is_gone(stream.client, stream.issued);
        self.objects.unlink(stream.id.index());
        self.table.recycle(stream.id.index());
    }

    /// Gives a slice's range back to the pool, with the points that still use it, and its slot once
    /// those have passed.
    pub(super) fn free_slice(&mut self, key: u32) {
        let scheduler = &self.scheduler;
        let freed = self
            .hazards
            .remove(key, |point| scheduler.has_passed(point));
        let (slot, busy, dropped_ns) = (freed.id.index(), freed.busy, freed.dropped_ns);
        self.objects.unlink(slot);
        if let Backing::Reserved(reservation) = freed.backing {
            self.device.slice_released(freed.id);
            self.log_memory("freed", reservation.bytes);
            self.memory.release(freed.client, reservation, busy.clone());
        }
        let mut points: SmallVec<[Point; 2]> = busy.iter().collect();
        match points.pop() {
            None => {
                self.observers.slice_waited(dropped_ns);
                recycle_slice_slot(&self.table, slot);
            }
            Some(first) => {
                let since_ns = match dropped_ns {
                    0 => self.observers.now_ns(),
                    earlier => earlier,
                };
                let mut others = Points::default();
                points.into_iter().for_each(|point| others.insert(point));
                self.drops.retire(
                    Retiring {
                        slot,
                        cursor: first.cursor,
                        others,
                        since_ns,
                    },
                    first.queue,
                );
            }
        }
    }

    /// Recycles the slots whose last uses have passed.
    pub(super) fn retire_passed(&mut self) {
        let scheduler = &self.scheduler;
        let passed = |point: Point| scheduler.has_passed(point);
        while let Some((slot, since_ns)) = self.drops.next_retired(passed) {
            self.observers.slice_waited(since_ns);
            recycle_slice_slot(&self.table, slot);
        }
    }
}

/// The last task that could mark the slot's poison has completed.
fn recycle_slice_slot(table: &Table, slot: u32) {
    if let Some(shared) = table.slot(slot) {
        shared.payload().poison.reset();
        shared.payload().charge.clear();
    }
    table.recycle(slot);
}

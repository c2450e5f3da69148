//! The end of objects: the last handle of a slot is dropped, the last task that names it is issued, the last use of its
//! memory passes, and the slot is recycled.

use std::any::Any;

use millstream_protocol::backend::Backend;
use millstream_protocol::deferred_drop::DeferredDrop;
use millstream_protocol::id::Point;
use millstream_protocol::table::Table;
use smallvec::SmallVec;

use super::deferred_drops::Retiring;
use super::{Effect, Server};
use crate::hazards::Backing;
use crate::objects::Unreferenced;
use crate::objects::links::Kind;
use crate::points::Points;

/// The most drops that a turn processes. A drop takes about 0.3 us.
const DROPS_PER_CALL: usize = 512;

impl<B: Backend> Server<B> {
    /// Counts one held task less that names this slice, and frees the slice if it is dropped and that was the last one.
    #[inline]
    pub(super) fn release_slice(&mut self, key: u32) {
        if self.hazards.release(key) {
            self.drops.remove_held_slice();
            if let Backing::Reserved(reservation) = self.hazards.backing(key) {
                self.memory.dropped_slice_is_free(reservation);
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
            self.waiting_callers.note_cancel();
            self.memory.note_cancel();
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
        if !matches!(object, None | Some((Kind::Client, _)))
            && let Some(log) = self.device.log()
        {
            log.note_dropped(slot);
        }
        match object {
            Some((Kind::Slice, key)) => {
                let observers = &self.observers;
                if self.hazards.drop_slice(key, || observers.meter.now_ns()) {
                    self.free_slice(key);
                } else {
                    self.drops.add_held_slice();
                    if let Backing::Reserved(reservation) = self.hazards.backing(key) {
                        self.memory.slice_dropped(reservation);
                    }
                }
            }
            Some((Kind::Kernel, key)) => {
                let unreferenced = self.objects.drop_kernel(key);
                self.remove_object(unreferenced);
            }
            Some((Kind::Recording, key)) => {
                let unreferenced = self.objects.drop_recording(key);
                self.remove_object(unreferenced);
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

    /// Drops a kernel or recording without references on another thread, once no task runs it: the code of a kernel may
    /// be user code.
    pub(super) fn remove_object(&mut self, unreferenced: Option<Unreferenced>) {
        match unreferenced {
            None => {}
            Some(Unreferenced::Kernel(prepared)) => {
                let slot = prepared.slot();
                self.collect(Box::new((prepared.kernel, prepared.code)));
                self.table.recycle(slot);
            }
            Some(Unreferenced::Recording(stored)) => {
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
        let value = DeferredDrop::new(value, &self.table);
        self.effects.push(Effect::Collect { value, after });
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
        let accounts = self.memory.accounts_mut();
        accounts.stream_removed(stream.client, stream.issued);
        self.objects.unlink(stream.id.index());
        self.table.recycle(stream.id.index());
    }

    /// Frees a slice: its range returns to the pool with the points that still use it, and its slot is recycled once
    /// these have passed.
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
                    0 => self.observers.meter.now_ns(),
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

/// Recycles the slot of a slice. The last task that could poison it has completed.
fn recycle_slice_slot(table: &Table, slot: u32) {
    if let Some(shared) = table.slot(slot) {
        shared.payload().poison.reset();
        shared.payload().charge.clear();
    }
    table.recycle(slot);
}

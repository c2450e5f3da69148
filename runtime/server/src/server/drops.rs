//! How things go: the last handle of a slot is dropped, the last task that names it is issued, the last use of its
//! memory passes, and the slot is somebody else's.

use std::any::Any;

use millstream_protocol::backend::Backend;
use millstream_protocol::id::Point;
use millstream_protocol::leaving::Leaving;
use millstream_protocol::table::Table;
use smallvec::SmallVec;

use super::dropping::Retiring;
use super::links::Kind;
use super::{Effect, Server};
use crate::hazard::points::Points;
use crate::planted::{Bug, on};
use crate::slice::Backing;

impl<B: Backend> Server<B> {
    /// One task less names this kernel.
    pub(super) fn release_kernel(&mut self, key: u32) {
        self.kernels[key as usize].held_tasks -= 1;
        self.remove_kernel_if_done(key);
    }

    /// One task less names this recording.
    pub(super) fn release_recording(&mut self, key: u32) {
        self.recordings[key as usize].held_tasks -= 1;
        self.remove_recording_if_done(key);
    }

    /// One task less names this slice.
    #[inline]
    pub(super) fn release_slice(&mut self, key: u32) {
        let slice = &mut self.slices[key as usize];
        slice.held_tasks -= 1;
        if slice.dropped && slice.held_tasks == 0 {
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
        if let Some(journal) = &mut self.loss.journal {
            journal.note_dropped(slot);
        }
        match self.links.at(slot) {
            Some((Kind::Slice, key)) => {
                let slice = &mut self.slices[key as usize];
                slice.dropped = true;
                if slice.held_tasks == 0 {
                    self.free_slice(key);
                } else {
                    slice.dropped_ns = self.observers.now_ns();
                    self.drops.enters_use();
                }
            }
            Some((Kind::Kernel, key)) => {
                self.kernels[key as usize].dropped = true;
                self.remove_kernel_if_done(key);
            }
            Some((Kind::Recording, key)) => {
                self.recordings[key as usize].dropped = true;
                self.remove_recording_if_done(key);
            }
            Some((Kind::Stream, key)) => {
                self.scheduler.stream_mut(key).dropped = true;
                self.remove_stream_if_done(key);
            }
            Some((Kind::Client, key)) => {
                let client = self.clients.remove(key as usize);
                self.memory.accounts_mut().close(client);
                self.links.take(slot);
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

    /// A kernel's code may be user code: it is dropped off the device thread, once nothing runs it.
    fn remove_kernel_if_done(&mut self, key: u32) {
        let kernel = &self.kernels[key as usize];
        if kernel.dropped && kernel.held_tasks == 0 {
            let prepared = self.kernels.remove(key as usize);
            self.links.take(prepared.slot);
            self.collect(Box::new((prepared.kernel, prepared.code)));
            self.table.recycle(prepared.slot);
        }
    }

    fn remove_recording_if_done(&mut self, key: u32) {
        let recording = &self.recordings[key as usize];
        if recording.dropped && recording.held_tasks == 0 {
            let recording = self.recordings.remove(key as usize);
            let (id, kernels) = (recording.id, recording.kernels);
            self.links.take(id.index());
            let of_backend = self.backend.recording_released(id);
            self.collect(Box::new((recording.tasks, kernels, of_backend)));
            self.table.recycle(id.index());
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
        self.effects.push_back(Effect::Collect { value, after });
    }

    /// A dropped stream that holds nothing is gone.
    pub(super) fn remove_stream_if_done(&mut self, key: u32) {
        let Some(stream) = self.scheduler.remove_if_done(key) else {
            return;
        };
        let accounts = self.memory.accounts_mut();
        accounts.stream_is_gone(stream.client, stream.issued);
        self.links.take(stream.id.index());
        self.table.recycle(stream.id.index());
    }

    /// Gives a slice's range back to the pool, with the points that still use it, and its slot once
    /// those have passed.
    pub(super) fn free_slice(&mut self, key: u32) {
        let slice = self.slices.remove(key as usize);
        let slot = slice.id.index();
        self.links.take(slot);
        let scheduler = &self.scheduler;
        let busy = slice.log.points(|point| scheduler.has_passed(point));
        if let Backing::Reserved(reservation) = slice.memory {
            self.backend.slice_released(slice.id);
            self.log_memory("freed", reservation.bytes);
            let busy = match on(Bug::ReuseEarly) {
                true => earlier(&busy),
                false => busy.clone(),
            };
            self.memory.release(slice.client, reservation, busy);
        }
        let mut points: SmallVec<[Point; 2]> = busy.iter().collect();
        match points.pop() {
            None => {
                self.observers.slice_waited(slice.dropped_ns);
                recycle_slice_slot(&self.table, slot);
            }
            Some(first) => {
                let since_ns = match slice.dropped_ns {
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

/// The planted bug of memory that is reused one task early.
#[cold]
fn earlier(points: &Points) -> Points {
    let mut earlier = Points::default();
    points
        .iter()
        .filter(|point| point.cursor > 1)
        .for_each(|point| earlier.insert(Point::new(point.queue, point.cursor - 1)));
    earlier
}

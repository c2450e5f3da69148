//! How things go: the last handle of a slot is dropped, the last task that names it is issued, the last use of its
//! memory passes, and the slot is somebody else's.

use std::any::Any;

use smallvec::SmallVec;

use crate::backend::Backend;
use crate::hazard::points::Points;
use crate::id::{Point, QueueId};
use crate::planted::{Bug, on};
use crate::releases::Leaving;
use crate::slice::Memory;
use crate::stream::queue::Retiring;

use super::links::Kind;
use super::{Effect, Server};

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
            self.dropped_in_use -= 1;
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
        let head = self.messages;
        while let Some((slot, stamp)) = self.early_drops.front().copied() {
            if stamp > head {
                break;
            }
            self.early_drops.pop_front();
            self.honour_drop(slot);
        }
        if !self.table.has_dropped() {
            return;
        }
        let table = self.table.clone();
        table.take_dropped(|slot, stamp| {
            if (stamp <= head || on(Bug::DropEarly)) && self.early_drops.is_empty() {
                self.honour_drop(slot);
            } else {
                self.early_drops.push_back((slot, stamp));
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
                    slice.dropped_ns = self.meter.now_ns();
                    self.dropped_in_use += 1;
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
                self.streams[key as usize].dropped = true;
                self.remove_stream_if_done(key);
            }
            Some((Kind::Client, key)) => {
                let client = self.clients.remove(key as usize);
                self.accounts.close(client);
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
        for (index, queue) in self.queues.iter().enumerate() {
            if queue.issued > queue.completed {
                after.insert(Point::new(QueueId(index as u8), queue.issued));
            }
        }
        self.collect_after(value, after);
    }

    /// Drops `value` on another thread once these points have passed.
    pub(super) fn collect_after(&mut self, value: Box<dyn Any + Send>, after: Points) {
        let value = Leaving::new(value, &self.table);
        self.effects.push_back(Effect::Collect { value, after });
    }

    /// A dropped stream that holds nothing is gone.
    pub(super) fn remove_stream_if_done(&mut self, key: u32) {
        let stream = &self.streams[key as usize];
        if !stream.dropped || !stream.held.is_empty() || !stream.waiters.is_empty() {
            return;
        }
        let stream = self.streams.remove(key as usize);
        self.accounts.stream_is_gone(stream.client, stream.issued);
        if stream.in_turn {
            self.queues[stream.queue.index()].turn.leave(key);
        }
        self.queues[stream.queue.index()].unseat(stream.own_priority);
        self.links.take(stream.id.index());
        self.table.recycle(stream.id.index());
    }

    /// Gives a slice's range back to the pool, with the points that still use it, and its slot once
    /// those have passed.
    pub(super) fn free_slice(&mut self, key: u32) {
        let slice = self.slices.remove(key as usize);
        let slot = slice.id.index();
        self.links.take(slot);
        let queues = &self.queues;
        let busy = slice
            .log
            .points(|point| queues[point.queue.index()].completed >= point.cursor);
        if let Memory::Reserved(reservation) = slice.memory {
            if self.accounts.credit(slice.client, reservation.bytes) {
                self.pools.spill(&reservation);
            }
            self.backend.slice_released(slice.id);
            self.log_memory("freed", reservation.bytes);
            let busy = match on(Bug::ReuseEarly) {
                true => earlier(&busy),
                false => busy.clone(),
            };
            self.pools.release(reservation, busy);
        }
        let mut points: SmallVec<[Point; 2]> = busy.iter().collect();
        match points.pop() {
            None => {
                self.slice_waited(slice.dropped_ns);
                self.recycle_slice_slot(slot);
            }
            Some(first) => {
                let since_ns = match slice.dropped_ns {
                    0 => self.meter.now_ns(),
                    earlier => earlier,
                };
                let mut others = Points::default();
                points.into_iter().for_each(|point| others.insert(point));
                self.retire(
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

    fn retire(&mut self, retiring: Retiring, queue: QueueId) {
        // Nearly sorted by cursor: frees follow issues. Sorted, so that only the front is looked at.
        let list = &mut self.queues[queue.index()].retiring;
        let at = list.partition_point(|other| other.cursor <= retiring.cursor);
        list.insert(at, retiring);
    }

    /// The last task that could mark the slot's poison has completed.
    fn recycle_slice_slot(&mut self, slot: u32) {
        if let Some(shared) = self.table.slot(slot) {
            shared.payload().poison.reset();
            shared.payload().charge.clear();
        }
        self.table.recycle(slot);
    }

    /// Recycles the slots whose last uses have passed.
    pub(super) fn retire_passed(&mut self) {
        for index in 0..self.queues.len() {
            let completed = self.queues[index].completed;
            while self.queues[index]
                .retiring
                .front()
                .is_some_and(|retiring| retiring.cursor <= completed)
            {
                let Some(mut retiring) = self.queues[index].retiring.pop_front() else {
                    break;
                };
                let queues = &self.queues;
                let next = retiring
                    .others
                    .iter()
                    .find(|point| queues[point.queue.index()].completed < point.cursor);
                match next {
                    None => {
                        self.slice_waited(retiring.since_ns);
                        self.recycle_slice_slot(retiring.slot);
                    }
                    Some(point) => {
                        retiring.cursor = point.cursor;
                        self.retire(retiring, point.queue);
                    }
                }
            }
        }
    }
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

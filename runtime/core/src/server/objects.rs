//! What a slot of the shared table stands for on the device thread.
//!
//! A thing becomes known by a registration or reservation, lives while it has handles or held tasks, and
//! gives its slot back at last. Where a slot leads is [`links`](super::links)'s.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::access::Access;
use crate::backend::{Backend, BackendKernel};
use crate::failure::{Failure, Reason};
use crate::handle::Binding;
use crate::hazard::log::AccessLog;
use crate::hazard::points::Points;
use crate::id::{ClientId, Point, QueueId, RecordingId, SeatId};
use crate::kernel::Kernel;
use crate::message::{Op, Registration};
use crate::planted::{Bug, on};
use crate::recording::RecordedTask;
use crate::slice::{Memory, Slice};
use crate::stream::Priority;
use crate::stream::actor::{NO_OBJECT, Parked, StreamActor, credit_chunk};
use crate::stream::queue::Retiring;

use super::links::Kind;
use super::{Effect, Server};

/// A kernel that is ready to launch.
pub(super) struct PreparedKernel {
    pub(super) slot: u32,
    pub(super) kernel: Arc<Kernel>,
    pub(super) code: BackendKernel,
    /// Tasks that streams hold and that launch it.
    pub(super) held_tasks: u32,
    pub(super) dropped: bool,
}

/// A recording that is ready to replay.
pub(super) struct StoredRecording {
    pub(super) id: RecordingId,
    pub(super) tasks: Arc<[RecordedTask]>,
    /// What launches run, in the order of `tasks`; nothing for copies and fills.
    pub(super) kernels: Vec<Option<(Arc<str>, BackendKernel)>>,
    /// How many of the tasks are launches.
    pub(super) launches: u64,
    pub(super) held_tasks: u32,
    pub(super) dropped: bool,
}

impl<B: Backend> Server<B> {
    /// Makes a thing known under its slot.
    pub(super) fn register(&mut self, registration: Registration) {
        match registration {
            Registration::Kernel { id, kernel, code } => {
                let prepared = PreparedKernel {
                    slot: id.index(),
                    kernel,
                    code,
                    held_tasks: 0,
                    dropped: false,
                };
                let key = self.kernels.insert(prepared) as u32;
                self.links
                    .set(id.index(), id.generation(), Kind::Kernel, key);
            }
            Registration::Parameter { id, bytes, client } => {
                let whole = Binding::new(id, 0, bytes, Access::Write);
                let key = self.insert_slice(&whole, client);
                // Whoever uses it outside of a replay is told.
                let failure = Failure::not_run(&self.names.parameter, Reason::Parameter);
                self.slices[key as usize].memory = Memory::Failed(bytes, failure);
            }
            Registration::Recording { id, tasks } => {
                let kernels: Vec<_> = tasks
                    .iter()
                    .map(|task| self.recorded_kernel(task))
                    .collect();
                let launches = tasks.iter().filter(|task| task.kernel().is_some()).count();
                let stored = StoredRecording {
                    id,
                    tasks,
                    kernels,
                    launches: launches as u64,
                    held_tasks: 0,
                    dropped: false,
                };
                let key = self.recordings.insert(stored) as u32;
                self.links
                    .set(id.index(), id.generation(), Kind::Recording, key);
            }
            Registration::Stream {
                id,
                client,
                client_name,
                seat,
                priority,
                weight,
                soft_limit,
                credit,
                credit_is_shared,
            } => {
                self.seat_client(client, &client_name, seat);
                if let Some(bytes) = soft_limit {
                    self.accounts.limit(client, bytes);
                }
                let queue = self.fewest_streams(priority);
                // What one stream keeps back may be all that another waits for.
                let credit_chunk = match credit_is_shared {
                    true => 1,
                    false => credit_chunk(credit.limit()),
                };
                self.queues[queue.index()].seat(priority);
                let number = self.streams_made;
                self.streams_made += 1;
                let key = self.streams.insert(StreamActor {
                    id,
                    client,
                    own_priority: priority,
                    weight: weight.max(1) as usize,
                    inherited: None,
                    number,
                    credit,
                    queue,
                    held: Default::default(),
                    issued: 0,
                    last: 0,
                    parked: Parked::No,
                    in_turn: false,
                    gone: 0,
                    unreleased: 0,
                    credit_chunk,
                    waiters: Default::default(),
                    covered: Vec::new(),
                    dropped: false,
                }) as u32;
                self.links
                    .set(id.index(), id.generation(), Kind::Stream, key);
                if self.profiles.are_any() {
                    self.cover_new(key);
                }
            }
        }
    }

    /// A client has a stream: what is kept of it is kept until its slot is dropped.
    fn seat_client(&mut self, client: ClientId, name: &Arc<str>, seat: Option<SeatId>) {
        if let Some(id) = seat.filter(|id| self.links.at(id.index()).is_none()) {
            let key = self.clients.insert(client) as u32;
            self.links
                .set(id.index(), id.generation(), Kind::Client, key);
            self.accounts.open(client, name.clone());
        }
    }

    fn recorded_kernel(&self, task: &RecordedTask) -> Option<(Arc<str>, BackendKernel)> {
        let key = self.links.kernel(task.kernel()?)?;
        let prepared = &self.kernels[key as usize];
        Some((prepared.kernel.name().clone(), prepared.code.clone()))
    }

    /// Where a new stream sits down: priorities have queues of their own, as far as there are queues.
    fn fewest_streams(&self, priority: Priority) -> QueueId {
        let fewest = self
            .queues
            .iter()
            .enumerate()
            .min_by_key(|(_, queue)| (queue.misfit(priority), queue.streams));
        QueueId(fewest.map_or(0, |(index, _)| index as u8))
    }

    /// Makes a slice known that has no memory yet. Its log starts when it gets some.
    pub(super) fn insert_slice(&mut self, binding: &Binding, client: ClientId) -> u32 {
        let id = binding.slice;
        let key = self.slices.insert(Slice {
            id,
            client,
            memory: Memory::Pending(binding.len),
            log: AccessLog::default(),
            faults: Default::default(),
            held_tasks: 0,
            dropped: false,
            dropped_ns: 0,
        }) as u32;
        self.links
            .set(id.index(), id.generation(), Kind::Slice, key);
        key
    }

    /// Keeps the kernel or recording that a held task names, until the task is issued, and tells its key.
    pub(super) fn hold_object(&mut self, op: &Op) -> u32 {
        match op {
            Op::Launch { kernel, .. } => match self.links.kernel(*kernel) {
                Some(key) => {
                    self.kernels[key as usize].held_tasks += 1;
                    key
                }
                None => NO_OBJECT,
            },
            Op::Replay(recording) => match self.links.recording(*recording) {
                Some(key) => {
                    self.recordings[key as usize].held_tasks += 1;
                    key
                }
                None => NO_OBJECT,
            },
            _ => NO_OBJECT,
        }
    }

    /// The key of the kernel or recording that a task names, which no count keeps.
    #[inline]
    pub(super) fn object_of(&self, op: &Op) -> u32 {
        match op {
            Op::Launch { kernel, .. } => self.links.kernel(*kernel).unwrap_or(NO_OBJECT),
            Op::Replay(recording) => self.links.recording(*recording).unwrap_or(NO_OBJECT),
            _ => NO_OBJECT,
        }
    }

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

    /// Honours the drops that the mailbox has passed: every task that could name them was admitted.
    pub fn honour_drops(&mut self) {
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
            // Its registration was refused: nothing was ever behind it.
            None => self.table.recycle(slot),
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
    fn collect(&mut self, value: Box<dyn std::any::Any + Send>) {
        let mut after = Points::default();
        for (index, queue) in self.queues.iter().enumerate() {
            if queue.issued > queue.completed {
                after.insert(Point::new(QueueId(index as u8), queue.issued));
            }
        }
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
        if let Some(shared) = self.table.slot(slot) {
            crate::client::credit_shared(shared.payload());
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

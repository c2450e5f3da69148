//! Admission: what a new task must come after, and when its stream is flushed.

use crate::backend::Backend;
use crate::handle::Binding;
use crate::hazard::log::{AccessLog, Use};
use crate::id::{Point, StreamId};
use crate::memory::{AllocationMode, ReserveError};
use crate::message::{Op, Reply, Task};
use crate::slice::Memory;
use crate::stream::actor::{HeldTask, Waiter};

use super::Server;

/// Why a stream is flushed, for the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// Its batch is full.
    Full,
    /// Another stream conflicts with what it holds.
    Conflict,
    /// Somebody waits for an answer.
    Asked,
}

/// Whether a reservation has waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// Its slice has just become known: nobody else has named it.
    Fresh,
    /// It was parked; tasks of other streams may wait for it.
    Parked,
}

impl<B: Backend> Server<B> {
    /// Takes a task of a stream: enters it in the access logs and lets the stream hold it.
    pub(super) fn admit_task(&mut self, message: &mut Task) {
        self.admit_held(message, true);
    }

    /// A task that the server adds to a stream by itself: no caller took credit for it.
    pub(super) fn admit_unpaid(&mut self, message: &mut Task) {
        self.admit_held(message, false);
    }

    fn admit_held(&mut self, message: &mut Task, paid: bool) {
        let Some(stream) = message.stream.and_then(|id| self.links.stream(id)) else {
            self.refuse(message);
            return;
        };
        if matches!(message.op, Op::Answer(_)) {
            // Who dropped something and then syncs finds it dropped.
            self.honour_drops();
        }
        self.settle_queue(stream);
        if let Op::Reserve { client, mode } = message.op {
            let Some(binding) = message.bindings.first().copied() else {
                return;
            };
            let slice = self.insert_slice(&binding, client);
            if self.reserve(slice, stream, mode, Patience::Fresh).is_ok() {
                self.streams[stream as usize].credit.release(1);
                return;
            }
        }
        self.hold_objects(message);
        let mut held = self.spare.pop().unwrap_or_else(HeldTask::empty);
        held.task.take_from(message);
        held.paid = paid;
        self.admit_hazards(stream, &mut held);
        let actor = &mut self.streams[stream as usize];
        actor.held.push_back(held);
        let (holds, sequence) = (actor.held.len(), actor.issued + actor.held.len() as u64);
        self.join_turn(stream);
        let task = self.streams[stream as usize]
            .held
            .back()
            .map(|held| &held.task.op);
        if matches!(task, Some(Op::CopyOut(_) | Op::Answer(_) | Op::Host(_))) {
            self.flush_prefix(stream, sequence, Why::Asked);
        } else if holds >= self.options.max_tasks {
            self.flush_prefix(stream, sequence, Why::Full);
        }
    }

    /// Orders that are no tasks.
    pub(super) fn admit_order(&mut self, message: &mut Task) {
        let stream = message.stream;
        match std::mem::replace(&mut message.op, Op::Taken) {
            Op::Ask(ask) => self.ask(*ask),
            Op::Register(registration) => self.register(*registration),
            Op::Flush => self.flush_streams(stream.as_slice()),
            _ => {}
        }
    }

    /// A task of a stream that this device does not know: its asker is told.
    fn refuse(&mut self, message: &mut Task) {
        debug_assert!(false, "a task names an unknown stream");
        self.counters.failures += 1;
        match std::mem::replace(&mut message.op, Op::Taken) {
            Op::CopyOut(copy) => copy
                .reply
                .send(Err(crate::error::Error::Foreign { what: "stream" })),
            Op::Answer(reply) => {
                Reply::send(reply, Err(crate::error::Error::Foreign { what: "stream" }));
            }
            _ => {}
        }
    }

    /// An idle stream sits down where the least is in flight. Only then: the order within a stream is
    /// its queue's order.
    #[inline]
    fn settle_queue(&mut self, stream: u32) {
        let actor = &self.streams[stream as usize];
        let queue = &self.queues[actor.queue.index()];
        if self.queues.len() == 1
            || queue.in_flight() == 0
            || !actor.held.is_empty()
            || actor.last > queue.completed
        {
            return;
        }
        let load =
            |queue: &crate::stream::queue::QueueState| queue.in_flight() + queue.turn.len() as u64;
        let Some((least, _)) = self
            .queues
            .iter()
            .enumerate()
            .min_by_key(|(_, queue)| load(queue))
        else {
            return;
        };
        let current = actor.queue;
        if load(&self.queues[least]) < load(&self.queues[current.index()]) {
            self.queues[current.index()].streams -= 1;
            self.queues[least].streams += 1;
            let actor = &mut self.streams[stream as usize];
            actor.queue = crate::id::QueueId(least as u8);
            actor.last = 0;
        }
    }

    /// Enters the task's accesses and notes what it must come after.
    fn admit_hazards(&mut self, stream: u32, held: &mut HeldTask) {
        let sequence = self.streams[stream as usize].next_sequence();
        let me = Use::Held { stream, sequence };
        for index in 0.. {
            let Some(binding) = binding_at(&held.task, index) else {
                break;
            };
            let Some(slice) = self.links.slice(binding.slice) else {
                continue;
            };
            self.slices[slice as usize].held_tasks += 1;
            let range = binding.offset..binding.offset + binding.len;
            self.flush_conflicts(stream, slice, &binding);
            let queue = self.streams[stream as usize].queue;
            let (mut implied, mut unissued) = (0, 0);
            let (slices, queues, streams) = (&mut self.slices, &self.queues, &mut self.streams);
            let log = &mut slices[slice as usize].log;
            log.conflicts(range.clone(), binding.access, |used| match used {
                Use::Held {
                    stream: other,
                    sequence: theirs,
                } if other != stream => {
                    let waiter = Waiter {
                        sequence: theirs,
                        stream,
                        task: sequence,
                    };
                    if !streams[other as usize].waiters.contains(&waiter) {
                        streams[other as usize].waiters.push(waiter);
                        unissued += 1;
                    }
                }
                Use::Held { .. } => {}
                Use::Issued(point) if point.queue == queue => {}
                Use::Issued(point) => {
                    let passed = queues[point.queue.index()].completed >= point.cursor;
                    if passed || queues[queue.index()].clock.covers(point) {
                        implied += u64::from(point.cursor > 0);
                    } else {
                        held.come_after(point);
                    }
                }
            });
            log.admit(range, binding.access, me);
            held.unissued += unissued;
            self.counters.waits_implied += implied;
            self.counters.tasks_parked += u64::from(unissued > 0);
        }
    }

    /// Streams that hold tasks which conflict with the binding are flushed up to those tasks, so that
    /// tasks held by different streams never conflict (but where the other stream cannot go).
    #[inline]
    fn flush_conflicts(&mut self, stream: u32, slice: u32, binding: &Binding) {
        let range = binding.offset..binding.offset + binding.len;
        let foreign = &mut self.foreign;
        self.slices[slice as usize]
            .log
            .conflicts(range, binding.access, |used| match used {
                Use::Held {
                    stream: other,
                    sequence,
                } if other != stream => foreign.push((other, sequence)),
                _ => {}
            });
        if self.foreign.is_empty() {
            return;
        }
        let mut foreign = std::mem::take(&mut self.foreign);
        for (other, sequence) in foreign.drain(..) {
            self.log_conflict(stream, other, binding);
            self.flush_prefix(other, sequence, Why::Conflict);
        }
        self.foreign = foreign;
    }

    /// Gives a slice its memory, or says that there is none now.
    ///
    /// A stream that is hungry already goes first: later reservations may only take what was clean
    /// when it began to wait, never what has come back since.
    ///
    /// A fresh slice may take a range that is still used where its stream's queue comes after that use
    /// anyway, and inherits it. One that waited takes only clean memory: its log has entries already.
    pub(super) fn reserve(
        &mut self,
        slice: u32,
        stream: u32,
        mode: Option<AllocationMode>,
        patience: Patience,
    ) -> Result<(), ReserveError> {
        let (bytes, id) = (
            self.slices[slice as usize].bytes,
            self.slices[slice as usize].id,
        );
        let Some(mode) = mode.filter(|_| bytes > 0) else {
            self.slices[slice as usize].memory = Memory::None;
            return Ok(());
        };
        if self.hungry.front().is_some_and(|first| *first != stream) && bytes > self.hungry_budget {
            return Err(ReserveError::OutOfMemory {
                asked: bytes,
                reserved: 0,
                free: None,
                waiting: 0,
            });
        }
        let queue = self.streams[stream as usize].queue;
        let state = &self.queues;
        let covered = |point: Point| {
            state[point.queue.index()].completed >= point.cursor
                || (patience == Patience::Fresh
                    && (point.queue == queue || state[queue.index()].clock.covers(point)))
        };
        let mut pages = super::progress::Pages(&mut self.backend);
        let (reservation, residue) = self
            .pools
            .reserve(&mut pages, bytes, mode, queue, &covered)?;
        if !self.hungry.is_empty() {
            self.hungry_budget = self.hungry_budget.saturating_sub(reservation.bytes);
        }
        self.backend
            .slice_reserved(id, Some(reservation.page), reservation.offset, bytes);
        self.log_memory("reserved", reservation.bytes);
        let slice = &mut self.slices[slice as usize];
        self.accounts.charge(slice.client, reservation.bytes);
        if patience == Patience::Fresh {
            slice.log = AccessLog::with_residue(bytes, &residue);
        }
        slice.memory = Memory::Reserved(reservation);
        Ok(())
    }

    /// A stream whose first task can be tried is in its queue's turn.
    #[inline]
    pub(super) fn join_turn(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        if !actor.in_turn && actor.can_go() {
            actor.in_turn = true;
            self.queues[actor.queue.index()].turn.push_back(stream);
        }
    }

    /// Flushes streams named by id. Naming one twice runs nothing twice: what was issued is not held.
    pub(super) fn flush_streams(&mut self, ids: &[StreamId]) {
        for id in ids {
            if let Some(stream) = self.links.stream(*id) {
                let last = self.streams[stream as usize].next_sequence() - 1;
                self.flush_prefix(stream, last, Why::Asked);
            }
        }
    }
}

/// Binding `index` of a task, inline ones first.
#[inline]
pub(super) fn binding_at(task: &Task, index: usize) -> Option<Binding> {
    match task.bindings.get(index) {
        Some(binding) => Some(*binding),
        None => task
            .extra
            .as_ref()?
            .bindings
            .get(index - task.bindings.len())
            .copied(),
    }
}

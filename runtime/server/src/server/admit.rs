//! Admission: a task passes through at once, or its stream holds it after what it must come after.

use millstream_protocol::backend::Backend;
use millstream_protocol::binding::Binding;
use millstream_protocol::cancel::Terms;
use millstream_protocol::error::Error;
use millstream_protocol::id::{Point, QueueId, StreamId};
use millstream_protocol::message::{Op, Rare, Reply, Task};

use super::Server;
use super::traits::Traits;
use crate::hazards::User;
use crate::scheduler::{HeldTask, joins};
use millstream_protocol::hazard::log::Use;

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

impl<B: Backend> Server<B> {
    /// Takes a task of a stream. It was paid for where a caller took credit of the stream for it.
    ///
    /// This is the one way of tasks. Its one shortcut is [`Server::pass`], for a stream that sits alone on its queue while nothing is
    /// held: nearly every message of a busy device.
    #[inline]
    pub(super) fn admit_task(&mut self, message: &mut Task, traits: Traits, paid: bool) {
        let Some(stream) = message.stream.and_then(|id| self.objects.stream(id)) else {
            return self.refuse(message);
        };
        if !message.extra.is_none() || traits.has(Traits::SYNC) {
            self.look_before(message, traits);
        }
        match self.seat(stream) {
            Some(queue) if !traits.has(Traits::HELD) => {
                self.pass((stream, queue), message, traits, paid);
            }
            _ => self.admit_held(stream, message, traits, paid),
        }
    }

    /// The queue of a stream, if its next task can go there at once and is ordered with no held task.
    #[inline]
    fn seat(&mut self, stream: u32) -> Option<QueueId> {
        match self.scheduler.lone_queue(stream) {
            Some(queue) if self.scheduler.is_seated(stream, queue) => Some(queue),
            _ => self.seat_anew(stream),
        }
    }

    /// The same, for a stream that may sit down elsewhere, or whose queue has to be looked at.
    fn seat_anew(&mut self, stream: u32) -> Option<QueueId> {
        self.scheduler.settle(stream);
        let queue = self.scheduler.lone_queue(stream)?;
        (!self.is_full(queue)).then_some(queue)
    }

    /// What is looked at before a task with an answer, or under terms.
    fn look_before(&mut self, message: &Task, traits: Traits) {
        if traits.has(Traits::SYNC) {
            self.honour_drops();
        }
        if let Some(since) = message.terms().and_then(Terms::since) {
            // What the caller saw of the clock has passed for the server as well.
            self.askers.want_time(since);
        }
    }

    /// Enters a task in the access logs and lets its stream hold it.
    fn admit_held(&mut self, stream: u32, message: &mut Task, traits: Traits, paid: bool) {
        let reserves = matches!(message.op, Op::Reserve { .. });
        if reserves && self.admit_reserve(stream, message) {
            self.scheduler.release_credit(stream);
            message.extra = Rare::default();
            return;
        }
        let mut held = self.scheduler.take_block();
        held.task.take_from(message);
        let under_terms = held.task.terms().is_some();
        held.paid = paid;
        held.admitted_ns = self.observers.admitted_ns(&held.task.op);
        held.object = self.objects.hold(&held.task.op);
        self.admit_hazards(stream, &mut held);
        let (holds, sequence) = self.scheduler.hold(stream, held);
        if reserves && holds == 1 {
            // It waits for memory from now on, before a reservation that is asked for later.
            self.issue_first(stream);
        } else if self.scheduler.sits_on_full(stream) {
            // What has room by now is given out by turns: a stream that keeps sending would have it all.
        } else if traits.has(Traits::ASKED) {
            self.flush_prefix(stream, sequence, Why::Asked);
        } else if holds >= self.scheduler.batch() {
            self.flush_prefix(stream, sequence, Why::Full);
        }
        if under_terms {
            self.note_asker(stream, sequence);
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
    #[cold]
    fn refuse(&mut self, message: &mut Task) {
        debug_assert!(false, "a task names an unknown stream");
        self.observers.count().failures += 1;
        message.extra = Rare::default();
        let foreign = Error::Foreign { what: "stream" };
        match std::mem::replace(&mut message.op, Op::Taken) {
            Op::CopyOut(copy) => copy.reply.send(Err(foreign)),
            Op::Answer(reply) => Reply::send(reply, Err(foreign)),
            _ => {}
        }
    }

    /// Enters the task's accesses and notes what it must come after.
    fn admit_hazards(&mut self, stream: u32, held: &mut HeldTask) {
        // All flushing comes first: what is issued from here on would not find the waiting task.
        for index in 0.. {
            let Some(binding) = binding_at_mut(&mut held.task, index) else {
                break;
            };
            let Some(slice) = self.objects.slice(binding.slice) else {
                continue;
            };
            binding.key = slice;
            let binding = *binding;
            self.hazards.hold(slice);
            if self.scheduler.held() > 0 {
                self.flush_conflicts(stream, slice, &binding);
            }
        }
        let queue = self.scheduler.queue_of(stream);
        let sequence = self.scheduler.next_sequence(stream);
        let on_host = matches!(held.task.op, Op::Host(_));
        let user = User::held(stream, sequence, (!on_host).then_some(queue));
        let Self {
            hazards,
            scheduler,
            scratch,
            ..
        } = self;
        for index in 0.. {
            let Some(binding) = binding_at(&held.task, index) else {
                break;
            };
            let passed = |point| scheduler.has_passed(point);
            let foreign = &mut scratch.foreign;
            let after = &mut held.after;
            hazards.enter(binding.key, &binding, &user, passed, |used| match used {
                Use::Issued(point) => {
                    if !joins(after, point) {
                        after.push(point);
                    }
                }
                Use::Held { stream, sequence } => foreign.push((stream, sequence)),
            });
            for other in scratch.foreign.drain(..) {
                scheduler.come_after((stream, sequence), held, other);
            }
        }
        if !held.awaits.is_empty() {
            self.observers.count().tasks_parked += 1;
            self.scheduler.hurry(stream, &held.awaits);
        }
    }

    /// Streams that hold tasks which conflict with the binding are flushed up to those tasks, so that
    /// tasks held by different streams never conflict (but where the other stream cannot go).
    #[inline]
    fn flush_conflicts(&mut self, stream: u32, slice: u32, binding: &Binding) {
        let foreign = &mut self.scratch.foreign;
        self.hazards
            .held_before(slice, binding, stream, |other, sequence| {
                foreign.push((other, sequence));
            });
        if foreign.is_empty() {
            return;
        }
        let mut foreign = std::mem::take(foreign);
        for (other, sequence) in foreign.drain(..) {
            // A dropped stream is gone with its last task.
            if !self.scheduler.contains(other) {
                continue;
            }
            self.log_conflict(stream, other, binding);
            self.flush_prefix(other, sequence, Why::Conflict);
        }
        self.scratch.foreign = foreign;
    }

    /// Flushes streams named by id. Naming one twice runs nothing twice: what was issued is not held.
    pub(super) fn flush_streams(&mut self, ids: &[StreamId]) {
        for id in ids {
            if let Some(stream) = self.objects.stream(*id) {
                self.flush_stream(stream);
            }
        }
    }

    /// Must what is issued to `queue` from now on wait for `point` of another queue?
    #[inline]
    pub(super) fn needs_wait(&self, queue: QueueId, point: Point) -> bool {
        !self.scheduler.has_passed(point) && !self.hazards.implies(queue, point)
    }
}

/// Binding `index` of a task, to be resolved.
#[inline]
fn binding_at_mut(task: &mut Task, index: usize) -> Option<&mut Binding> {
    let inline = task.bindings.len();
    if index < inline {
        return Some(&mut task.bindings[index]);
    }
    task.extra.more_mut()?.bindings.get_mut(index - inline)
}

/// Binding `index` of a task, inline ones first.
#[inline]
pub(super) fn binding_at(task: &Task, index: usize) -> Option<Binding> {
    match task.bindings.get(index) {
        Some(binding) => Some(*binding),
        None => task
            .extra
            .more()?
            .bindings
            .get(index - task.bindings.len())
            .copied(),
    }
}

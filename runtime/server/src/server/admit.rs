//! Admission: what a new task must come after, and when its stream is flushed.

use millstream_protocol::backend::Backend;
use millstream_protocol::binding::Binding;
use millstream_protocol::cancel::Terms;
use millstream_protocol::id::{Point, QueueId, StreamId};
use millstream_protocol::message::Rare;
use millstream_protocol::message::{Op, Reply, Task};

use super::Server;
use crate::hazard::log::Use;
use crate::planted::{Bug, on};
use crate::scheduler::actor::HeldTask;
use crate::scheduler::queue::QueueState;

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
        if let Some(since) = message.terms().and_then(Terms::since) {
            self.wants_time = true;
            // What the caller saw of the clock has passed for us as well.
            self.now = self.now.max(Some(since));
        }
        self.scheduler.settle(stream);
        if matches!(message.op, Op::Reserve { .. }) && self.admit_reserve(stream, message) {
            self.scheduler.stream_mut(stream).release_credit();
            message.extra = Rare::default();
            return;
        }
        let reserves = matches!(message.op, Op::Reserve { .. });
        let asked = matches!(message.op, Op::CopyOut(_) | Op::Answer(_) | Op::Host(_));
        if self.passes_through(stream, &message.op) {
            return self.pass_through(stream, message, paid, asked);
        }
        let mut held = self.scheduler.take_block();
        held.task.take_from(message);
        let under_terms = held.task.terms().is_some();
        held.paid = paid;
        held.admitted_ns = self.observers.admitted_ns(&held.task.op);
        held.object = self.hold_object(&held.task.op);
        self.admit_hazards(stream, &mut held);
        let (holds, sequence) = self.scheduler.hold(stream, held);
        let queue = self.scheduler.stream(stream).queue;
        if reserves && holds == 1 {
            // It waits for memory from now on, before whoever asks later.
            self.issue_first(stream);
        } else if self.scheduler.queue(queue).full {
            // Whatever has room by now is given out by turns: who keeps sending would have it all.
        } else if asked {
            self.flush_prefix(stream, sequence, Why::Asked);
        } else if holds >= self.scheduler.batch() {
            self.flush_prefix(stream, sequence, Why::Full);
        }
        if under_terms {
            self.note_asker_if_held(stream, sequence);
        }
    }

    #[cold]
    fn note_asker_if_held(&mut self, stream: u32, sequence: u64) {
        let actor = self.scheduler.get(stream);
        if actor.is_some_and(|actor| actor.issued < sequence) {
            self.note_asker(stream);
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
        self.observers.count().failures += 1;
        message.extra = Rare::default();
        match std::mem::replace(&mut message.op, Op::Taken) {
            Op::CopyOut(copy) => copy
                .reply
                .send(Err(millstream_protocol::error::Error::Foreign {
                    what: "stream",
                })),
            Op::Answer(reply) => {
                Reply::send(
                    reply,
                    Err(millstream_protocol::error::Error::Foreign { what: "stream" }),
                );
            }
            _ => {}
        }
    }

    /// Enters the task's accesses and notes what it must come after.
    fn admit_hazards(&mut self, stream: u32, held: &mut HeldTask) {
        let sequence = self.scheduler.stream(stream).next_sequence();
        let me = Use::Held { stream, sequence };
        let on_host = matches!(held.task.op, Op::Host(_));
        // All flushing comes first: what is issued from here on would not find the waiting task.
        for index in 0.. {
            let Some(binding) = binding_at_mut(&mut held.task, index) else {
                break;
            };
            let Some(slice) = self.links.slice(binding.slice) else {
                continue;
            };
            binding.key = slice;
            let binding = *binding;
            self.slices[slice as usize].held_tasks += 1;
            if self.scheduler.held() > 0 && !on(Bug::ConflictIgnored) {
                self.flush_conflicts(stream, slice, &binding);
            }
        }
        let queue = self.scheduler.stream(stream).queue;
        for index in 0.. {
            let Some(binding) = binding_at(&held.task, index) else {
                break;
            };
            let slice = binding.key;
            if slice == Binding::UNRESOLVED {
                continue;
            }
            let mut implied = 0;
            let (slices, scheduler) = (&mut self.slices, &mut self.scheduler);
            let short = 4 * u64::from(on(Bug::RangeShort));
            let end = binding.offset + binding.len.saturating_sub(short);
            let range = binding.offset..end;
            slices[slice as usize]
                .log
                .touch(range, binding.access, me, |used| match used {
                    // A host function is on no queue: only what has completed comes before it.
                    Use::Issued(point) if on_host => {
                        if !scheduler.has_passed(point) {
                            held.come_after(point);
                        }
                    }
                    Use::Issued(point) if point.queue == queue => {}
                    Use::Issued(point) => match needs_wait(scheduler.queues(), queue, point) {
                        true => held.come_after(point),
                        false => implied += u64::from(point.cursor > 0),
                    },
                    Use::Held {
                        stream: other,
                        sequence: theirs,
                    } if other != stream && !on(Bug::ConflictIgnored) => {
                        let me = (stream, sequence);
                        scheduler.come_after(me, held, (other, theirs));
                    }
                    Use::Held { .. } => {}
                });
            self.observers.count().waits_implied += implied;
        }
        if held.awaits.is_empty() {
            return;
        }
        self.observers.count().tasks_parked += 1;
        self.scheduler.hurry(stream, &held.awaits);
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
            // A dropped stream is gone with its last task.
            if !self.scheduler.contains(other) {
                continue;
            }
            self.log_conflict(stream, other, binding);
            self.flush_prefix(other, sequence, Why::Conflict);
        }
        self.foreign = foreign;
    }

    /// Flushes streams named by id. Naming one twice runs nothing twice: what was issued is not held.
    pub(super) fn flush_streams(&mut self, ids: &[StreamId]) {
        for id in ids {
            if let Some(stream) = self.links.stream(*id) {
                let last = self.scheduler.stream(stream).next_sequence() - 1;
                self.flush_prefix(stream, last, Why::Asked);
            }
        }
    }
}

/// Must what is issued to `queue` from now on wait for `point` of another queue?
#[inline]
pub(super) fn needs_wait(queues: &[QueueState], queue: QueueId, point: Point) -> bool {
    queues[point.queue.index()].completed < point.cursor
        && !queues[queue.index()].clock.covers(point)
}

/// Binding `index` of a task, to be resolved.
#[inline]
pub(super) fn binding_at_mut(task: &mut Task, index: usize) -> Option<&mut Binding> {
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

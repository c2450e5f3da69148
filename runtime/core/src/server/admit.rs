//! Admission: what a new task must come after, and when its stream is flushed.

use std::cmp::Reverse;

use smallvec::{SmallVec, smallvec};

use crate::backend::Backend;
use crate::cancel::Terms;
use crate::handle::Binding;
use crate::hazard::log::Use;
use crate::id::{Point, QueueId, StreamId};
use crate::message::{Op, Reply, Task};
use crate::planted::{Bug, on};
use crate::priority::Priority;
use crate::rare::Rare;
use crate::stream::actor::{HeldTask, Waiter};
use crate::stream::queue::QueueState;

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
        self.settle_queue(stream);
        if matches!(message.op, Op::Reserve { .. }) && self.admit_reserve(stream, message) {
            self.streams[stream as usize].release_credit();
            message.extra = Rare::default();
            return;
        }
        let reserves = matches!(message.op, Op::Reserve { .. });
        let asked = matches!(message.op, Op::CopyOut(_) | Op::Answer(_) | Op::Host(_));
        if self.passes_through(stream, &message.op) {
            return self.pass_through(stream, message, paid, asked);
        }
        let mut held = self.spare.pop().unwrap_or_else(HeldTask::empty);
        held.task.take_from(message);
        let under_terms = held.task.terms().is_some();
        held.paid = paid;
        held.admitted_ns = self.admitted_ns(&held.task.op);
        held.object = self.hold_object(&held.task.op);
        self.admit_hazards(stream, &mut held);
        let actor = &mut self.streams[stream as usize];
        actor.held.push_back(held);
        self.queues[actor.queue.index()].held += 1;
        self.tasks_held += 1;
        let (holds, sequence) = (actor.held.len(), actor.issued + actor.held.len() as u64);
        self.join_turn(stream);
        let queue = self.streams[stream as usize].queue;
        if reserves && holds == 1 {
            // It waits for memory from now on, before whoever asks later.
            self.issue_first(stream);
        } else if self.queues[queue.index()].full {
            // Whatever has room by now is given out by turns: who keeps sending would have it all.
        } else if asked {
            self.flush_prefix(stream, sequence, Why::Asked);
        } else if holds >= self.options.max_tasks {
            self.flush_prefix(stream, sequence, Why::Full);
        }
        if under_terms {
            self.note_asker_if_held(stream, sequence);
        }
    }

    #[cold]
    fn note_asker_if_held(&mut self, stream: u32, sequence: u64) {
        let actor = self.streams.get(stream as usize);
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
        self.counters.failures += 1;
        message.extra = Rare::default();
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
        // As of the last look, which every burst begins with.
        let idle = actor.last <= queue.completed || on(Bug::MovesBusy);
        if idle && queue.in_flight() > 0 && actor.held.is_empty() {
            self.move_if_idle(stream);
        }
    }

    /// The stream is idle, and its queue has work of others.
    #[cold]
    fn move_if_idle(&mut self, stream: u32) {
        // What has completed since the last look must not count as load.
        for queue in &mut self.queues {
            queue.look();
        }
        let actor = &self.streams[stream as usize];
        let (current, priority) = (actor.queue, actor.own_priority);
        let load = |queue: &QueueState| queue.in_flight() + queue.held;
        // Not to a queue of another priority, nor to one that others share, from one of its own.
        let worst = self.queues[current.index()].misfit(priority).min(1);
        let least = self
            .queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| queue.misfit(priority) <= worst)
            .min_by_key(|(_, queue)| load(queue));
        let Some((least, _)) =
            least.filter(|(_, least)| load(least) < load(&self.queues[current.index()]))
        else {
            return;
        };
        if std::mem::take(&mut self.streams[stream as usize].in_turn) {
            // It was flushed by itself and kept its place in the turn.
            self.queues[current.index()].turn.leave(stream);
        }
        self.queues[current.index()].unseat(priority);
        self.queues[least].seat(priority);
        let actor = &mut self.streams[stream as usize];
        actor.queue = QueueId(least as u8);
        actor.last = 0;
    }

    /// Enters the task's accesses and notes what it must come after.
    fn admit_hazards(&mut self, stream: u32, held: &mut HeldTask) {
        let sequence = self.streams[stream as usize].next_sequence();
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
            if self.tasks_held > 0 && !on(Bug::ConflictIgnored) {
                self.flush_conflicts(stream, slice, &binding);
            }
        }
        let queue = self.streams[stream as usize].queue;
        for index in 0.. {
            let Some(binding) = binding_at(&held.task, index) else {
                break;
            };
            let slice = binding.key;
            if slice == Binding::UNRESOLVED {
                continue;
            }
            let mut implied = 0;
            let (slices, queues, streams) = (&mut self.slices, &self.queues, &mut self.streams);
            let short = 4 * u64::from(on(Bug::RangeShort));
            let end = binding.offset + binding.len.saturating_sub(short);
            let range = binding.offset..end;
            slices[slice as usize]
                .log
                .touch(range, binding.access, me, |used| match used {
                    // A host function is on no queue: only what has completed comes before it.
                    Use::Issued(point) if on_host => {
                        if queues[point.queue.index()].completed < point.cursor {
                            held.come_after(point);
                        }
                    }
                    Use::Issued(point) if point.queue == queue => {}
                    Use::Issued(point) => match needs_wait(queues, queue, point) {
                        true => held.come_after(point),
                        false => implied += u64::from(point.cursor > 0),
                    },
                    Use::Held {
                        stream: other,
                        sequence: theirs,
                    } if other != stream && !on(Bug::ConflictIgnored) => {
                        let waiter = Waiter {
                            sequence: theirs,
                            stream,
                            task: sequence,
                        };
                        // One edge a task: two bindings may conflict with the same one.
                        if !held.awaits.contains(&(other, theirs)) {
                            held.awaits.push((other, theirs));
                            streams[other as usize].waiters.push(Reverse(waiter));
                        }
                    }
                    Use::Held { .. } => {}
                });
            self.counters.waits_implied += implied;
        }
        if held.awaits.is_empty() {
            return;
        }
        self.counters.tasks_parked += 1;
        let priority = self.streams[stream as usize].own_priority;
        for (other, sequence) in held.awaits.clone() {
            self.inherit(other, sequence, priority);
        }
    }

    /// A stream of this priority waits for another's tasks up to `sequence`: they become as urgent, and so does what they
    /// wait for.
    ///
    /// The walk follows the edges of the tasks that become more urgent, with a list instead of recursion, since a chain may be as
    /// long as there are streams. Each task is visited once for each priority.
    fn inherit(&mut self, stream: u32, sequence: u64, priority: Priority) {
        let mut open: SmallVec<[(u32, u64); 8]> = smallvec![(stream, sequence)];
        while let Some((stream, sequence)) = open.pop() {
            let Some(actor) = self.streams.get_mut(stream as usize) else {
                continue;
            };
            let tasks = actor.inherit(priority, sequence);
            if tasks.is_empty() {
                continue;
            }
            let edges = actor.held.range(tasks).flat_map(|held| &held.awaits);
            open.extend(edges.copied());
            if actor.in_turn {
                let urgency = actor.priority();
                let turn = &mut self.queues[actor.queue.index()].turn;
                turn.leave(stream);
                turn.join(stream, urgency);
            }
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
            // A dropped stream is gone with its last task.
            if !self.streams.contains(other as usize) {
                continue;
            }
            self.log_conflict(stream, other, binding);
            self.flush_prefix(other, sequence, Why::Conflict);
        }
        self.foreign = foreign;
    }

    /// A stream whose first task can be tried is in its queue's turn.
    #[inline]
    pub(super) fn join_turn(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        if !actor.in_turn && actor.can_go() {
            actor.in_turn = true;
            actor.gone = 0;
            let priority = actor.priority();
            self.queues[actor.queue.index()].turn.join(stream, priority);
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

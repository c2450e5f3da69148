//! Issuing: how the first task that a stream holds goes to its queue.

use millstream_protocol::access::Access;
use millstream_protocol::backend::{Backend, BoundSlice};
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::message::Rare;
use millstream_protocol::message::{Op, Task};

use super::Server;
use super::admit::binding_at;
use crate::hazards::Unbound;
use crate::objects::NO_OBJECT;
use crate::scheduler::{First, HeldTask};

/// What became of an attempt to issue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Issued {
    /// The first task went.
    Yes,
    /// The queue has enough in flight.
    Full,
    /// The first task waits for something.
    Parked,
    /// The stream holds nothing.
    Empty,
}

impl<B: Backend> Server<B> {
    /// Issues the first task that a stream holds.
    pub(super) fn issue_first(&mut self, stream: u32) -> Issued {
        let (queue, first) = match self.scheduler.first(stream) {
            First::None => return Issued::Empty,
            First::Waits => return Issued::Parked,
            First::Ready(queue, first) => (queue, first),
        };
        match &first.task.op {
            Op::Reserve { .. } => return self.issue_reserve(stream),
            Op::Host(_) => return self.park_host(stream),
            _ => {}
        }
        if self.is_full(queue) {
            return Issued::Full;
        }
        let Some(mut held) = self.scheduler.take_first(stream) else {
            return Issued::Empty;
        };
        let point = self.next_point(queue);
        self.issue_waits(point, &held.after);
        self.note_task(stream, &held.task, point, held.admitted_ns);
        let resolved = self.resolve(&held.task);
        self.run(&mut held.task, held.object, resolved, point);
        self.finish(stream, held, point);
        Issued::Yes
    }

    /// The place of the next task of a queue.
    #[inline]
    pub(super) fn next_point(&mut self, queue: QueueId) -> Point {
        self.observers.count().tasks += 1;
        self.scheduler.next_point(queue)
    }

    /// Has the queue enough in flight? Looks at its progress before it says so.
    #[inline]
    pub(super) fn is_full(&mut self, queue: QueueId) -> bool {
        self.scheduler.seems_full(queue) && self.is_full_still(queue)
    }

    #[cold]
    fn is_full_still(&mut self, queue: QueueId) -> bool {
        // What is issued must be on its way, or it would never complete.
        self.end_batch(queue);
        self.scheduler.is_full(queue)
    }

    /// Issues the waits that no clock implies, before the task that is to be at `place`.
    #[inline]
    pub(super) fn issue_waits(&mut self, place: Point, after: &[Point]) {
        let queue = place.queue;
        for point in after {
            if point.queue == queue {
                continue;
            }
            // A look costs a load, a wait a call: it may have completed since the last look.
            self.scheduler.look(point.queue);
            if !self.needs_wait(queue, *point)
                || (after.len() > 1 && self.another_implies(queue, after, *point))
            {
                self.hazards.count_implied();
                continue;
            }
            // The point must have been recorded before anything waits for it.
            if !self.scheduler.is_flushed(*point) {
                self.end_batch(point.queue);
            }
            let clock = self.hazards.clock_at(*point);
            self.log_wait(queue, *point);
            if self.device.wait(queue, *point) {
                self.hazards.waits(place, *point, clock);
                self.observers.count_wait(place, *point);
            }
        }
    }

    /// Does another point, which is waited for as well, come after this one anyway (I3)?
    fn another_implies(&self, queue: QueueId, after: &[Point], point: Point) -> bool {
        after.iter().any(|other| {
            other.queue != queue
                && other.queue != point.queue
                && self.needs_wait(queue, *other)
                && self.hazards.comes_after(*other, point)
        })
    }

    /// Hands a task to the backend, or poisons what it would have written.
    #[inline]
    pub(super) fn run(
        &mut self,
        task: &mut Task,
        object: u32,
        resolved: Result<(), FailureRef>,
        point: Point,
    ) {
        let withdrawn = self.withdrawn(task);
        if withdrawn.is_none() {
            // Before the call, after which it may run.
            self.note_issued(task, point);
        }
        if matches!(task.op, Op::Launch { count, .. } if count.is_zero()) {
            // It reads and writes nothing, so no failure passes through it, and it heals nothing (I7).
            return self.device.mark(point);
        }
        let outcome = match (withdrawn, resolved) {
            (Some(failure), _) => Err(failure),
            (None, _) if matches!(task.op, Op::Replay { .. }) => {
                self.replay(object, task, point);
                return self.note_last(task, point);
            }
            (None, Ok(())) => self.call(task, object, point),
            (None, Err(cause)) => Err(Failure::input(&self.objects.name_of(task), cause)),
        };
        self.note_last(task, point);
        match outcome {
            Ok(()) => self.heal(task),
            Err(failure) => {
                self.device.mark(point);
                self.fail(task, failure);
            }
        }
        if !matches!(task.op, Op::Launch { .. }) {
            self.answer(task, point);
        }
    }

    /// The failure of a task that is not to be issued any more.
    #[inline]
    pub(super) fn withdrawn(&mut self, task: &Task) -> Option<FailureRef> {
        let terms = task.terms()?;
        let reason = terms.withdrawn(self.askers.now())?;
        terms.removed();
        self.observers.count().withdrawn += 1;
        self.device.log_withdrawn(task, &reason);
        Some(Failure::not_run(&self.objects.name_of(task), reason))
    }

    /// A task is issued.
    #[inline]
    fn note_issued(&self, task: &Task, point: Point) {
        if let Some(terms) = task.terms() {
            terms.issued(self.scheduler.timeline(point.queue), point.cursor);
        }
    }

    /// A task that was to be at `point` may have taken more cursors than that: it ends with the last.
    #[inline]
    fn note_last(&self, task: &Task, point: Point) {
        let last = self.scheduler.queue(point.queue).issued();
        if last > point.cursor
            && let Some(terms) = task.terms()
        {
            terms.ends_later(self.scheduler.timeline(point.queue), point.cursor, last);
        }
    }

    /// Resolves the task's bindings, or finds the failure of what it needs.
    #[inline]
    pub(super) fn resolve(&mut self, task: &Task) -> Result<(), FailureRef> {
        self.scratch.bound.clear();
        for index in 0.. {
            let Some(binding) = binding_at(task, index) else {
                break;
            };
            let bound = match self.bind(&binding) {
                Err(_) if self.defines_anew(&binding, task) => self.bind(&binding),
                bound => bound,
            };
            self.scratch.bound.push(bound?);
        }
        Ok(())
    }

    /// Whether a task that overwrites a slice without memory has got memory for it.
    #[cold]
    fn defines_anew(&mut self, binding: &Binding, task: &Task) -> bool {
        binding.access == Access::Write && self.reserve_again(binding.slice, task.stream)
    }

    /// A binding as the backend sees it.
    #[inline]
    pub(super) fn bind(&self, binding: &Binding) -> Result<BoundSlice, FailureRef> {
        let bound = self.hazards.bind(binding);
        bound.map_err(|why| self.unbound(why))
    }

    /// Why a binding cannot be handed to the backend, as a failure.
    #[cold]
    fn unbound(&self, why: Unbound) -> FailureRef {
        let names = self.objects.names();
        match why {
            Unbound::Failed(failure) => failure,
            Unbound::Gone => Failure::not_run(&names.other, Reason::Lost),
            Unbound::Pending => Failure::not_run(&names.reserve, Reason::Lost),
            Unbound::Beyond { end, bytes } => {
                let why = format!("it asks for bytes up to {end} of {bytes}");
                Failure::not_run(&names.other, Reason::Refused(why))
            }
        }
    }

    /// The task is at `point`: its entries say so, its stream goes on, who waited for it may go.
    pub(super) fn finish(&mut self, stream: u32, mut held: Box<HeldTask>, point: Point) {
        let finished = self.scheduler.finish(stream, point, held.paid);
        let (sequence, last) = (finished.sequence, finished.last);
        for index in 0.. {
            let Some(binding) = binding_at(&held.task, index) else {
                break;
            };
            self.hazards.issued(binding.key, (stream, sequence), last);
            self.release_slice(binding.key);
        }
        if held.object != NO_OBJECT {
            let gone = self.objects.release(&held.task.op, held.object);
            self.remove_object(gone);
        }
        if !matches!(held.task.op, Op::Launch { .. }) {
            held.task.op = Op::Taken;
        }
        if !held.task.extra.is_none() {
            if !self.askers.is_empty()
                && let Some(terms) = held.task.terms()
            {
                self.forget_asker((stream, sequence), terms.deadline());
            }
            held.task.extra = Rare::default();
        }
        self.scheduler.put_block(held);
        if finished.stream_dropped {
            self.remove_stream_if_done(stream);
        }
    }

    /// The first task of a stream, which was taken out of it, is done without a queue: who waits for it waits for nothing.
    pub(super) fn finish_in_software(&mut self, stream: u32, held: Box<HeldTask>) {
        self.scheduler.unpark(stream);
        let queue = self.scheduler.queue_of(stream);
        self.finish(stream, held, Point::new(queue, 0));
        self.scheduler.resume(stream);
    }
}

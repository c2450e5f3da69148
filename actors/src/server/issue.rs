//! Issuing: how the first held task of a stream is issued to its queue.

use millstream_protocol::{
    Access, Backend, Binding, BoundSlice, Failure, FailureRef, HostNeeds, Op, Point, QueueId,
    Reason, Task, TaskExtras,
};

use super::Server;
use crate::stream_actor::held_task::HeldTask;
use millstream_state::hazards::Unbound;
use millstream_state::objects::NO_OBJECT;
use millstream_state::points::Points;

/// The outcome of an attempt to issue a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IssueOutcome {
    /// The first task, or a part of it, was issued, or it finished in software.
    Issued,
    /// The queue has enough tasks in flight.
    QueueFull,
    /// The first task waits, and its stream is parked; or the stream holds no task.
    Parked,
}

impl<B: Backend> Server<B> {
    /// Issues the first held task of a stream.
    pub(super) fn issue_first(&mut self, stream: u32) -> IssueOutcome {
        let Some((queue, first)) = self.scheduler.first(stream) else {
            return IssueOutcome::Parked;
        };
        match &first.task.op {
            Op::Reserve { .. } => return self.issue_reserve(stream),
            Op::Host(work) if !matches!(work.needs, HostNeeds::Download(_)) => {
                return self.park_host(stream);
            }
            _ => {}
        }
        if self.is_full(queue) {
            return IssueOutcome::QueueFull;
        }
        if let Some(unfinished) = self.scheduler.queue(queue).unfinished {
            return match unfinished.stream == stream {
                true => self.issue_part(unfinished),
                false => IssueOutcome::QueueFull,
            };
        }
        let Some(mut held) = self.scheduler.take_first(stream) else {
            return IssueOutcome::Parked;
        };
        let point = self.next_point(queue);
        self.issue_waits(point, &held.after);
        self.note_task(stream, &held.task, point, held.admitted_ns);
        let resolved = self.resolve(&held.task);
        if matches!(held.task.op, Op::Host(_)) {
            return self.issue_download(stream, held, resolved, point);
        }
        self.run(stream, (&mut held.task, held.object), resolved, point);
        self.finish_issued(stream, held, point);
        IssueOutcome::Issued
    }

    /// Takes the point of the next task of a queue.
    #[inline]
    pub(super) fn next_point(&mut self, queue: QueueId) -> Point {
        self.observers.counters.tasks += 1;
        self.scheduler.next_point(queue)
    }

    /// Returns `true` if the queue has enough tasks in flight, after a refresh.
    #[inline]
    pub(super) fn is_full(&mut self, queue: QueueId) -> bool {
        self.scheduler.seems_full(queue) && self.is_full_still(queue)
    }

    #[cold]
    fn is_full_still(&mut self, queue: QueueId) -> bool {
        // Tasks that are not flushed would never complete.
        self.end_batch(queue);
        self.scheduler.is_full(queue)
    }

    /// Issues the waits that no clock implies, before the task that will be at `place` (I3).
    #[inline]
    pub(super) fn issue_waits(&mut self, place: Point, after: &Points) {
        let queue = place.queue;
        for point in after.iter() {
            if point.queue == queue {
                continue;
            }
            // A refresh costs a load, a wait costs a call, and the point may have passed since the last refresh.
            self.scheduler.refresh(point.queue);
            if !self.needs_wait(queue, point)
                || (after.len() > 1 && self.another_implies(queue, after, point))
            {
                self.hazards.implied += 1;
                continue;
            }
            // The point must be recorded before another queue waits for it.
            if self.scheduler.queue(point.queue).flushed < point.cursor {
                self.end_batch(point.queue);
            }
            self.log_wait(queue, point);
            if self.device.wait(queue, point) {
                self.hazards.add_wait(place, point);
                self.observers.count_wait(place, point);
            }
        }
    }

    /// Returns `true` if another point that the task waits for comes after this one anyway (I3).
    fn another_implies(&self, queue: QueueId, after: &Points, point: Point) -> bool {
        after.iter().any(|other| {
            other.queue != queue
                && other.queue != point.queue
                && self.needs_wait(queue, other)
                && self.hazards.comes_after(other, point)
        })
    }

    /// Calls the device for a task, or poisons the bytes that the task would have written.
    #[inline]
    pub(super) fn run(
        &mut self,
        stream: u32,
        (task, object): (&mut Task, u32),
        resolved: Result<(), FailureRef>,
        point: Point,
    ) {
        let withdrawn = self.withdrawn(task);
        if withdrawn.is_none() {
            // Before the call: the task may run at once.
            self.note_issued(task, point);
        }
        if matches!(task.op, Op::Launch { count, .. } if count.is_zero()) {
            // A launch of no cubes reads and writes nothing: no failure passes through it, and it heals nothing (I7).
            return self.device.mark(point);
        }
        let outcome = match (withdrawn, resolved) {
            (Some(failure), _) => Err(failure),
            (None, _) if matches!(task.op, Op::Replay { .. }) => {
                return self.replay(stream, (task, object), point);
            }
            (None, Ok(())) => self.call(stream, (task, object), point),
            (None, Err(cause)) => Err(Failure::input(&self.objects.name_of(task), cause)),
        };
        let is_done = self.scheduler.queue(point.queue).unfinished.is_none();
        if is_done {
            self.note_last(task, point);
        }
        match outcome {
            Ok(()) => self.heal(task),
            Err(failure) => {
                self.device.mark(point);
                self.fail(task, failure);
            }
        }
        if is_done && !matches!(task.op, Op::Launch { .. }) {
            self.answer(task, point);
        }
    }

    /// Returns the failure of a task that was withdrawn. It must not be issued any more.
    #[inline]
    pub(super) fn withdrawn(&mut self, task: &Task) -> Option<FailureRef> {
        let terms = task.terms()?;
        let reason = terms.withdrawn(self.withdrawals.now)?;
        terms.removed();
        self.device.log_withdrawn(task, &reason);
        Some(Failure::not_run(&self.objects.name_of(task), reason))
    }

    /// Records in the terms of a task that it is issued.
    #[inline]
    fn note_issued(&mut self, task: &Task, point: Point) {
        if let Some(terms) = task.terms() {
            terms.issued(&self.scheduler.queue(point.queue).timeline, point.cursor);
            let last = point.cursor + self.cursors_of(&task.op) - 1;
            self.device.withdrawable(task, point, last);
        }
    }

    /// Records in the terms of a task that it ends at its last cursor, if it took more than one.
    #[inline]
    pub(super) fn note_last(&self, task: &Task, point: Point) {
        let queue = self.scheduler.queue(point.queue);
        if queue.issued > point.cursor
            && let Some(terms) = task.terms()
        {
            terms.ends_later(&queue.timeline, point.cursor, queue.issued);
        }
    }

    /// Resolves the bindings of a task. Returns the failure of an input if there is one.
    #[inline]
    pub(super) fn resolve(&mut self, task: &Task) -> Result<(), FailureRef> {
        self.scratch.bound.clear();
        for binding in task.all_bindings() {
            let bound = match self.bind(binding) {
                Err(_) if self.reserved_again(binding, task) => self.bind(binding),
                bound => bound,
            };
            self.scratch.bound.push(bound?);
        }
        Ok(())
    }

    /// Returns `true` if a task that overwrites a slice without memory got memory for it now.
    #[cold]
    fn reserved_again(&mut self, binding: &Binding, task: &Task) -> bool {
        binding.access == Access::Write && self.reserve_again(binding.slice, task.stream)
    }

    /// Resolves a binding for the backend.
    #[inline]
    pub(super) fn bind(&self, binding: &Binding) -> Result<BoundSlice, FailureRef> {
        let bound = self.hazards.bind(binding);
        bound.map_err(|why| self.unbound(why))
    }

    /// Returns the failure of a binding that cannot be resolved.
    #[cold]
    fn unbound(&self, why: Unbound) -> FailureRef {
        let names = &self.objects.names;
        match why {
            Unbound::Failed(failure) => failure,
            Unbound::Missing => Failure::not_run(&names.other, Reason::Lost),
            Unbound::Beyond { end, bytes } => {
                let why = format!(
                    "a binding ends at byte {end}, but its slice has {bytes} bytes; bind a smaller view"
                );
                Failure::not_run(&names.other, Reason::Refused(why))
            }
        }
    }

    /// Finishes a task that is at `point`: its log entries become points, and tasks that awaited it may be issued.
    pub(super) fn finish(&mut self, stream: u32, mut held: Box<HeldTask>, point: Point) {
        let (sequence, last) = self.scheduler.finish(stream, point, held.paid);
        for binding in held.task.all_bindings() {
            self.hazards.issued(binding.key, (stream, sequence), last);
            self.release_slice(binding.key);
        }
        if held.object != NO_OBJECT {
            let unreferenced = self.objects.release(held.object);
            self.remove_object(unreferenced);
        }
        if !matches!(held.task.op, Op::Launch { .. }) {
            held.task.op = Op::Taken;
        }
        if !held.task.extra.is_none() {
            if !self.withdrawals.is_empty()
                && let Some(terms) = held.task.terms()
            {
                self.forget_withdrawal((stream, sequence), terms.deadline());
            }
            held.task.extra = TaskExtras::default();
        }
        self.scheduler.put_block(held);
        if self.scheduler.stream(stream).dropped {
            self.remove_stream_if_done(stream);
        }
    }

    /// Finishes the first task of a stream, which was taken out of it, without a queue. Tasks that awaited it wait for
    /// no point.
    pub(super) fn finish_in_software(&mut self, stream: u32, held: Box<HeldTask>) {
        self.scheduler.unpark(stream);
        let queue = self.scheduler.queue_of(stream);
        self.finish(stream, held, Point::new(queue, 0));
        self.scheduler.resume(stream);
    }
}

//! Issuing: how the first held task of a stream is issued to its queue.

use std::ops::Range;

use millstream_protocol::{
    Access, Backend, Binding, BoundSlice, Failure, FailureRef, HostNeeds, Op, Point, QueueId,
    Reason, Task, TaskExtras, Terms,
};
use millstream_state::hazards::Unbound;
use millstream_state::objects::NO_OBJECT;
use millstream_state::points::Points;

use super::Server;
use crate::scheduler::Unfinished;
use crate::stream_actor::HeldTask;

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

    // Parts: how a task that takes more cursors than its queue has room for is issued (I12).
    //
    // A replay takes a cursor for each task of its recording, and a copy to the host one for each of its results. If they
    // do not fit, the task does not pass through. It is issued in parts and stays the first held task of its stream until
    // the last part is issued; its queue keeps what is left (`Unfinished`). Until then no other stream issues there, so
    // the cursors are consecutive. The device thread wakes when there is room, as for any task, and a flush of the queue
    // continues it before any turn.
    //
    // ```text
    // depth 4, a replay of 6 tasks   issued     in flight   the stream holds
    // issue_first                    1 2 3 4    4           the replay (unfinished, next 4)
    // 2 complete: progress                      2           the replay
    // flush_queue                    5 6        4           nothing
    // ```
    //
    // Issued as a whole, a recording of 3,000 tasks that is no graph fills a CUDA stream at about 1,000 pending
    // operations, and the driver blocks the device thread for everyone. To split recordings when they are made would cut
    // their graphs; a thread that blocks in the driver would need locks around every call of the context. A replay of
    // 5,000 tasks on the CPU takes 220 to 247 ns for each task instead of 393 to 451, because the entries stay in the
    // ring of the queue.
    //
    // # What checks it
    //
    // `server/tests/order.rs`, the random programs, of which some have devices with fewer tasks in flight than replays
    // have, and `a_long_replay_does_not_fill_the_stream_i12` on the fake CUDA driver. The mutant
    // `invariants/i12_replay_ignores_room` breaks this file.

    /// Returns `true` if the queue has room for all cursors that a task takes, after a refresh.
    pub(super) fn fits(&mut self, queue: QueueId, op: &Op) -> bool {
        let cursors = self.cursors_of(op);
        if cursors > self.scheduler.room(queue) {
            self.scheduler.refresh(queue);
        }
        cursors <= self.scheduler.room(queue)
    }

    /// Returns the next part of a task that takes `cursors` cursors in all.
    pub(super) fn next_part(&self, unfinished: &Unfinished, cursors: usize) -> Range<usize> {
        let next = unfinished.next;
        // The task has its first cursor already.
        let has_first = u64::from(next == 0);
        let room = (self.scheduler.room(unfinished.first.queue) + has_first).max(1);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        next..cursors.min(next.saturating_add(room))
    }

    /// Issues the next part of a task that a full queue interrupted.
    #[cold]
    pub(super) fn issue_part(&mut self, unfinished: Unfinished) -> IssueOutcome {
        let Unfinished { stream, first, .. } = unfinished;
        let Some(mut held) = self.scheduler.take_first(stream) else {
            return IssueOutcome::Parked;
        };
        self.scheduler.set_unfinished(first.queue, None);
        let issued = match held.task.op {
            Op::CopyOut(_) => {
                let bound = self.resolve(&held.task);
                bound.and_then(|()| self.copy_out_part(&held.task, unfinished))
            }
            _ => {
                let bound = self.bind_again(&held.task);
                bound.map(|()| self.replay_part((&held.task, held.object), unfinished))
            }
        };
        if let Err(failure) = issued {
            debug_assert!(false, "a task holds its slices, so they stay as they are");
            self.fail(&mut held.task, failure);
        }
        if self.scheduler.queue(first.queue).unfinished.is_none() {
            self.note_last(&held.task, first);
            self.answer(&mut held.task, first);
        }
        self.finish_issued(stream, held, first);
        IssueOutcome::Issued
    }

    /// Finishes a task of which the last part was issued. It stays the first of its stream if parts are left.
    pub(super) fn finish_issued(&mut self, stream: u32, held: Box<HeldTask>, first: Point) {
        if self.scheduler.queue(first.queue).unfinished.is_some() {
            let deadline = held.task.terms().map(Terms::deadline);
            let issued = self.scheduler.queue(first.queue).issued;
            self.scheduler.put_back_after(stream, held, issued);
            if let Some(deadline) = deadline {
                let sequence = self.scheduler.first_sequence(stream);
                self.forget_withdrawal((stream, sequence), deadline);
            }
            return;
        }
        self.finish(stream, held, first);
    }

    /// Issues the next part of the copies of one answer, whose sources are bound. Fails if the first copy is refused.
    pub(super) fn copy_out_part(
        &mut self,
        task: &Task,
        mut unfinished: Unfinished,
    ) -> Result<(), FailureRef> {
        let Op::CopyOut(copy) = &task.op else {
            return Ok(());
        };
        let (first, copies) = (unfinished.first, copy.landings.len());
        let part = self.next_part(&unfinished, copies);
        let (names, bound) = (&self.objects.names, &self.scratch.bound);
        let layouts = task.extra.more().map_or(&[][..], |extra| &extra.layouts);
        let issued = part.end - unfinished.next.max(1);
        self.device
            .copy_out(copy, &names.copy_out, (bound, layouts), (first, part))?;
        self.scheduler.take_cursors(first.queue, issued as u64);
        unfinished.next += issued + usize::from(unfinished.next == 0);
        if unfinished.next < copies {
            self.scheduler.set_unfinished(first.queue, Some(unfinished));
        }
        Ok(())
    }
}

//! The calls of the device for one task, and the consequences of their results: healed or poisoned bytes, answered
//! callers.

use millstream_protocol::{
    Access, Backend, Failure, FailureRef, HostSource, LaunchCount, Op, Point, Reason, Task, Ticket,
};

use super::Server;
use crate::scheduler::Unfinished;
use millstream_state::points::Points;

impl<B: Backend> Server<B> {
    /// Calls the device for a task whose bindings are resolved.
    pub(super) fn call(
        &mut self,
        stream: u32,
        (task, object): (&mut Task, u32),
        point: Point,
    ) -> Result<(), FailureRef> {
        match &task.op {
            Op::Launch { .. } => self.launch(task, object, point),
            Op::CopyOut(copy) if !copy.landings.is_empty() => {
                let unfinished = Unfinished {
                    stream,
                    first: point,
                    next: 0,
                    is_clean: true,
                };
                self.copy_out_part(task, unfinished)
            }
            _ => {
                let (names, bound) = (&self.objects.names, &self.scratch.bound);
                self.device.call(task, names, &self.table, bound, point)
            }
        }
    }

    /// Calls the device for a launch whose bindings are resolved.
    #[inline]
    pub(super) fn launch(
        &mut self,
        task: &Task,
        object: u32,
        point: Point,
    ) -> Result<(), FailureRef> {
        let (Op::Launch { count, .. }, Some(prepared)) = (&task.op, self.objects.kernel(object))
        else {
            return Err(Failure::not_run(&self.objects.names.other, Reason::Lost));
        };
        self.observers.counters.launches += 1;
        if prepared.prints
            && let Some(stream) = task.stream
        {
            self.table.sink().prints.expect(point, stream);
        }
        let bound = &self.scratch.bound;
        self.device.launch(task, count, prepared, bound, point)
    }

    /// Heals the bytes that a task overwrites.
    ///
    /// A launch whose count is read on the device heals nothing here, since the count may be zero. Its queue knows the
    /// count, and heals when the launch has run.
    #[inline]
    pub(super) fn heal(&mut self, task: &Task) {
        if let Op::Launch {
            count: LaunchCount::Dynamic,
            ..
        } = task.op
        {
            return;
        }
        for binding in task
            .all_bindings()
            .filter(|binding| binding.access == Access::Write)
        {
            let range = binding.offset..binding.offset.saturating_add(binding.len);
            self.hazards.heal(binding.key, &range);
        }
    }

    /// Poisons the bytes that the task would have written, and answers its caller with the failure (I7). Values of the
    /// user that the task owns are dropped on another thread.
    pub(super) fn fail(&mut self, task: &mut Task, failure: FailureRef) {
        self.count_failure(&failure.reason);
        for binding in task.all_bindings() {
            if binding.access.writes() {
                let range = binding.offset..binding.offset.saturating_add(binding.len);
                self.hazards.poison(binding.key, range, failure.clone());
            }
        }
        match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyOut(copy) => copy.reply.send(Err(self.device.error_of(failure))),
            Op::CopyIn(HostSource::Owned(bytes)) => {
                self.collect_after(Box::new(bytes), Points::default());
            }
            Op::Custom(custom) => self.collect_after(custom, Points::default()),
            op => task.op = op,
        }
    }

    /// Answers the caller of this task with its point.
    #[inline]
    pub(super) fn answer(&mut self, task: &mut Task, point: Point) {
        let reply = match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyOut(copy) => copy.reply,
            Op::Answer(reply) => reply,
            Op::DropAfter(value) => {
                return self.collect_after(value, Points::from(point));
            }
            Op::SyncPart(parts) => {
                self.end_batch(point.queue);
                if let Some((reply, ticket)) = parts.issued(point) {
                    reply.send(Ok(ticket));
                }
                return;
            }
            op => {
                task.op = op;
                return;
            }
        };
        // The batch ends first: the point that the caller receives is recorded, or has passed.
        self.end_batch(point.queue);
        let queue = self.scheduler.queue(point.queue);
        let last = queue.issued;
        let mut ticket = Ticket::default();
        ticket.points.push(Point::new(point.queue, last));
        // The caller parks once, for the point.
        reply.send_for(Ok(ticket), &queue.timeline, last);
    }
}

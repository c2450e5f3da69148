//! Passing through: the short way of a task that is ordered with no held task.
//!
//! Streams hold tasks so that a strategy can order those that sit on one queue, and so that what
//! cannot go yet waits in software. A stream that sits alone on its queue while nothing is held
//! anywhere needs neither: its task is issued from the mailbox slot, without being moved. It is still
//! part of a batch: the backend is flushed as it would be otherwise.

use millstream_protocol::backend::Backend;
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::FailureRef;
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::message::{Op, Rare, Task};

use super::Server;
use super::traits::Traits;
use crate::hazards::User;
use crate::objects::NO_OBJECT;
use crate::observers::sampling::PASSING;
use crate::scheduler::joins;
use millstream_protocol::hazard::log::Use;

impl<B: Backend> Server<B> {
    /// Enters a task in the access logs and issues it to the queue where its stream sits alone. No log has an entry of a held task,
    /// so there is nothing to flush and nothing to wait for in software.
    #[inline]
    pub(super) fn pass(
        &mut self,
        (stream, queue): (u32, QueueId),
        task: &mut Task,
        traits: Traits,
        paid: bool,
    ) {
        let (object, tasks) = self.object_and_cursors(&task.op);
        let point = self.next_point(queue);
        // Where it takes several cursors, those from here on; the logs want the last.
        let last = Point::new(queue, point.cursor + tasks - 1);
        self.scratch.bound.clear();
        let mut sound = task.bindings.is_empty() || self.enter_bindings(&mut task.bindings, last);
        let has_extra = !task.extra.is_none();
        if has_extra && let Some(extra) = task.extra.more_mut() {
            sound &= self.enter_bindings(&mut extra.bindings, last);
        }
        if !self.scratch.after.is_empty() {
            self.issue_waits_after(point);
        }
        self.note_task(stream, task, point, PASSING);
        // Sound bindings have no failed ranges: nothing is to be healed. What has no extra is under no terms.
        let is_plain = sound && !has_extra;
        // Two comparisons, and no table of jumps, for what nearly every task is.
        if let (Op::Launch { count, .. }, true) = (&task.op, is_plain)
            && !count.is_zero()
        {
            if let Err(failure) = self.launch(task, object, point) {
                self.fail_at(task, failure, point);
            }
        } else if let (Op::Mark, true) = (&task.op, is_plain) {
            self.device.mark(point);
        } else {
            self.run_passing(task, object, sound, (point, last));
        }
        debug_assert!(
            self.scheduler.queue(queue).issued() == last.cursor,
            "a cursor is left out"
        );
        self.scheduler.passed_through(stream, last.cursor, paid);
        if traits.has(Traits::ASKED)
            || self.scheduler.batch_so_far(queue) >= self.scheduler.batch() as u64
        {
            self.end_batch(queue);
        }
    }

    /// The key of the kernel or recording that a task names, and how many cursors it takes.
    #[inline(always)]
    fn object_and_cursors(&self, op: &Op) -> (u32, u64) {
        if let Op::Launch { .. } = op {
            (self.objects.key_of(op), 1)
        } else if let Op::Mark = op {
            (NO_OBJECT, 1)
        } else {
            self.object_and_cursors_of_any(op)
        }
    }

    #[inline(never)]
    fn object_and_cursors_of_any(&self, op: &Op) -> (u32, u64) {
        match op {
            Op::Replay { .. } => {
                let object = self.objects.key_of(op);
                let stored = self.objects.recording(object);
                let tasks = stored.map_or(1, |stored| stored.plan.tasks().len().max(1));
                (object, tasks as u64)
            }
            Op::CopyOut(copy) => (NO_OBJECT, copy.landings.len().max(1) as u64),
            op => (self.objects.key_of(op), 1),
        }
    }

    /// Enters bindings of a task that is to be at `point` in the access logs, notes in `after` what it
    /// must come after, and binds them. Says whether each is of a slice with memory and without
    /// failures; where one is not, what is bound is of no use.
    #[inline]
    fn enter_bindings(&mut self, bindings: &mut [Binding], point: Point) -> bool {
        let Self {
            objects,
            hazards,
            scheduler,
            scratch,
            ..
        } = self;
        let all = scratch.bound.len() + bindings.len();
        let user = User::issued(point);
        for binding in bindings {
            let Some(key) = objects.slice(binding.slice) else {
                continue;
            };
            binding.key = key;
            let passed = |point| scheduler.has_passed(point);
            let after = &mut scratch.after;
            let bound = hazards.enter(key, binding, &user, passed, |used| match used {
                Use::Issued(other) => {
                    if !joins(after, other) {
                        after.push(other);
                    }
                }
                Use::Held { .. } => {
                    debug_assert!(false, "a log has an entry of a held task, but none is held");
                }
            });
            if let Some(bound) = bound {
                scratch.bound.push(bound);
            }
        }
        scratch.bound.len() == all
    }

    /// A task that passes through and is a replay, more than a call, or has a binding that has no memory, or failed ranges.
    fn run_passing(
        &mut self,
        task: &mut Task,
        object: u32,
        sound: bool,
        (point, last): (Point, Point),
    ) {
        if let (Op::Replay { overlap, .. }, true) = (&task.op, sound && task.extra.is_none())
            && object != NO_OBJECT
        {
            return self.replay_bound(object, task.scalars(), point, (*overlap, false));
        }
        let resolved = match sound {
            true => Ok(()),
            false => self.resolve(task),
        };
        self.run(task, object, resolved, point);
        // A task that came to nothing has taken one cursor, and the logs say that it ends with its last: nothing is at the others,
        // each of which the backend is told of, as cursors go up by one.
        while self.scheduler.queue(last.queue).issued() < last.cursor {
            let empty = self.scheduler.next_point(last.queue);
            self.device.mark(empty);
        }
        // What the backend did not take of the message is dropped here: the mailbox does not.
        task.op = Op::Taken;
        task.extra = Rare::default();
    }

    /// Issues the waits that were noted for the task that is to be at `place`.
    #[cold]
    fn issue_waits_after(&mut self, place: Point) {
        let mut after = std::mem::take(&mut self.scratch.after);
        self.issue_waits(place, &after);
        after.clear();
        self.scratch.after = after;
    }

    /// A task that was to run at `point` failed: its place there stays empty.
    #[cold]
    fn fail_at(&mut self, task: &mut Task, failure: FailureRef, point: Point) {
        self.device.mark(point);
        self.fail(task, failure);
    }
}

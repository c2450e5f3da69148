//! Passing through: the shortcut for a task that is ordered with no held task.
//!
//! Streams hold tasks for two reasons: the strategy orders the streams of one queue, and a task that cannot be issued
//! yet waits in software. A stream that is alone on its queue while no task is held anywhere needs neither, so its task
//! is issued from the mailbox slot without being moved. It is still part of a batch, which ends as usual.

use millstream_protocol::{
    Backend, Binding, FailureRef, Op, Point, Task, TaskExtras, hazard::log::Use,
};

use super::Server;
use super::admit::OpFlags;
use crate::scheduler::Passing;
use millstream_state::hazards::Accessor;
use millstream_state::observers::meter::PASSING;

impl<B: Backend> Server<B> {
    /// Enters a task in the access logs and issues it to the queue on which its stream is alone. No log has an entry of
    /// a held task, so there is nothing to flush and no held task to wait for.
    #[inline(always)]
    pub(super) fn pass(&mut self, stream: u32, passing: Passing, task: &mut Task, flags: OpFlags) {
        // The logs record the last point of a task that takes several cursors.
        let Passing {
            point,
            last,
            fills_batch,
        } = passing;
        let is_launch = flags.has(OpFlags::PLAIN);
        let object = match is_launch {
            true => self.objects.key_of_launch(&task.op),
            false => self.objects.key_of(&task.op),
        };
        self.observers.counters.tasks += 1;
        self.scratch.bound.clear();
        let has_extra = !is_launch && !task.extra.is_none();
        let mut is_clean = true;
        if !task.bindings.is_empty() {
            let mut bindings = task.bindings.len();
            self.enter_bindings(&mut task.bindings, last);
            if has_extra && let Some(extra) = task.extra.more_mut() {
                // Those beyond the inline room.
                bindings += extra.bindings.len();
                self.enter_bindings(&mut extra.bindings, last);
            }
            is_clean = self.scratch.bound.len() == bindings;
            if !self.scratch.after.is_empty() {
                self.issue_waits_after(point);
            }
        }
        self.note_task(stream, task, point, PASSING);
        // Clean bindings have no poisoned ranges, so nothing is healed. A task without extra has no terms.
        let is_plain = is_clean && !has_extra;
        if is_launch
            && is_clean
            && let Op::Launch { count, .. } = &task.op
            && !count.is_zero()
        {
            if let Err(failure) = self.launch(task, object, point) {
                self.fail_at(task, failure, point);
            }
        } else if let (Op::Mark, true) = (&task.op, is_plain) {
            self.device.mark(point);
        } else {
            self.run_passing(stream, (task, object), is_clean, (point, last));
        }
        debug_assert!(
            self.scheduler.queue(point.queue).issued == last.cursor,
            "a cursor of the task was left out"
        );
        if flags.has(OpFlags::ANSWER) || fills_batch {
            self.end_batch(point.queue);
        }
    }

    /// Returns the number of cursors that a task takes.
    pub(super) fn cursors_of(&self, op: &Op) -> u64 {
        self.objects.tasks_of(op).max(1) as u64
    }

    /// Enters bindings of a task that will be at `point` in the access logs, stores in `after` the points that it must
    /// come after, and binds those whose slices have memory and no poisoned ranges. Unless these are all, the bound ranges
    /// are not usable. Not inlined: beside the rest of a launch its loop would have too few registers.
    #[inline(never)]
    fn enter_bindings(&mut self, bindings: &mut [Binding], point: Point) {
        let Self {
            objects,
            hazards,
            scheduler,
            scratch,
            ..
        } = self;
        let by = Accessor::issued(point);
        for binding in bindings {
            let Some(key) = objects.slice(binding.slice) else {
                continue;
            };
            binding.key = key;
            let passed = |point| scheduler.has_passed(point);
            let after = &mut scratch.after;
            let bound = hazards.enter(key, binding, by, passed, |used| match used {
                Use::Issued(other) => after.insert(other),
                Use::Held { .. } => {
                    debug_assert!(
                        false,
                        "a log has an entry of a held task, but no task is held"
                    );
                }
            });
            if let Some(bound) = bound {
                scratch.bound.push(bound);
            }
        }
    }

    /// Issues a task that passes through and is a replay, needs more than a call, or has a binding without memory or
    /// with poisoned ranges.
    fn run_passing(
        &mut self,
        stream: u32,
        (task, object): (&mut Task, u32),
        is_clean: bool,
        (point, last): (Point, Point),
    ) {
        if is_clean && task.extra.is_none() && matches!(task.op, Op::Replay { .. }) {
            return self.replay_bound(stream, (task, object), point, true);
        }
        let resolved = match is_clean {
            true => Ok(()),
            false => self.resolve(task),
        };
        self.run(stream, (task, object), resolved, point);
        // A task that was not executed has taken one cursor, but the logs say that it ends at its last. The other
        // cursors are marked one by one, since cursors of the backend go up by one.
        while self.scheduler.queue(last.queue).issued < last.cursor {
            let empty = self.scheduler.next_point(last.queue);
            self.device.mark(empty);
        }
        // Parts of the message that the backend did not take are dropped here, since the mailbox drops nothing.
        task.op = Op::Taken;
        task.extra = TaskExtras::default();
    }

    /// Issues the waits of the task that will be at `place`.
    #[cold]
    fn issue_waits_after(&mut self, place: Point) {
        let mut after = std::mem::take(&mut self.scratch.after);
        self.issue_waits(place, &after);
        after.clear();
        self.scratch.after = after;
    }

    /// Fails a task that was to run at `point`: an empty task takes its place.
    #[cold]
    fn fail_at(&mut self, task: &mut Task, failure: FailureRef, point: Point) {
        self.device.mark(point);
        self.fail(task, failure);
    }
}

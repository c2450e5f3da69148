//! Replays: the tasks of a recording, in order, on one queue.
//!
//! # Protocol
//!
//! To the hazards and the scheduler a replay is one task: its accesses are those of its parameters. It takes one cursor
//! for each task of the recording, and its log entries name the last one. The queue orders the tasks, so dependencies
//! inside a recording cost nothing, and parameters that name the same bytes need no extra care.
//! If its tasks went to several queues, each replay would have to resolve the waits between them anew, by the bytes of
//! its parameters, and no driver's graph could hold it. Branches of one recording overlap only where a driver runs the
//! whole recording (`docs/decisions/0017`).
//!
//! 1. *Bind.* Each parameter is bound once, as if it were overwritten, so that poisoned ranges do not fail the whole
//!    replay. Slices without memory that the replay writes get memory first, if there is some.
//! 2. *Heal.* A parameter that is only overwritten is healed, unless another parameter reads the same bytes: that one
//!    may read them before the write.
//! 3. *Clean.* If no parameter has poisoned ranges, one call of the backend runs all tasks, or those before one that is
//!    refused ([`Server::replay_bound`]).
//! 4. *Checked.* Otherwise, and behind a refused task, each task is issued on its own: it inherits the failure of what
//!    it reads, poisons what it would have written, and heals what it overwrites. So failures are as exact as without a
//!    recording (I7).
//!
//! A replay may have more tasks than its queue has room for. It is then issued in parts (`issue`), unless one call of
//! the backend runs the whole plan.
//!
//! # Example
//!
//! A recording has two tasks: `t1` reads p and writes q, `t2` overwrites r. The slice of p has poisoned bytes.
//!
//! ```text
//!  cursor   task   what happens
//!  5        t1     reads poisoned bytes: fails, q is poisoned, and an empty task takes the cursor (`mark`)
//!  6        t2     is issued, r is healed
//! ```
//!
//! # What checks it
//!
//! `server/tests/failures.rs`, `server/tests/memory.rs` and the random programs, whose oracle computes a replay task by
//! task, also with fewer tasks in flight than a replay has; the modules `replays`, `recordings` and `replaying` of the
//! conformance suite. The mutants `invariants/i1_replay_takes_one_cursor`, `invariants/i7_replay_of_failed_data`
//! and `invariants/i7_stale_temporaries` break this file.

use std::ops::Range;

use millstream_protocol::{
    Access, Backend, Binding, BoundSlice, Failure, FailureRef, Op, Point, QueueId, Replay, Task,
};
use smallvec::SmallVec;

use super::Server;
use crate::scheduler::Unfinished;
use millstream_state::hazards::Backing;
use millstream_state::objects::StoredRecording;

impl<B: Backend> Server<B> {
    /// Replays a recording: binds its parameters, then issues its tasks from `point` on, as far as the queue has room.
    pub(super) fn replay(&mut self, stream: u32, (task, key): (&mut Task, u32), point: Point) {
        if self.objects.recording(key).is_none() {
            return self.device.mark(point);
        }
        match self.bind_parameters(task) {
            Ok(is_poisoned) => self.replay_bound(stream, (task, key), point, !is_poisoned),
            Err(failure) => {
                self.device.mark(point);
                let failure = Failure::input(&self.objects.names.replay, failure);
                self.fail(task, failure);
            }
        }
    }

    /// Replays a recording whose parameters are bound in `scratch.bound`. `is_clean` says that each has memory, and that
    /// none has poisoned ranges.
    pub(super) fn replay_bound(
        &mut self,
        stream: u32,
        (task, key): (&Task, u32),
        point: Point,
        is_clean: bool,
    ) {
        match self.objects.recording(key) {
            Some(stored) if !stored.plan.tasks().is_empty() => {
                if !stored.stale.is_empty() {
                    self.forget_stale(key, point.queue);
                }
            }
            _ => return self.device.mark(point),
        }
        let unfinished = Unfinished {
            stream,
            first: point,
            next: 0,
            is_clean,
        };
        self.replay_part((task, key), unfinished);
    }

    /// Issues the next part of a replay whose parameters are bound, and stores in its queue what is left.
    pub(super) fn replay_part(&mut self, (task, key): (&Task, u32), mut unfinished: Unfinished) {
        let Some(stored) = self.objects.recording(key) else {
            return;
        };
        let tasks = stored.plan.tasks().len();
        let part = self.next_part(&unfinished, tasks);
        self.expect_prints((task, key), part.clone(), unfinished.first);
        if unfinished.is_clean {
            self.replay_clean((task, key), part.clone(), &mut unfinished);
        }
        while unfinished.next < part.end {
            self.replay_checked((key, unfinished.next), task.scalars(), unfinished.first);
            unfinished.next += 1;
        }
        if unfinished.next < tasks {
            let queue = unfinished.first.queue;
            self.scheduler.set_unfinished(queue, Some(unfinished));
        } else {
            self.note_last(task, unfinished.first);
        }
    }

    /// Launches of a part of a replay may print.
    fn expect_prints(&self, (task, key): (&Task, u32), part: Range<usize>, first: Point) {
        let (Some(stored), Some(stream)) = (self.objects.recording(key), task.stream) else {
            return;
        };
        if !stored.plan.prints() {
            return;
        }
        for index in part.filter(|index| stored.plan.call(*index).prints) {
            let point = Point::new(first.queue, first.cursor + index as u64);
            self.table.sink().prints.expect(point, stream);
        }
    }

    /// Forgets failures that an earlier replay left in temporaries: they are not failures of this one (I7).
    #[cold]
    fn forget_stale(&mut self, key: u32, queue: QueueId) {
        let Some(stored) = self.objects.recording(key) else {
            return;
        };
        let parameters = &self.scratch.bound;
        let stale = stored.stale.iter().map(|index| BoundSlice {
            access: Access::Write,
            ..parameters[*index as usize]
        });
        let inner = &mut self.scratch.inner;
        inner.clear();
        inner.extend(stale.filter(|bound| bound.page.is_some() && bound.len > 0));
        self.device.backend.forget(queue, inner);
    }

    /// Issues a part of a recording whose parameters are clean, or all of it if the backend runs it by one call. Stops
    /// behind a task that is refused.
    fn replay_clean(
        &mut self,
        (task, key): (&Task, u32),
        part: Range<usize>,
        unfinished: &mut Unfinished,
    ) {
        let Self {
            objects,
            device,
            scheduler,
            scratch,
            observers,
            ..
        } = self;
        let (Some(stored), Op::Replay { overlap, .. }) = (objects.recording_mut(key), &task.op)
        else {
            return;
        };
        let StoredRecording {
            plan,
            prepared,
            bound,
            ..
        } = stored;
        let (first, begin) = (unfinished.first, part.start);
        let place = (first.queue, first.cursor);
        let mut replay = Replay::new(plan, place, &scratch.bound, task.scalars(), bound);
        (replay.overlap, replay.part) = (*overlap, part);
        let (next, failure) = device.replay(&mut replay, prepared);
        unfinished.next = next;
        // The replay has the cursor of its first task already.
        let cursors = (next - begin.max(1)) as u64;
        scheduler.take_cursors(first.queue, cursors);
        observers.counters.tasks += cursors;
        let issued = next - usize::from(failure.is_some());
        observers.counters.launches += plan.launches_of(begin..issued);
        if let Some(failure) = failure {
            unfinished.is_clean = false;
            device.mark(Point::new(first.queue, first.cursor + issued as u64));
            let touched = self.touched((key, issued), first);
            self.fail_recorded(&touched, &failure);
        }
    }

    /// Returns `true` if the slice of a parameter got no memory.
    fn lacks_memory(&self, binding: &Binding) -> bool {
        let key = self.objects.slice(binding.slice);
        let got_none = |key| matches!(self.hazards.slice(key).backing, Backing::Failed(..));
        binding.len > 0 && key.is_some_and(got_none)
    }

    /// Binds the parameters. Returns `true` if any of them has poisoned ranges, or no memory.
    fn bind_parameters(&mut self, task: &Task) -> Result<bool, FailureRef> {
        // Memory comes before bindings: two parameters may name one slice, and only the second may be written.
        for binding in task.all_bindings() {
            if binding.access.writes() && self.lacks_memory(binding) {
                self.reserve_again(binding.slice, task.stream);
            }
        }
        let mut is_poisoned = false;
        for binding in task.all_bindings() {
            if let Some(key) = self.objects.slice(binding.slice)
                && !self.hazards.slice(key).is_clean()
            {
                // A replay that overwrites these bytes heals them, or fails again; but another parameter that names the
                // same bytes may read them first.
                let mut others = task.all_bindings();
                let is_read = others.any(|other| other.access.reads() && other.overlaps(binding));
                if binding.access == Access::Write && !is_read {
                    let end = binding.offset + binding.len;
                    self.hazards.heal(key, &(binding.offset..end));
                }
                is_poisoned |= !self.hazards.slice(key).is_clean();
            }
            is_poisoned |= self.lacks_memory(binding);
        }
        self.bind_again(task)?;
        Ok(is_poisoned)
    }

    /// Binds the parameters as if each were overwritten: poisoned ranges are judged for each recorded task, and so is a
    /// slice without memory.
    pub(super) fn bind_again(&mut self, task: &Task) -> Result<(), FailureRef> {
        self.scratch.bound.clear();
        for binding in task.all_bindings() {
            let bound = match self.lacks_memory(binding) {
                true => without_memory(binding),
                false => self.bind(&Binding {
                    access: Access::Write,
                    ..*binding
                })?,
            };
            self.scratch.bound.push(bound);
        }
        Ok(())
    }

    /// Issues one task of a replay that begins at `first` and has poisoned parameters. The task inherits the failure of
    /// what it reads, and heals what it overwrites.
    #[cold]
    fn replay_checked(&mut self, (key, index): (u32, usize), words: &[u64], first: Point) {
        let point = match index {
            // The replay has taken it already.
            0 => first,
            _ => self.next_point(first.queue),
        };
        let touched = self.touched((key, index), first);
        let inherited = touched
            .iter()
            .find_map(|(slice, range, access)| self.hazards.failure(*slice, range, *access));
        let Self {
            objects,
            device,
            scratch,
            observers,
            ..
        } = self;
        let Some(stored) = objects.recording_mut(key) else {
            return;
        };
        let (plan, bound) = (&stored.plan, &mut stored.bound);
        let name = &plan.call(index).name;
        let recorded = &plan.tasks()[index];
        let outcome = match inherited {
            Some(cause) => Err(Failure::input(name, cause)),
            None => {
                let place = (first.queue, first.cursor);
                let mut replay = Replay::new(plan, place, &scratch.bound, words, bound);
                device.replay_one(&mut replay, index, name)
            }
        };
        // A count that is read on the device may be zero: then nothing is overwritten.
        let (is_launch, overwrites) = (recorded.kernel().is_some(), !recorded.is_dynamic());
        observers.counters.launches += u64::from(outcome.is_ok() && is_launch);
        match outcome {
            Err(failure) => {
                self.device.mark(point);
                self.fail_recorded(&touched, &failure);
            }
            Ok(()) if overwrites => {
                for (slice, range, _) in with(&touched, |access| access == Access::Write) {
                    self.hazards.heal(*slice, range);
                }
            }
            Ok(()) => {}
        }
    }

    /// Returns what a recorded task touches in the replay that begins at `first`.
    fn touched(&mut self, (key, index): (u32, usize), first: Point) -> SmallVec<[Touched; 4]> {
        let Some(stored) = self.objects.recording_mut(key) else {
            return SmallVec::new();
        };
        let place = (first.queue, first.cursor);
        let parameters = &self.scratch.bound;
        // Creating the replay binds the tasks, if they are not bound.
        let replay = Replay::new(&stored.plan, place, parameters, &[], &mut stored.bound);
        let bindings: SmallVec<[BoundSlice; 8]> = replay.bindings(index).into();
        let touched = bindings.iter().filter(|bound| bound.len > 0);
        let touched = touched.filter_map(|bound| {
            let range = bound.slice_offset..bound.slice_offset + bound.len;
            Some((self.objects.slice(bound.slice)?, range, bound.access))
        });
        touched.collect()
    }

    #[cold]
    fn fail_recorded(&mut self, touched: &[Touched], failure: &FailureRef) {
        self.count_failure(&failure.reason);
        for (slice, range, _) in with(touched, Access::writes) {
            self.hazards.poison(*slice, range.clone(), failure.clone());
        }
    }
}

/// Bytes that a recorded task touches: the key of their slice, their range there, and the access.
type Touched = (u32, Range<u64>, Access);

/// Iterates over what is touched with the chosen accesses.
fn with(touched: &[Touched], chosen: impl Fn(Access) -> bool) -> impl Iterator<Item = &Touched> {
    touched.iter().filter(move |(_, _, access)| chosen(*access))
}

/// Returns the bound range of a parameter whose slice got no memory. Only recorded tasks that touch it fail.
fn without_memory(binding: &Binding) -> BoundSlice {
    BoundSlice {
        page: None,
        offset: 0,
        len: binding.len,
        access: Access::Write,
        slice: binding.slice,
        slice_offset: binding.offset,
    }
}

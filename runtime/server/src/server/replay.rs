//! Replaying: the tasks of a recording, in order, on one queue.
//!
//! One queue orders them, so edges inside a recording cost nothing and aliased parameters are right
//! by themselves. The whole replay is one task to the hazards. Failures stay exact: where a
//! parameter has failed ranges, each inner task is looked at by itself (I7).

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::backend::{Backend, BoundCount, BoundSlice, Launch, Place};
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::kernel::BackendKernel;
use millstream_protocol::kernel::ExecutionMode;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::Task;
use millstream_protocol::recording::{RecordedBinding, RecordedOp, RecordedTask, cut};

use super::Server;
use super::loss::Loss;
use crate::hazards::Backing;
use crate::objects::OpNames;

impl<B: Backend> Server<B> {
    pub(super) fn replay(&mut self, key: u32, task: &mut Task, point: Point) {
        if self.objects.recording(key).is_none() {
            return self.backend.mark(point.queue, point.cursor);
        }
        let faulty = match self.bind_parameters(task) {
            Ok(faulty) => faulty,
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                return self.fail(task, Failure::input(&self.objects.names().replay, failure));
            }
        };
        self.replay_bound(key, task.scalars(), point, faulty);
    }

    /// The same once the parameters are bound, in `bound`; they are faulty where any has failed ranges.
    pub(super) fn replay_bound(&mut self, key: u32, words: &[u64], point: Point, faulty: bool) {
        let stored = self.objects.recording(key);
        let tasks = stored.map_or(0, |stored| stored.tasks.len());
        if tasks == 0 {
            return self.backend.mark(point.queue, point.cursor);
        }
        let mut inner: Vec<BoundSlice> = std::mem::take(&mut self.scratch.inner);
        self.forget_stale(key, point, &mut inner);
        let mut begun = 0;
        if !faulty {
            match self.replay_sound(key, words, point, &mut inner) {
                Ok(tasks) => begun = tasks,
                Err((index, failure)) => {
                    self.fail_recorded(&inner, &failure);
                    begun = index + 1;
                }
            }
        }
        for index in begun..tasks {
            self.replay_checked((key, index), words, &mut inner, point.queue);
        }
        self.scratch.inner = inner;
    }

    /// Failures that lie in temporaries, of an earlier replay, are not those of this one (I7).
    fn forget_stale(&mut self, key: u32, point: Point, stale: &mut Vec<BoundSlice>) {
        let Some(stored) = self
            .objects
            .recording(key)
            .filter(|known| !known.stale.is_empty())
        else {
            return;
        };
        stale.clear();
        let bound = stored.stale.iter().map(|index| BoundSlice {
            access: Access::Write,
            ..self.scratch.bound[*index as usize]
        });
        stale.extend(bound.filter(|bound| bound.page.is_some() && bound.len > 0));
        self.backend.forget(point.queue, stale);
    }

    /// Runs the tasks of a recording whose parameters have no failed ranges, and tells how many there are.
    ///
    /// # Errors
    /// Which one failed, and why; its bindings are in `inner`. Those before it are issued.
    fn replay_sound(
        &mut self,
        key: u32,
        words: &[u64],
        point: Point,
        inner: &mut Vec<BoundSlice>,
    ) -> Result<usize, (usize, FailureRef)> {
        let Self {
            objects,
            backend,
            scheduler,
            scratch,
            observers,
            loss,
            ..
        } = self;
        let (bound, patched, names) = (&scratch.bound, &mut scratch.patched, objects.names());
        let Some(stored) = objects.recording(key) else {
            return Ok(0);
        };
        // The replay has the cursor of its first task already.
        let (first, task_count) = (scheduler.queue(point.queue).issued, stored.tasks.len());
        backend.begin_replay(point.queue, stored.id, task_count);
        let tasks = stored.tasks.iter().zip(&stored.kernels).enumerate();
        let called = tasks
            .into_iter()
            .try_for_each(|(index, (recorded, kernel))| {
                bind_parts(bound, recorded, inner);
                let here = Point::new(point.queue, first + index as u64);
                let step = Step {
                    recorded,
                    kernel,
                    bindings: inner,
                    scalars: patch(recorded, words, patched),
                };
                step.run(backend, loss, names, here)
                    .map_err(|failure| (index, failure))
            });
        // What was taken down before a failure is issued all the same; a failure of that comes first.
        let ended = backend.end_replay(point.queue).map_err(|(index, refused)| {
            bind_parts(bound, &stored.tasks[index], inner);
            let kernel = &stored.kernels[index];
            let name = kernel.as_ref().map_or(&names.replay, |(name, _)| name);
            (index, loss.refusal(backend, name, refused))
        });
        let (issued, outcome) = match ended.and(called) {
            Ok(()) => {
                observers.count().launches += stored.launches;
                (task_count, Ok(task_count))
            }
            Err((index, failure)) => {
                backend.mark(point.queue, first + index as u64);
                (index + 1, Err((index, failure)))
            }
        };
        scheduler.take_cursors(point.queue, issued as u64 - 1);
        observers.count().tasks += issued as u64 - 1;
        outcome
    }

    /// Resolves the parameters and says whether any has failed ranges, or no memory.
    fn bind_parameters(&mut self, task: &Task) -> Result<bool, FailureRef> {
        self.scratch.bound.clear();
        let mut faulty = false;
        for binding in task.all_bindings() {
            let key = self.objects.slice(binding.slice);
            let has_none = |key| matches!(self.hazards.backing(key), Backing::Failed(..));
            let mut lacks_memory = binding.len > 0 && key.is_some_and(has_none);
            if lacks_memory && binding.access.writes() {
                lacks_memory = !self.reserve_again(binding.slice, task.stream);
            }
            if let Some(key) = key
                && !self.hazards.is_clean(key)
            {
                // What a replay writes before it reads is data again, or fails anew; but where another parameter
                // names the same bytes they may be read first through that one.
                let mut others = task.all_bindings();
                let is_read = others.any(|other| other.access.reads() && other.overlaps(binding));
                if binding.access == Access::Write && !is_read {
                    let end = binding.offset + binding.len;
                    self.hazards.heal(key, &(binding.offset..end));
                }
                faulty |= !self.hazards.is_clean(key);
            }
            // Failed ranges are judged by inner task, and so is a slice that got no memory.
            if lacks_memory {
                faulty = true;
                self.scratch.bound.push(without_memory(binding));
                continue;
            }
            let bound = self.bind(&Binding {
                access: Access::Write,
                ..*binding
            })?;
            self.scratch.bound.push(bound);
        }
        Ok(faulty)
    }

    /// One inner task where parameters have failed ranges: it inherits what it reads and heals what
    /// it defines. The replay has the cursor of its first task already.
    fn replay_checked(
        &mut self,
        (key, index): (u32, usize),
        words: &[u64],
        inner: &mut Vec<BoundSlice>,
        queue: QueueId,
    ) {
        let point = match index {
            0 => Point::new(queue, self.scheduler.queue(queue).issued),
            _ => self.next_point(queue),
        };
        let Self {
            objects,
            hazards,
            backend,
            scratch,
            loss,
            ..
        } = self;
        let Some(stored) = objects.recording(key) else {
            return;
        };
        let (recorded, kernel) = (&stored.tasks[index], &stored.kernels[index]);
        bind_parts(&scratch.bound, recorded, inner);
        let inherited = inner
            .iter()
            .filter(|bound| bound.len > 0)
            .find_map(|bound| {
                let range = bound.slice_offset..bound.slice_offset + bound.len;
                hazards.failure(objects.slice(bound.slice)?, &range, bound.access)
            });
        let names = objects.names();
        let name = kernel.as_ref().map_or(&names.replay, |(name, _)| name);
        let outcome = match inherited {
            Some(cause) => Err(Failure::input(name, cause)),
            None => {
                let step = Step {
                    recorded,
                    kernel,
                    bindings: inner,
                    scalars: patch(recorded, words, &mut scratch.patched),
                };
                step.run(backend, loss, names, point)
            }
        };
        let (is_launch, is_dynamic) = (recorded.kernel().is_some(), recorded.is_dynamic());
        self.observers.count().launches += u64::from(outcome.is_ok() && is_launch);
        match outcome {
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                self.fail_recorded(inner, &failure);
            }
            // A count that is read on the device may be zero.
            Ok(()) if is_dynamic => {}
            Ok(()) => {
                for bound in inner.iter().filter(|bound| bound.access == Access::Write) {
                    if let Some(slice) = self.objects.slice(bound.slice) {
                        let range = bound.slice_offset..bound.slice_offset + bound.len;
                        self.hazards.heal(slice, &range);
                    }
                }
            }
        }
    }

    fn fail_recorded(&mut self, inner: &[BoundSlice], failure: &FailureRef) {
        self.count_failure(&failure.reason);
        for bound in inner.iter().filter(|bound| bound.access.writes()) {
            if let Some(slice) = self.objects.slice(bound.slice) {
                let range = bound.slice_offset..bound.slice_offset + bound.len;
                self.hazards.poison(slice, range, failure.clone());
            }
        }
    }
}

/// A parameter whose slice got no memory: tasks of the recording that touch it fail, and no others.
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

/// One task of a recording at one replay.
struct Step<'a> {
    recorded: &'a RecordedTask,
    kernel: &'a Option<(Arc<str>, BackendKernel)>,
    bindings: &'a [BoundSlice],
    scalars: &'a [u64],
}

impl Step<'_> {
    /// The backend's call.
    #[inline]
    fn run<B: Backend>(
        &self,
        backend: &mut B,
        loss: &mut Loss,
        names: &OpNames,
        point: Point,
    ) -> Result<(), FailureRef> {
        let place = |name| Place {
            queue: point.queue,
            cursor: point.cursor,
            name,
        };
        match (&self.recorded.op, self.bindings) {
            (RecordedOp::Launch { count, .. }, _) => {
                let Some((name, code)) = self.kernel else {
                    return Err(Failure::not_run(&names.replay, Reason::Lost));
                };
                let (bindings, count) = match (count, self.bindings) {
                    (LaunchCount::Static(count), all) => (all, BoundCount::Static(*count)),
                    (LaunchCount::Dynamic, [bindings @ .., count]) => {
                        (bindings, BoundCount::Dynamic(*count))
                    }
                    (LaunchCount::Dynamic, []) => (&[][..], BoundCount::Static([0; 3])),
                };
                let launch = Launch {
                    name,
                    kernel: code,
                    count,
                    // Nothing is recorded that was not checked.
                    mode: ExecutionMode::Checked,
                    bindings,
                    scalars: self.scalars,
                    metadata: &self.recorded.metadata,
                    tensor_maps: &self.recorded.tensor_maps,
                };
                backend
                    .launch(point.queue, point.cursor, &launch)
                    .map_err(|refused| loss.refusal(backend, name, refused))
            }
            (RecordedOp::Copy, [source, target]) => {
                let outcome = backend.copy(place(&names.copy), source, target);
                outcome.map_err(|refused| loss.refusal(backend, &names.copy, refused))
            }
            (RecordedOp::Fill(pattern), [target]) => {
                debug_assert!(
                    pattern.divides(target.offset, target.len),
                    "views are whole elements"
                );
                let outcome = backend.fill(place(&names.fill), target, *pattern);
                outcome.map_err(|refused| loss.refusal(backend, &names.fill, refused))
            }
            _ => {
                backend.mark(point.queue, point.cursor);
                Ok(())
            }
        }
    }
}

/// The packed scalars of a task, with this replay's words in their slots.
#[inline]
fn patch<'a>(recorded: &'a RecordedTask, words: &[u64], patched: &'a mut Vec<u64>) -> &'a [u64] {
    if recorded.slots.is_empty() {
        return &recorded.scalars;
    }
    patched.clear();
    patched.extend_from_slice(&recorded.scalars);
    for slot in &recorded.slots {
        let place = patched.get_mut(slot.word as usize);
        // Clients give a word for each slot; a message that was made by hand may not.
        if let (Some(place), Some(word)) = (place, words.get(slot.slot as usize)) {
            *place = *word;
        }
    }
    patched
}

/// The bindings of one task of a recording, as parts of its parameters.
#[inline]
fn bind_parts(parameters: &[BoundSlice], recorded: &RecordedTask, inner: &mut Vec<BoundSlice>) {
    inner.clear();
    let part = |binding: &RecordedBinding| part(parameters, binding);
    inner.extend(recorded.bindings.iter().map(part));
}

/// A part of a resolved parameter.
#[inline]
fn part(parameters: &[BoundSlice], binding: &RecordedBinding) -> BoundSlice {
    let parameter = &parameters[binding.parameter as usize];
    // One without a page has no bytes.
    let (offset, len) = cut(binding.offset, binding.len, parameter.len);
    BoundSlice {
        page: parameter.page,
        offset: parameter.offset + offset,
        len,
        access: binding.access,
        slice: parameter.slice,
        slice_offset: parameter.slice_offset + offset,
    }
}

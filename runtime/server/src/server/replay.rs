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
use millstream_protocol::id::Point;
use millstream_protocol::kernel::BackendKernel;
use millstream_protocol::kernel::ExecutionMode;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::Task;
use millstream_protocol::recording::{RecordedBinding, RecordedOp, RecordedTask, cut};

use super::loss::Loss;
use super::{OpNames, Server};
use crate::slice::Backing;

impl<B: Backend> Server<B> {
    pub(super) fn replay(&mut self, key: u32, task: &mut Task, point: Point) {
        if !self.recordings.contains(key as usize) {
            return self.backend.mark(point.queue, point.cursor);
        }
        let faulty = match self.bind_parameters(task) {
            Ok(faulty) => faulty,
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                return self.fail(task, Failure::input(&self.names.replay, failure));
            }
        };
        self.replay_bound(key, task.scalars(), point, faulty);
    }

    /// The same once the parameters are bound, in `bound`; they are faulty where any has failed ranges.
    pub(super) fn replay_bound(&mut self, key: u32, words: &[u64], point: Point, faulty: bool) {
        if self.recordings[key as usize].tasks.is_empty() {
            return self.backend.mark(point.queue, point.cursor);
        }
        let mut inner: Vec<BoundSlice> = std::mem::take(&mut self.inner);
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
        self.replay_faulty(key, words, point, begun, &mut inner);
        self.inner = inner;
    }

    /// Failures that lie in temporaries, of an earlier replay, are not those of this one (I7).
    fn forget_stale(&mut self, key: u32, point: Point, stale: &mut Vec<BoundSlice>) {
        let parameters = &self.recordings[key as usize].stale;
        if parameters.is_empty() {
            return;
        }
        stale.clear();
        let bound = parameters.iter().map(|index| BoundSlice {
            access: Access::Write,
            ..self.bound[*index as usize]
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
            recordings,
            backend,
            scheduler,
            bound,
            patched,
            observers,
            names,
            loss,
            ..
        } = self;
        let stored = &recordings[key as usize];
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

    /// Runs the tasks of a recording from `begun` on, each looked at by itself.
    fn replay_faulty(
        &mut self,
        key: u32,
        words: &[u64],
        point: Point,
        begun: usize,
        inner: &mut Vec<BoundSlice>,
    ) {
        for index in begun..self.recordings[key as usize].tasks.len() {
            let here = match index {
                0 => Point::new(point.queue, self.scheduler.queue(point.queue).issued),
                _ => self.next_point(point.queue),
            };
            let recorded = &self.recordings[key as usize].tasks[index];
            bind_parts(&self.bound, recorded, inner);
            self.replay_checked((key, index), words, inner, here);
        }
    }

    /// Resolves the parameters and says whether any has failed ranges, or no memory.
    fn bind_parameters(&mut self, task: &Task) -> Result<bool, FailureRef> {
        self.bound.clear();
        let mut faulty = false;
        for binding in task.all_bindings() {
            let key = self.links.slice(binding.slice);
            let has_none = |key| matches!(self.slices[key as usize].memory, Backing::Failed(..));
            let mut lacks_memory = binding.len > 0 && key.is_some_and(has_none);
            if lacks_memory && binding.access.writes() {
                lacks_memory = !self.reserve_again(binding.slice, task.stream);
            }
            let slice = key.map(|key| &mut self.slices[key as usize]);
            if let Some(slice) = slice
                && !slice.faults.is_clean()
            {
                // What a replay writes before it reads is data again, or fails anew; but where another parameter
                // names the same bytes they may be read first through that one.
                let mut others = task.all_bindings();
                let is_read = others.any(|other| other.access.reads() && other.overlaps(binding));
                if binding.access == Access::Write && !is_read {
                    let end = binding.offset + binding.len;
                    slice.faults.clear(&(binding.offset..end));
                }
                faulty |= !slice.faults.is_clean();
            }
            // Failed ranges are judged by inner task, and so is a slice that got no memory.
            if lacks_memory {
                faulty = true;
                self.bound.push(without_memory(binding));
                continue;
            }
            let bound = self.bind(&Binding {
                access: Access::Write,
                ..*binding
            })?;
            self.bound.push(bound);
        }
        Ok(faulty)
    }

    /// One inner task where parameters have failed ranges: it inherits what it reads and heals what
    /// it defines.
    fn replay_checked(
        &mut self,
        (key, index): (u32, usize),
        words: &[u64],
        inner: &[BoundSlice],
        point: Point,
    ) {
        let inherited = inner
            .iter()
            .filter(|bound| bound.len > 0)
            .find_map(|bound| {
                let slice = &self.slices[self.links.slice(bound.slice)? as usize];
                match &slice.memory {
                    Backing::Failed(_, failure) => Some(failure.clone()),
                    _ if !bound.access.reads() => None,
                    _ => {
                        let range = bound.slice_offset..bound.slice_offset + bound.len;
                        slice.faults.find(&range).cloned()
                    }
                }
            });
        let Self {
            recordings,
            backend,
            patched,
            names,
            loss,
            ..
        } = self;
        let stored = &recordings[key as usize];
        let (recorded, kernel) = (&stored.tasks[index], &stored.kernels[index]);
        let name = kernel.as_ref().map_or(&names.replay, |(name, _)| name);
        let outcome = match inherited {
            Some(cause) => Err(Failure::input(name, cause)),
            None => {
                let step = Step {
                    recorded,
                    kernel,
                    bindings: inner,
                    scalars: patch(recorded, words, patched),
                };
                step.run(backend, loss, names, point)
            }
        };
        self.observers.count().launches +=
            u64::from(outcome.is_ok() && recorded.kernel().is_some());
        match outcome {
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                self.fail_recorded(inner, &failure);
            }
            // A count that is read on the device may be zero.
            Ok(()) if recorded.is_dynamic() => {}
            Ok(()) => {
                for bound in inner.iter().filter(|bound| bound.access == Access::Write) {
                    if let Some(slice) = self.links.slice(bound.slice) {
                        let range = bound.slice_offset..bound.slice_offset + bound.len;
                        self.slices[slice as usize].faults.clear(&range);
                    }
                }
            }
        }
    }

    fn fail_recorded(&mut self, inner: &[BoundSlice], failure: &FailureRef) {
        self.count_failure(&failure.reason);
        for bound in inner.iter().filter(|bound| bound.access.writes()) {
            if let Some(slice) = self.links.slice(bound.slice) {
                let range = bound.slice_offset..bound.slice_offset + bound.len;
                self.slices[slice as usize]
                    .faults
                    .mark(range, failure.clone());
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

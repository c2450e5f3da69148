//! Replaying: the tasks of a recording, in order, on one queue.
//!
//! One queue orders them, so edges inside a recording cost nothing and aliased parameters are right
//! by themselves. The whole replay is one task to the hazards. Failures stay exact: where a
//! parameter has failed ranges, each inner task is looked at by itself (I7).

use std::sync::Arc;

use crate::access::Access;
use crate::backend::{Backend, BackendKernel, BoundCount, BoundSlice, Launch, Place};
use crate::failure::{Failure, FailureRef, Reason};
use crate::handle::Binding;
use crate::id::Point;
use crate::kernel::ExecutionMode;
use crate::message::{LaunchCount, Task};
use crate::recording::{RecordedBinding, RecordedOp, RecordedTask};

use super::loss::Loss;
use super::{OpNames, Server};

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
        if self.recordings[key as usize].tasks.is_empty() {
            return self.backend.mark(point.queue, point.cursor);
        }
        let mut inner: Vec<BoundSlice> = std::mem::take(&mut self.inner);
        let mut begun = 0;
        if !faulty {
            match self.replay_sound(key, point, &mut inner) {
                Ok(tasks) => begun = tasks,
                Err((index, failure)) => {
                    self.fail_recorded(&inner, &failure);
                    begun = index + 1;
                }
            }
        }
        self.replay_faulty(key, point, begun, &mut inner);
        self.inner = inner;
    }

    /// Runs the tasks of a recording whose parameters have no failed ranges, and tells how many there are.
    ///
    /// # Errors
    /// Which one failed, and why; its bindings are in `inner`. Those before it are issued.
    fn replay_sound(
        &mut self,
        key: u32,
        point: Point,
        inner: &mut Vec<BoundSlice>,
    ) -> Result<usize, (usize, FailureRef)> {
        let Self {
            recordings,
            backend,
            queues,
            bound,
            counters,
            names,
            loss,
            ..
        } = self;
        let stored = &recordings[key as usize];
        let state = &mut queues[point.queue.index()];
        // The replay has the cursor of its first task already.
        let (first, task_count) = (state.issued, stored.tasks.len());
        backend.begin_replay(point.queue, stored.id, task_count);
        let tasks = stored.tasks.iter().zip(&stored.kernels).enumerate();
        let called = tasks
            .into_iter()
            .try_for_each(|(index, (recorded, kernel))| {
                bind_parts(bound, recorded, inner);
                let here = Point::new(point.queue, first + index as u64);
                run_recorded(backend, loss, names, recorded, kernel, inner, here)
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
                counters.launches += stored.launches;
                (task_count, Ok(task_count))
            }
            Err((index, failure)) => {
                backend.mark(point.queue, first + index as u64);
                (index + 1, Err((index, failure)))
            }
        };
        state.issued += issued as u64 - 1;
        counters.tasks += issued as u64 - 1;
        outcome
    }

    /// Runs the tasks of a recording from `begun` on, each looked at by itself.
    fn replay_faulty(&mut self, key: u32, point: Point, begun: usize, inner: &mut Vec<BoundSlice>) {
        for index in begun..self.recordings[key as usize].tasks.len() {
            let state = &mut self.queues[point.queue.index()];
            if index > 0 {
                state.issued += 1;
                self.counters.tasks += 1;
            }
            let here = Point::new(point.queue, state.issued);
            let recorded = &self.recordings[key as usize].tasks[index];
            bind_parts(&self.bound, recorded, inner);
            self.replay_checked(key, index, inner, here);
        }
    }

    /// Resolves the parameters and says whether any has failed ranges.
    fn bind_parameters(&mut self, task: &Task) -> Result<bool, FailureRef> {
        self.bound.clear();
        let mut faulty = false;
        for binding in task.all_bindings() {
            let slice = self
                .links
                .slice(binding.slice)
                .map(|key| &self.slices[key as usize]);
            faulty |= slice.is_some_and(|slice| !slice.faults.is_clean());
            // Failed ranges are judged per inner task; a slice without memory fails here.
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
    fn replay_checked(&mut self, key: u32, index: usize, inner: &[BoundSlice], point: Point) {
        let inherited = inner
            .iter()
            .filter(|bound| bound.access.reads())
            .find_map(|bound| {
                let slice = &self.slices[self.links.slice(bound.slice)? as usize];
                slice
                    .faults
                    .find(&(bound.slice_offset..bound.slice_offset + bound.len))
                    .cloned()
            });
        let Self {
            recordings,
            backend,
            names,
            loss,
            ..
        } = self;
        let stored = &recordings[key as usize];
        let (recorded, kernel) = (&stored.tasks[index], &stored.kernels[index]);
        let name = kernel.as_ref().map_or(&names.replay, |(name, _)| name);
        let outcome = match inherited {
            Some(cause) => Err(Failure::input(name, cause)),
            None => run_recorded(backend, loss, names, recorded, kernel, inner, point),
        };
        self.counters.launches += u64::from(outcome.is_ok() && recorded.kernel().is_some());
        match outcome {
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                self.fail_recorded(inner, &failure);
            }
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
        self.counters.failures += 1;
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

/// The backend's call for one task of a recording.
#[inline]
fn run_recorded<B: Backend>(
    backend: &mut B,
    loss: &mut Loss,
    names: &OpNames,
    recorded: &RecordedTask,
    kernel: &Option<(Arc<str>, BackendKernel)>,
    inner: &[BoundSlice],
    point: Point,
) -> Result<(), FailureRef> {
    let place = |name| Place {
        queue: point.queue,
        cursor: point.cursor,
        name,
    };
    match (&recorded.op, inner) {
        (RecordedOp::Launch { count, .. }, _) => {
            let Some((name, code)) = kernel else {
                return Err(Failure::not_run(&names.replay, Reason::Lost));
            };
            let (bindings, count) = match (count, inner) {
                (LaunchCount::Static(count), _) => (inner, BoundCount::Static(*count)),
                (LaunchCount::Dynamic, [bindings @ .., count]) => {
                    (bindings, BoundCount::Dynamic(*count))
                }
                (LaunchCount::Dynamic, []) => (inner, BoundCount::Static([0; 3])),
            };
            let launch = Launch {
                name,
                kernel: code,
                count,
                // Nothing is recorded that was not checked.
                mode: ExecutionMode::Checked,
                bindings,
                scalars: &recorded.scalars,
                metadata: &recorded.metadata,
                tensor_maps: &recorded.tensor_maps,
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
            let outcome = backend.fill(place(&names.fill), target, *pattern);
            outcome.map_err(|refused| loss.refusal(backend, &names.fill, refused))
        }
        _ => {
            backend.mark(point.queue, point.cursor);
            Ok(())
        }
    }
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
    BoundSlice {
        page: parameter.page,
        offset: parameter.offset + binding.offset,
        len: if parameter.page.is_some() {
            binding.len
        } else {
            0
        },
        access: binding.access,
        slice: parameter.slice,
        slice_offset: parameter.slice_offset + binding.offset,
    }
}

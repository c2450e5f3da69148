//! Replaying: the tasks of a recording, in order, on one queue.
//!
//! One queue orders them, so edges inside a recording cost nothing and aliased parameters are right
//! by themselves. The whole replay is one task to the hazards. Failures stay exact: where a
//! parameter has failed ranges, each inner task is looked at by itself (I7).

use crate::access::Access;
use crate::backend::{Backend, BoundCount, BoundSlice, Launch, Place};
use crate::failure::{Failure, FailureRef};
use crate::handle::Binding;
use crate::id::Point;
use crate::kernel::ExecutionMode;
use crate::message::{LaunchCount, Task};
use crate::recording::{RecordedBinding, RecordedOp, RecordedTask};

use super::call::refusal;
use super::{OpNames, Server};

impl<B: Backend> Server<B> {
    pub(super) fn replay(&mut self, key: u32, task: &mut Task, point: Point) {
        if !self.recordings.contains(key as usize) {
            return self.backend.mark(point.queue, point.cursor);
        }
        let mut faulty = match self.bind_parameters(task) {
            Ok(faulty) => faulty,
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                return self.fail(task, Failure::input(&self.names.replay, failure));
            }
        };
        let stored = &self.recordings[key as usize];
        let tasks = stored.tasks.clone();
        if tasks.is_empty() {
            self.backend.mark(point.queue, point.cursor);
        }
        let mut inner: Vec<BoundSlice> = std::mem::take(&mut self.inner);
        for (index, recorded) in tasks.iter().enumerate() {
            let cursor = self.next_cursor(point, index);
            inner.clear();
            inner.extend(
                recorded
                    .bindings
                    .iter()
                    .map(|binding| part(&self.bound, binding)),
            );
            let here = Point::new(point.queue, cursor);
            if faulty {
                self.replay_checked(key, index, recorded, &inner, here);
            } else if let Err(failure) = self.replay_one(key, index, recorded, &inner, here) {
                self.backend.mark(here.queue, here.cursor);
                self.fail_recorded(&inner, &failure);
                faulty = true;
            }
        }
        self.inner = inner;
    }

    /// The first inner task has the replay's cursor, the others take the next ones.
    fn next_cursor(&mut self, point: Point, index: usize) -> u64 {
        let state = &mut self.queues[point.queue.index()];
        if index > 0 {
            state.issued += 1;
            self.counters.tasks += 1;
        }
        state.issued
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

    #[inline]
    fn replay_one(
        &mut self,
        key: u32,
        index: usize,
        recorded: &RecordedTask,
        inner: &[BoundSlice],
        point: Point,
    ) -> Result<(), FailureRef> {
        let names: &OpNames = &self.names;
        let place = |name| Place {
            queue: point.queue,
            cursor: point.cursor,
            name,
        };
        match (&recorded.op, inner) {
            (RecordedOp::Launch { count, .. }, _) => {
                let Some((name, code)) = &self.recordings[key as usize].kernels[index] else {
                    return Err(Failure::not_run(
                        &names.replay,
                        crate::failure::Reason::Lost,
                    ));
                };
                let (bindings, count) = match (count, inner.split_last()) {
                    (LaunchCount::Static(count), _) => (inner, BoundCount::Static(*count)),
                    (LaunchCount::Dynamic, Some((count, bindings))) => {
                        (bindings, BoundCount::Dynamic(*count))
                    }
                    (LaunchCount::Dynamic, None) => (inner, BoundCount::Static([0; 3])),
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
                self.counters.launches += 1;
                self.backend
                    .launch(point.queue, point.cursor, &launch)
                    .map_err(|refused| refusal(name, refused))
            }
            (RecordedOp::Copy, [source, target]) => {
                let outcome = self.backend.copy(place(&names.copy), source, target);
                outcome.map_err(|refused| refusal(&names.copy, refused))
            }
            (RecordedOp::Fill(pattern), [target]) => {
                let outcome = self.backend.fill(place(&names.fill), target, *pattern);
                outcome.map_err(|refused| refusal(&names.fill, refused))
            }
            _ => {
                self.backend.mark(point.queue, point.cursor);
                Ok(())
            }
        }
    }

    /// One inner task where parameters have failed ranges: it inherits what it reads and heals what
    /// it defines.
    fn replay_checked(
        &mut self,
        key: u32,
        index: usize,
        recorded: &RecordedTask,
        inner: &[BoundSlice],
        point: Point,
    ) {
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
        let name = match &self.recordings[key as usize].kernels[index] {
            Some((name, _)) => name.clone(),
            None => self.names.replay.clone(),
        };
        let outcome = match inherited {
            Some(cause) => Err(Failure::input(&name, cause)),
            None => self.replay_one(key, index, recorded, inner, point),
        };
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

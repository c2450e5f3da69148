//! Replaying: the tasks of a recording, in order, on one queue.
//!
//! One queue orders them, so edges inside a recording cost nothing and aliased parameters are right
//! by themselves. The whole replay is one task to the hazards. Failures stay exact: where a
//! parameter has failed ranges, each inner task is looked at by itself (I7).

use std::ops::Range;

use millstream_protocol::access::Access;
use millstream_protocol::backend::{Backend, BoundSlice, Replay};
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::{Failure, FailureRef};
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::message::{Op, Task};
use smallvec::SmallVec;

use super::Server;
use crate::hazards::Backing;
use crate::objects::StoredRecording;

impl<B: Backend> Server<B> {
    pub(super) fn replay(&mut self, key: u32, task: &mut Task, point: Point) {
        let Op::Replay { overlap, .. } = task.op else {
            return;
        };
        if self.objects.recording(key).is_none() {
            return self.device.mark(point);
        }
        let faulty = match self.bind_parameters(task) {
            Ok(faulty) => faulty,
            Err(failure) => {
                self.device.mark(point);
                let failure = Failure::input(&self.objects.names().replay, failure);
                return self.fail(task, failure);
            }
        };
        self.replay_bound(key, task.scalars(), point, (overlap, faulty));
    }

    /// The same once the parameters are bound, in the scratch list `bound`. They may overlap; they are faulty where any has failed
    /// ranges.
    pub(super) fn replay_bound(
        &mut self,
        key: u32,
        words: &[u64],
        point: Point,
        (overlap, faulty): (bool, bool),
    ) {
        let Some(stored) = self.objects.recording(key) else {
            return self.device.mark(point);
        };
        let tasks = stored.plan.tasks().len();
        if tasks == 0 {
            return self.device.mark(point);
        }
        if !stored.stale.is_empty() {
            self.forget_stale(key, point.queue);
        }
        let begun = match faulty {
            true => 0,
            false => self.replay_sound(key, words, point, overlap),
        };
        for index in begun..tasks {
            self.replay_checked((key, index), words, point);
        }
    }

    /// Failures that lie in temporaries, of an earlier replay, are not those of this one (I7).
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
        self.device.forget(queue, inner);
    }

    /// Runs the tasks of a recording whose parameters have no failed ranges, and tells how many have their place on the queue: all,
    /// or those up to one that was refused.
    fn replay_sound(&mut self, key: u32, words: &[u64], point: Point, overlap: bool) -> usize {
        let Self {
            objects,
            device,
            scheduler,
            scratch,
            observers,
            ..
        } = self;
        let Some(stored) = objects.recording_mut(key) else {
            return 0;
        };
        let StoredRecording {
            plan,
            prepared,
            bound,
            ..
        } = stored;
        let place = (point.queue, point.cursor);
        let mut replay = Replay::new(plan, place, &scratch.bound, words, bound);
        replay.overlap = overlap;
        let (begun, failure) = device.replay(&mut replay, plan, prepared);
        // The replay has the cursor of its first task already.
        scheduler.take_cursors(point.queue, begun as u64 - 1);
        observers.count().tasks += begun as u64 - 1;
        match failure {
            None => observers.count().launches += plan.launches(),
            Some(failure) => {
                let index = begun - 1;
                device.mark(Point::new(point.queue, point.cursor + index as u64));
                self.fail_recorded((key, index), &failure);
            }
        }
        begun
    }

    /// Returns `true` if the slice of a parameter got no memory.
    fn lacks_memory(&self, binding: &Binding) -> bool {
        let key = self.objects.slice(binding.slice);
        let got_none = |key| matches!(self.hazards.backing(key), Backing::Failed(..));
        binding.len > 0 && key.is_some_and(got_none)
    }

    /// Binds the parameters. Returns `true` if any of them has poisoned ranges, or no memory.
    fn bind_parameters(&mut self, task: &Task) -> Result<bool, FailureRef> {
        self.scratch.bound.clear();
        // Memory before bindings: two parameters may stand for one slice, and only the second may be written.
        for binding in task.all_bindings() {
            if binding.access.writes() && self.lacks_memory(binding) {
                self.reserve_again(binding.slice, task.stream);
            }
        }
        let mut faulty = false;
        for binding in task.all_bindings() {
            if let Some(key) = self.objects.slice(binding.slice)
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
            if self.lacks_memory(binding) {
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

    /// One inner task, of a replay that begins at `first`, where parameters have failed ranges: it inherits what it reads and heals
    /// what it defines.
    #[cold]
    fn replay_checked(&mut self, (key, index): (u32, usize), words: &[u64], first: Point) {
        let point = match index {
            // The replay has it already.
            0 => first,
            _ => self.next_point(first.queue),
        };
        let inherited = self.inherited((key, index), first);
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
        // A count that is read on the device may be zero: then nothing is defined.
        let (is_launch, defines) = (recorded.kernel().is_some(), !recorded.is_dynamic());
        observers.count().launches += u64::from(outcome.is_ok() && is_launch);
        match outcome {
            Err(failure) => {
                self.device.mark(point);
                self.fail_recorded((key, index), &failure);
            }
            Ok(()) if defines => {
                for (slice, range) in self.touched((key, index), |access| access == Access::Write) {
                    self.hazards.heal(slice, &range);
                }
            }
            Ok(()) => {}
        }
    }

    /// The failure of what a recorded task reads, or of a slice without memory that it touches.
    fn inherited(&mut self, (key, index): (u32, usize), first: Point) -> Option<FailureRef> {
        let stored = self.objects.recording_mut(key)?;
        let place = (first.queue, first.cursor);
        let parameters = &self.scratch.bound;
        // Binds the tasks, if they are not.
        let replay = Replay::new(&stored.plan, place, parameters, &[], &mut stored.bound);
        let bindings: SmallVec<[BoundSlice; 8]> = replay.bindings(index).into();
        let mut touched = bindings.iter().filter(|bound| bound.len > 0);
        touched.find_map(|bound| {
            let range = bound.slice_offset..bound.slice_offset + bound.len;
            let slice = self.objects.slice(bound.slice)?;
            self.hazards.failure(slice, &range, bound.access)
        })
    }

    /// The keys and ranges that a recorded task touches so, at the replay that is being made.
    fn touched(
        &self,
        (key, index): (u32, usize),
        chosen: impl Fn(Access) -> bool,
    ) -> SmallVec<[(u32, Range<u64>); 4]> {
        let Some(stored) = self.objects.recording(key) else {
            return SmallVec::new();
        };
        let bindings = stored.bound.bindings(&stored.plan, index).iter();
        bindings
            .filter(|bound| chosen(bound.access))
            .filter_map(|bound| {
                let range = bound.slice_offset..bound.slice_offset + bound.len;
                Some((self.objects.slice(bound.slice)?, range))
            })
            .collect()
    }

    #[cold]
    fn fail_recorded(&mut self, task: (u32, usize), failure: &FailureRef) {
        self.count_failure(&failure.reason);
        for (slice, range) in self.touched(task, Access::writes) {
            self.hazards.poison(slice, range, failure.clone());
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

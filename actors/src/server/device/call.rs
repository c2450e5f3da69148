//! The backend's call for one task, whose bindings are resolved.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::{
    Access, Backend, BoundCount, BoundSlice, CopyOut, Custom, CustomWork, FailureRef, HostData,
    HostSource, INLINE_WORDS, Landing, Launch, LaunchCount, Op, Point, Refused, Release, Strided,
    Table, Task, TaskPoint,
};
use millstream_sync::payload;

use super::Device;
use millstream_state::objects::{OpNames, PreparedKernel};

/// The code of a custom task, which the backend drops if it refuses the task. The destructors of what the code owns are
/// user code, too.
struct Unrun(Option<CustomWork>);

impl Unrun {
    fn run(mut self, resources: &dyn Any) -> Result<(), Refused> {
        match self.0.take() {
            Some(work) => work(resources),
            None => Ok(()),
        }
    }
}

impl Drop for Unrun {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            payload::end(Box::new(work));
        }
    }
}

impl<B: Backend> Device<B> {
    /// Calls the backend for a launch.
    #[inline]
    pub(crate) fn launch(
        &mut self,
        task: &Task,
        count: &LaunchCount,
        prepared: &PreparedKernel,
        bound: &[BoundSlice],
        point: Point,
    ) -> Result<(), FailureRef> {
        let (count, bindings) = match (count, bound) {
            (LaunchCount::Static(count), bindings) => (BoundCount::Static(*count), bindings),
            (LaunchCount::Dynamic, [bindings @ .., count]) => {
                (BoundCount::Dynamic(*count), bindings)
            }
            (LaunchCount::Dynamic, []) => (BoundCount::Static([0; 3]), &[][..]),
        };
        let extra = task.extra.more();
        let launch = Launch {
            name: prepared.kernel.name(),
            kernel: &prepared.code,
            count,
            bindings,
            scalars: task.scalars(),
            metadata: extra.map_or(&[], |extra| &extra.metadata),
            tensor_maps: extra.map_or(&[], |extra| &extra.tensor_maps),
        };
        let launched = self.backend.launch(point.queue, point.cursor, &launch);
        launched.map_err(|refused| self.refusal(prepared.kernel.name(), refused))
    }

    /// Calls the backend for a task that is neither a launch nor a replay. An operation without a call is an empty
    /// task. Each copy to the host takes a cursor, from `point` on.
    pub(crate) fn call(
        &mut self,
        task: &mut Task,
        names: &OpNames,
        table: &Arc<Table>,
        bound: &[BoundSlice],
        point: Point,
    ) -> Result<(), FailureRef> {
        match (&mut task.op, bound) {
            (Op::CopyIn(_), [target, ..]) => self.copy_in(task, &names.copy_in, target, point),
            (Op::Copy, [source, target, ..]) => {
                let outcome = self.backend.copy(place(point, &names.copy), source, target);
                outcome.map_err(|refused| self.refusal(&names.copy, refused))
            }
            (Op::Fill(pattern), [target, ..]) => {
                debug_assert!(
                    pattern.divides(target.offset, target.len),
                    "views are whole elements"
                );
                let outcome = self
                    .backend
                    .fill(place(point, &names.fill), target, *pattern);
                outcome.map_err(|refused| self.refusal(&names.fill, refused))
            }
            (Op::Custom(_), _) => match std::mem::replace(&mut task.op, Op::Taken) {
                Op::Custom(custom) => self.custom(*custom, table, bound, point),
                _ => Ok(()),
            },
            _ => {
                self.mark(point);
                Ok(())
            }
        }
    }

    fn custom(
        &mut self,
        Custom { name, work }: Custom,
        table: &Arc<Table>,
        bound: &[BoundSlice],
        point: Point,
    ) -> Result<(), FailureRef> {
        // The closure may own handles, and is dropped once it has run.
        let release = Release::begin(table);
        let work = Unrun(Some(work));
        let run = Box::new(move |resources: &dyn Any| {
            let outcome = work.run(resources);
            drop(release);
            outcome
        });
        let outcome = self.backend.custom(place(point, &name), bound, run);
        outcome.map_err(|refused| self.refusal(&name, refused))
    }

    fn copy_in(
        &mut self,
        task: &mut Task,
        name: &Arc<str>,
        target: &BoundSlice,
        point: Point,
    ) -> Result<(), FailureRef> {
        let extra = task.extra.more_mut();
        let layouts = extra.map(|extra| std::mem::take(&mut extra.layouts));
        let layout = layouts
            .as_ref()
            .and_then(|layouts| layouts.first()?.as_ref());
        let source = match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyIn(HostSource::Words(len)) => {
                let mut words = [0; INLINE_WORDS];
                words[..task.words().len()].copy_from_slice(task.words());
                HostData::Words {
                    words,
                    len: len as usize,
                }
            }
            Op::CopyIn(HostSource::Owned(owned)) => HostData::Owned(owned),
            _ => {
                self.mark(point);
                return Ok(());
            }
        };
        let outcome = self
            .backend
            .copy_in(place(point, name), target, layout, source);
        outcome.map_err(|refused| self.refusal(name, refused))
    }

    /// Issues the copy with which a host function begins.
    pub(crate) fn download(
        &mut self,
        landing: Arc<dyn Landing>,
        name: &Arc<str>,
        source: &BoundSlice,
        point: Point,
    ) -> Result<(), FailureRef> {
        // The host function may write the binding; the copy does not.
        let source = BoundSlice {
            access: Access::Read,
            ..*source
        };
        let outcome = self
            .backend
            .copy_out(place(point, name), &source, None, landing);
        outcome.map_err(|refused| self.refusal(name, refused))
    }

    /// Issues a part of the copies of one answer, the first of which has the point `first`. If that one is refused, the
    /// task fails as a whole. If a later one is refused, only that one fails.
    pub(crate) fn copy_out(
        &mut self,
        copy: &CopyOut,
        name: &Arc<str>,
        (bound, layouts): (&[BoundSlice], &[Option<Strided>]),
        (first, part): (Point, Range<usize>),
    ) -> Result<(), FailureRef> {
        for index in part {
            let (Some(source), Some(landing)) = (bound.get(index), copy.landings.get(index)) else {
                break;
            };
            let here = Point::new(first.queue, first.cursor + index as u64);
            let layout = layouts.get(index).and_then(Option::as_ref);
            let outcome = self
                .backend
                .copy_out(place(here, name), source, layout, landing.clone());
            match outcome.map_err(|refused: Refused| self.refusal(name, refused)) {
                Ok(()) => {}
                Err(failure) if index == 0 => return Err(failure),
                Err(failure) => {
                    self.mark(here);
                    landing.fail(failure);
                }
            }
        }
        Ok(())
    }
}

fn place<'a>(point: Point, name: &'a Arc<str>) -> TaskPoint<'a> {
    TaskPoint {
        queue: point.queue,
        cursor: point.cursor,
        name,
    }
}

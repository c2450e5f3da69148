//! The calls of the backend for one task, and what follows from their outcome: data healed or poisoned,
//! askers answered.

use std::any::Any;
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::backend::{Backend, BoundCount, HostData, Launch, Place};
use millstream_protocol::deferred_drop::Release;
use millstream_protocol::error::Error;
use millstream_protocol::error::Refused;
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::id::Point;
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::{Custom, HostSource, Op, Task, Ticket};

use super::Server;
use super::admit::binding_at;
use crate::points::Points;

impl<B: Backend> Server<B> {
    /// The backend's call for a task whose bindings are resolved.
    pub(super) fn call(
        &mut self,
        task: &mut Task,
        object: u32,
        point: Point,
    ) -> Result<(), FailureRef> {
        let (queue, cursor) = (point.queue, point.cursor);
        let refused = match &mut task.op {
            Op::Launch { .. } => return self.launch(task, object, point),
            Op::CopyIn(_) => self.call_copy_in(task, point),
            Op::CopyOut(_) => self.call_copy_out(task, point),
            Op::Copy => {
                let place = Place {
                    queue,
                    cursor,
                    name: &self.objects.names().copy,
                };
                match self.scratch.bound.as_slice() {
                    [source, target, ..] => self.backend.copy(place, source, target),
                    _ => {
                        self.backend.mark(queue, cursor);
                        Ok(())
                    }
                }
                .map_err(|refused| (self.objects.names().copy.clone(), refused))
            }
            Op::Fill(pattern) => {
                let place = Place {
                    queue,
                    cursor,
                    name: &self.objects.names().fill,
                };
                match self.scratch.bound.as_slice() {
                    [target, ..] => {
                        debug_assert!(
                            pattern.divides(target.offset, target.len),
                            "views are whole elements"
                        );
                        self.backend.fill(place, target, *pattern)
                    }
                    _ => {
                        self.backend.mark(queue, cursor);
                        Ok(())
                    }
                }
                .map_err(|refused| (self.objects.names().fill.clone(), refused))
            }
            Op::Custom(_) => match std::mem::replace(&mut task.op, Op::Taken) {
                Op::Custom(custom) => {
                    let Custom { name, work } = *custom;
                    let place = Place {
                        queue,
                        cursor,
                        name: &name,
                    };
                    // Its closure may own handles, and goes when it has run.
                    let release = Release::begin(&self.table);
                    let run = Box::new(move |resources: &mut dyn Any| {
                        let outcome = work(resources);
                        drop(release);
                        outcome
                    });
                    let outcome = self.backend.custom(place, &self.scratch.bound, run);
                    outcome.map_err(|refused| (name, refused))
                }
                _ => Ok(()),
            },
            _ => {
                self.backend.mark(queue, cursor);
                Ok(())
            }
        };
        refused.map_err(|(name, refused)| self.loss.refusal(&mut self.backend, &name, refused))
    }

    /// The call for a launch whose bindings are resolved.
    #[inline]
    pub(super) fn launch(
        &mut self,
        task: &Task,
        object: u32,
        point: Point,
    ) -> Result<(), FailureRef> {
        let (Op::Launch { count, .. }, Some(prepared)) = (&task.op, self.objects.kernel(object))
        else {
            return Err(Failure::not_run(&self.objects.names().other, Reason::Lost));
        };
        let (count, bindings) = match (count, self.scratch.bound.as_slice()) {
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
            mode: task.mode,
            bindings,
            scalars: task.scalars(),
            metadata: extra.map_or(&[], |extra| &extra.metadata),
            tensor_maps: extra.map_or(&[], |extra| &extra.tensor_maps),
        };
        self.observers.count().launches += 1;
        self.backend
            .launch(point.queue, point.cursor, &launch)
            .map_err(|refused| {
                let name = prepared.kernel.name();
                self.loss.refusal(&mut self.backend, name, refused)
            })
    }

    /// The copy into the first binding.
    fn call_copy_in(&mut self, task: &mut Task, point: Point) -> Result<(), (Arc<str>, Refused)> {
        let name = self.objects.names().copy_in.clone();
        let place = Place {
            queue: point.queue,
            cursor: point.cursor,
            name: &name,
        };
        let layouts = task
            .extra
            .more_mut()
            .map(|extra| std::mem::take(&mut extra.layouts))
            .unwrap_or_default();
        let layout = layouts.first().and_then(Option::as_ref);
        let Some(target) = self.scratch.bound.first() else {
            self.backend.mark(point.queue, point.cursor);
            return Ok(());
        };
        let source = match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyIn(HostSource::Words(len)) => {
                let mut words = [0; millstream_protocol::launch::INLINE_WORDS];
                words[..task.words().len()].copy_from_slice(task.words());
                HostData::Words {
                    words,
                    len: len as usize,
                }
            }
            Op::CopyIn(HostSource::Owned(owned)) => HostData::Owned(owned),
            _ => {
                self.backend.mark(point.queue, point.cursor);
                return Ok(());
            }
        };
        self.backend
            .copy_in(place, target, layout, source)
            .map_err(|refused| (name.clone(), refused))
    }

    /// The copies of one answer, one for each binding. Each takes a cursor; the answer waits for the last.
    fn call_copy_out(&mut self, task: &mut Task, point: Point) -> Result<(), (Arc<str>, Refused)> {
        let name = self.objects.names().copy_out.clone();
        let Op::CopyOut(copy) = &task.op else {
            return Ok(());
        };
        let layouts = task.extra.more().map_or(&[][..], |extra| &extra.layouts);
        let mut cursor = point.cursor;
        for (index, (source, landing)) in self.scratch.bound.iter().zip(&copy.landings).enumerate()
        {
            if index > 0 {
                cursor = self.scheduler.next_point(point.queue).cursor;
            }
            let place = Place {
                queue: point.queue,
                cursor,
                name: &name,
            };
            let layout = layouts.get(index).and_then(Option::as_ref);
            if let Err(refused) = self
                .backend
                .copy_out(place, source, layout, landing.clone())
            {
                if index > 0 {
                    self.backend.mark(point.queue, cursor);
                    landing.fail(self.loss.refusal(&mut self.backend, &name, refused));
                    continue;
                }
                return Err((name, refused));
            }
        }
        if copy.landings.is_empty() {
            self.backend.mark(point.queue, cursor);
        }
        Ok(())
    }

    /// What a task writes whole is data again.
    ///
    /// Not so with a count that is read on the device: it may be zero. There the queue heals what failed while it ran, as it knows
    /// the count.
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
            let range = binding.offset..binding.offset + binding.len;
            self.hazards.heal(binding.key, &range);
        }
    }

    /// Poisons what the task would have written and answers who waits for it (I7).
    pub(super) fn fail(&mut self, task: &mut Task, failure: FailureRef) {
        self.count_failure(&failure.reason);
        for index in 0.. {
            let Some(binding) = binding_at(task, index) else {
                break;
            };
            if binding.access.writes() {
                let range = binding.offset..binding.offset + binding.len;
                self.hazards.poison(binding.key, range, failure.clone());
            }
        }
        if matches!(task.op, Op::CopyOut(_))
            && let Op::CopyOut(copy) = std::mem::replace(&mut task.op, Op::Taken)
        {
            // The asker is told of the data's failure, not that a copy of it did not run.
            let told = match self.is_lost() || self.loss.is_abandoned() {
                true => self.loss.gone.error(),
                false => Error::Failed(failure.cause().unwrap_or(failure)),
            };
            copy.reply.send(Err(told));
        }
    }

    /// Tells who waits for this task where it is.
    #[inline]
    pub(super) fn answer(&mut self, task: &mut Task, point: Point) {
        let reply = match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyOut(copy) => copy.reply,
            Op::Answer(reply) => reply,
            Op::DropAfter(value) => {
                let mut after = Points::default();
                after.insert(point);
                return self.collect_after(value, after);
            }
            op => {
                task.op = op;
                return;
            }
        };
        // The batch first: whoever is told of the point finds it on its way, or passed.
        self.end_batch(point.queue);
        let last = self.scheduler.queue(point.queue).issued;
        let mut ticket = Ticket::default();
        ticket.points.push(Point::new(point.queue, last));
        // The caller parks once: for the point.
        let timeline = self.scheduler.timeline(point.queue);
        reply.send_for(Ok(ticket), timeline, last);
    }
}

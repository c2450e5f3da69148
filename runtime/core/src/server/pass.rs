//! Passing through: the short way of a task that has nothing to be ordered with.
//!
//! Streams hold tasks so that a strategy can order those that sit on one queue, and so that what
//! cannot go yet waits in software. A stream that sits alone on its queue while nothing is held
//! anywhere needs neither: its task is issued from the mailbox slot, without being moved. It is still
//! part of a batch: the backend is flushed as it would be otherwise.

use smallvec::SmallVec;

use crate::backend::Backend;
use crate::failure::{Failure, Reason};
use crate::hazard::log::Use;
use crate::id::Point;
use crate::message::{Op, Task};

use super::Server;
use super::admit::{binding_at_mut, needs_wait};
use super::issue::bind_whole;

impl<B: Backend> Server<B> {
    /// Can a task of this stream go at once?
    #[inline]
    pub(super) fn passes_through(&mut self, stream: u32, op: &Op) -> bool {
        let queue = self.streams[stream as usize].queue;
        self.tasks_held == 0
            && self.queues[queue.index()].streams == 1
            && self.hungry.is_empty()
            && match op {
                Op::Host(_) | Op::Reserve { .. } | Op::Replay(_) => false,
                // Its copies take several cursors; the log wants the last.
                Op::CopyOut(copy) => copy.landings.len() <= 1,
                _ => true,
            }
            && !self.is_full(queue)
    }

    /// Enters the task in the access logs and issues it. No log has an entry of a held task, so there is
    /// nothing to flush and nothing to wait for in software.
    pub(super) fn pass_through(&mut self, stream: u32, task: &mut Task, paid: bool, asked: bool) {
        let queue = self.streams[stream as usize].queue;
        let point = Point::new(queue, self.queues[queue.index()].issued + 1);
        let mut after: SmallVec<[Point; 4]> = SmallVec::new();
        let mut resolved = Ok(());
        let mut implied = 0;
        self.bound.clear();
        for index in 0.. {
            let Some(binding) = binding_at_mut(task, index) else {
                break;
            };
            let Some(key) = self.links.slice(binding.slice) else {
                resolved = Err(Failure::not_run(&self.names.other, Reason::Lost));
                continue;
            };
            binding.key = key;
            let range = binding.offset..binding.offset + binding.len;
            let queues = &self.queues;
            let slice = &mut self.slices[key as usize];
            slice.log.touch(
                range,
                binding.access,
                Use::Issued(point),
                |used| match used {
                    Use::Issued(other) if other.queue == queue => {}
                    Use::Issued(other) if needs_wait(queues, queue, other) => {
                        join(&mut after, other);
                    }
                    Use::Issued(other) => implied += u64::from(other.cursor > 0),
                    Use::Held { .. } => {
                        debug_assert!(false, "a log has an entry of a held task, but none is held");
                    }
                },
            );
            match bind_whole(slice, binding) {
                Some(bound) => self.bound.push(bound),
                None => match self.bind(binding) {
                    Ok(bound) => self.bound.push(bound),
                    Err(failure) if resolved.is_ok() => resolved = Err(failure),
                    Err(_) => {}
                },
            }
        }
        self.counters.waits_implied += implied;
        if !after.is_empty() {
            self.issue_waits(queue, &after);
        }
        let point = self.next_point(queue);
        self.note_trace(stream, task, point);
        let object = self.object_of(&task.op);
        self.run(task, object, resolved, point);
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = point.cursor;
        if paid {
            actor.release_credit();
        }
        // What the backend did not take of the message is dropped here: the mailbox does not.
        if !matches!(task.op, Op::Launch { .. }) {
            task.op = Op::Taken;
        }
        if task.extra.is_some() {
            task.extra = None;
        }
        let state = &self.queues[queue.index()];
        if asked || state.issued - state.flushed >= self.options.max_tasks as u64 {
            self.end_batch(queue);
        }
    }
}

/// One more point to come after: the latest of each queue stands for the earlier ones (I3).
fn join(after: &mut SmallVec<[Point; 4]>, point: Point) {
    match after.iter_mut().find(|other| other.queue == point.queue) {
        Some(other) => other.cursor = other.cursor.max(point.cursor),
        None => after.push(point),
    }
}

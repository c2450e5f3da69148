//! Passing through: the short way of a task that has nothing to be ordered with.
//!
//! Streams hold tasks so that a strategy can order those that sit on one queue, and so that what
//! cannot go yet waits in software. A stream that sits alone on its queue while nothing is held
//! anywhere needs neither: its task is issued from the mailbox slot, without being moved. It is still
//! part of a batch: the backend is flushed as it would be otherwise.

use std::ops::Range;

use millstream_protocol::access::Access;
use millstream_protocol::backend::Backend;
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::FailureRef;
use millstream_protocol::id::{Point, RecordingId};
use millstream_protocol::message::Rare;
use millstream_protocol::message::{Op, Task};

use super::Server;
use super::admit::needs_wait;
use super::issue::bind_whole;
use crate::hazard::log::{AccessLog, Use};
use crate::observers::sampling::PASSING;
use crate::planted::{Bug, on};
use crate::scheduler::actor::NO_OBJECT;
use crate::scheduler::queue::QueueState;

impl<B: Backend> Server<B> {
    /// Issues a launch, mark or replay of a lone stream straight from its message, of which nothing needs to be
    /// dropped. Says no, having done nothing, where it is to go another way.
    ///
    /// This is the way of nearly every message of a busy device, so it looks up everything once.
    #[inline]
    pub(super) fn pass_plain(&mut self, task: &mut Task) -> bool {
        let Some(stream) = task.stream.and_then(|id| self.links.stream(id)) else {
            return false;
        };
        let Some(queue) = self.scheduler.lone_queue(stream) else {
            return false;
        };
        if !task.extra.is_none() || !self.scheduler.is_seated(stream, queue) {
            return false;
        }
        let (object, tasks) = match task.op {
            Op::Launch { kernel, .. } => (self.links.kernel(kernel).unwrap_or(NO_OBJECT), 1),
            Op::Replay(recording) => self.recording_and_tasks(recording),
            _ => (NO_OBJECT, 1),
        };
        let point = self.next_point(queue);
        // The tasks of a replay have the cursors from here on; the logs want the last.
        let last = Point::new(queue, point.cursor + tasks - 1);
        self.bound.clear();
        let sound = task.bindings.is_empty() || self.enter_bindings(&mut task.bindings, last);
        if !self.after.is_empty() {
            self.issue_waits_after(point);
        }
        self.note_task(stream, task, point, PASSING);
        // Sound bindings have no failed ranges: nothing is to be healed.
        match task.op {
            Op::Launch { count, .. } if sound && !count.is_zero() => {
                if let Err(failure) = self.launch(task, object, point) {
                    self.fail_at(task, failure, point);
                }
            }
            Op::Mark if sound => self.backend.mark(point.queue, point.cursor),
            Op::Replay(_) if sound && object != NO_OBJECT => {
                self.replay_bound(object, task.scalars(), point, false);
            }
            _ => self.run_unsound(task, object, last, point),
        }
        debug_assert!(
            self.scheduler.queue(queue).issued == last.cursor,
            "a cursor is left out"
        );
        self.scheduler.passed_through(stream, last.cursor, true);
        if self.scheduler.batch_so_far(queue) >= self.scheduler.batch() as u64 {
            self.end_batch(queue);
        }
        true
    }

    /// Can a task of this stream go at once?
    pub(super) fn passes_through(&mut self, stream: u32, op: &Op) -> bool {
        let Some(queue) = self.scheduler.lone_queue(stream) else {
            return false;
        };
        self.memory.is_line_empty()
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
        let queue = self.scheduler.stream(stream).queue;
        let point = self.next_point(queue);
        self.bound.clear();
        let mut sound = self.enter_bindings(&mut task.bindings, point);
        if let Some(extra) = task.extra.more_mut() {
            sound &= self.enter_bindings(&mut extra.bindings, point);
        }
        if !self.after.is_empty() {
            self.issue_waits_after(point);
        }
        self.note_task(stream, task, point, PASSING);
        let object = self.object_of(&task.op);
        let resolved = if sound { Ok(()) } else { self.resolve(task) };
        self.run(task, object, resolved, point);
        // What the backend did not take of the message is dropped here: the mailbox does not.
        task.op = Op::Taken;
        task.extra = Rare::default();
        self.scheduler.passed_through(stream, point.cursor, paid);
        if asked || self.scheduler.batch_so_far(queue) >= self.scheduler.batch() as u64 {
            self.end_batch(queue);
        }
    }

    /// Enters bindings of a task that is to be at `point` in the access logs, notes in `after` what it
    /// must come after, and binds them. Says whether each is of a slice with memory and without
    /// failures; where one is not, what is bound is of no use.
    fn enter_bindings(&mut self, bindings: &mut [Binding], point: Point) -> bool {
        let Self {
            links,
            slices,
            scheduler,
            bound,
            after,
            observers,
            ..
        } = self;
        let all = bound.len() + bindings.len();
        for binding in bindings {
            let Some(key) = links.slice(binding.slice) else {
                continue;
            };
            let Some(slice) = slices.get_mut(key as usize) else {
                continue;
            };
            binding.key = key;
            let (start, access) = (binding.offset, binding.access);
            let end = start.saturating_add(binding.len);
            let short = 4 * u64::from(on(Bug::RangeShort));
            let entered = end.saturating_sub(short).max(start);
            if !slice.log.enter_own(start, entered, access, point) {
                let implied = enter_shared(
                    &mut slice.log,
                    start..entered,
                    access,
                    point,
                    scheduler.queues(),
                    after,
                );
                observers.count().waits_implied += implied;
            }
            if let Some(whole) = bind_whole(slice, binding, end) {
                bound.push(whole);
            }
        }
        bound.len() == all
    }

    /// A task over a binding that has no memory, or failed ranges.
    #[cold]
    fn run_unsound(&mut self, task: &mut Task, object: u32, last: Point, point: Point) {
        let resolved = self.resolve(task);
        self.run(task, object, resolved, point);
        // A replay that came to nothing has taken one cursor, and the logs say that it ends with its last: nothing is at the others,
        // each of which the backend is told of, as cursors go up by one.
        while self.scheduler.queue(last.queue).issued < last.cursor {
            let empty = self.scheduler.next_point(last.queue);
            self.backend.mark(empty.queue, empty.cursor);
        }
    }

    /// The key of a recording, and how many cursors a replay takes.
    #[inline]
    fn recording_and_tasks(&self, recording: RecordingId) -> (u32, u64) {
        match self.links.recording(recording) {
            Some(key) => (key, self.recordings[key as usize].tasks.len().max(1) as u64),
            None => (NO_OBJECT, 1),
        }
    }

    /// Issues the waits that were noted for the task that is to be at `place`.
    #[cold]
    fn issue_waits_after(&mut self, place: Point) {
        let mut after = std::mem::take(&mut self.after);
        self.issue_waits(place, &after);
        after.clear();
        self.after = after;
    }

    /// A task that was to run at `point` failed: its place there stays empty.
    #[cold]
    fn fail_at(&mut self, task: &mut Task, failure: FailureRef, point: Point) {
        self.backend.mark(point.queue, point.cursor);
        self.fail(task, failure);
    }
}

/// Enters a use of bytes that others than the queue of `point` may use, notes in `after` what it must come
/// after, and tells how many uses on other queues it comes after anyway.
#[inline(never)]
fn enter_shared(
    log: &mut AccessLog,
    range: Range<u64>,
    access: Access,
    point: Point,
    queues: &[QueueState],
    after: &mut Vec<Point>,
) -> u64 {
    let mut implied = 0;
    let conflict = |used| match used {
        Use::Issued(other) if other.queue == point.queue => {}
        Use::Issued(other) if needs_wait(queues, point.queue, other) => join(after, other),
        Use::Issued(other) => implied += u64::from(other.cursor > 0),
        Use::Held { .. } => {
            debug_assert!(false, "a log has an entry of a held task, but none is held");
        }
    };
    log.touch(range, access, Use::Issued(point), conflict);
    implied
}

/// One more point to come after: the latest of each queue stands for the earlier ones (I3).
#[cold]
fn join(after: &mut Vec<Point>, point: Point) {
    match after.iter_mut().find(|other| other.queue == point.queue) {
        Some(other) => other.cursor = other.cursor.max(point.cursor),
        None => after.push(point),
    }
}

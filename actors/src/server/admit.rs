//! Admission: a task is issued at once, or its stream holds it with its dependencies.

use millstream_protocol::hazard::log::Use;
use millstream_protocol::{Backend, Binding, Error, Op, Point, QueueId, Task, TaskExtras, Terms};
use millstream_state::hazards::Accessor;
use millstream_state::points::Points;

use super::Server;
use crate::scheduler::Passing;
use crate::stream_actor::HeldTask;

/// The reason for a flush, for the logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushReason {
    /// The stream holds a full batch.
    Full,
    /// A task of another stream conflicts with a held one.
    Conflict,
    /// A caller waits for an answer.
    Requested,
}

impl<B: Backend> Server<B> {
    /// Admits a task of a stream. `paid` says whether its sender took credit of the stream for it.
    ///
    /// Every task comes this way. The one shortcut is [`Server::pass`], for a stream that is alone on its queue while
    /// no task is held: on a busy device that is most messages.
    #[inline(always)]
    pub(super) fn admit_task(&mut self, message: &mut Task, flags: OpFlags, paid: bool) {
        let Some(stream) = message.stream.and_then(|id| self.objects.stream(id)) else {
            return self.refuse(message);
        };
        let is_plain = flags.has(OpFlags::PLAIN);
        if !is_plain && (!message.extra.is_none() || flags.has(OpFlags::SYNC)) {
            self.prepare_special(message, flags);
        }
        let passing = match flags.has(OpFlags::HELD | OpFlags::MANY) {
            false => self.scheduler.pass(stream, paid),
            true => None,
        };
        match passing.or_else(|| self.reassign(stream, &message.op, flags, paid)) {
            Some(passing) => self.pass(stream, passing, message, flags),
            None => self.admit_held(stream, message, flags, paid),
        }
    }

    /// As [`Scheduler::pass`](crate::scheduler::Scheduler::pass), for a stream that may move to another queue, a queue that
    /// must be refreshed, and a task that takes several cursors.
    #[inline(never)]
    fn reassign(&mut self, stream: u32, op: &Op, flags: OpFlags, paid: bool) -> Option<Passing> {
        self.scheduler.rebalance(stream);
        let queue = self.scheduler.lone_queue(stream)?;
        let fits = !self.is_full(queue)
            && !flags.has(OpFlags::HELD)
            && (!flags.has(OpFlags::MANY) || self.fits(queue, op));
        fits.then(|| {
            let cursors = self.cursors_of(op);
            self.scheduler.pass_on(queue, stream, cursors, paid)
        })
    }

    /// Processes drops before a sync, and sets the time before a task with a deadline.
    fn prepare_special(&mut self, message: &Task, flags: OpFlags) {
        if flags.has(OpFlags::SYNC) {
            self.process_all_drops();
        }
        if let Some(since) = message.terms().and_then(Terms::since) {
            // The time that the caller has seen has passed for the server as well.
            self.withdrawals.set_time(since);
        }
    }

    /// Enters a task in the access logs, and lets its stream hold it.
    fn admit_held(&mut self, stream: u32, message: &mut Task, flags: OpFlags, paid: bool) {
        let reserves = matches!(message.op, Op::Reserve { .. });
        if reserves && self.admit_reserve(stream, message) {
            self.scheduler.release_credit(stream);
            message.extra = TaskExtras::default();
            return;
        }
        let mut held = self.scheduler.take_block();
        held.task.take_from(message);
        let under_terms = held.task.terms().is_some();
        held.paid = paid;
        held.admitted_ns = self.observers.admitted_ns(&held.task.op);
        held.object = self.objects.hold(&held.task.op);
        self.admit_hazards(stream, &mut held);
        let (holds, sequence) = self.scheduler.hold(stream, held);
        if reserves && holds == 1 {
            // It joins the wait list now, before reservations that are admitted later.
            self.issue_first(stream);
        } else if self.scheduler.queue(self.scheduler.queue_of(stream)).full {
            // The room that a full queue regains is handed out by turns: otherwise a stream that keeps sending would
            // take all.
        } else if flags.has(OpFlags::ANSWER) {
            self.flush_prefix(stream, sequence, FlushReason::Requested);
        } else if holds >= self.scheduler.batch_size() {
            self.flush_prefix(stream, sequence, FlushReason::Full);
        }
        if under_terms {
            self.watch_withdrawal(stream, sequence);
        }
    }

    /// Executes a message that is not a task.
    pub(super) fn admit_control(&mut self, message: &mut Task) {
        let stream = message.stream;
        match std::mem::replace(&mut message.op, Op::Taken) {
            Op::Device(request) => self.answer_request(*request),
            Op::Register(registration) => self.register(*registration),
            Op::Flush => {
                if let Some(stream) = stream.and_then(|id| self.objects.stream(id)) {
                    self.flush_stream(stream);
                }
            }
            _ => {}
        }
    }

    /// Refuses a task of a stream that this device does not know. Its caller receives an error.
    #[cold]
    fn refuse(&mut self, message: &mut Task) {
        debug_assert!(false, "a task names an unknown stream");
        self.observers.counters.failures += 1;
        message.extra = TaskExtras::default();
        let foreign = Error::Foreign {
            what: "stream",
            which: message
                .stream
                .map_or_else(String::new, |stream| stream.index().to_string()),
        };
        let op = std::mem::replace(&mut message.op, Op::Taken);
        self.answer_unrun(op, foreign, Points::default());
    }

    /// Enters the accesses of a task in the logs, and stores its dependencies in the task.
    fn admit_hazards(&mut self, stream: u32, held: &mut HeldTask) {
        // All flushes come first: a task that is issued after the new one has entered a log would not find its link.
        for binding in held.task.all_bindings_mut() {
            let Some(slice) = self.objects.slice(binding.slice) else {
                continue;
            };
            binding.key = slice;
            self.hazards.hold(slice);
            if self.scheduler.held() > 0 {
                self.flush_conflicts(stream, slice, binding);
            }
        }
        let queue = self.scheduler.queue_of(stream);
        let sequence = self.scheduler.next_sequence(stream);
        let on_host = matches!(held.task.op, Op::Host(_));
        let by = Accessor::held(stream, sequence, (!on_host).then_some(queue));
        let Self {
            hazards,
            scheduler,
            scratch,
            ..
        } = self;
        for binding in held.task.all_bindings() {
            let passed = |point| scheduler.has_passed(point);
            let foreign = &mut scratch.foreign;
            let after = &mut held.after;
            hazards.enter(binding.key, binding, by, passed, |used| match used {
                Use::Issued(point) => after.insert(point),
                Use::Held { stream, sequence } => foreign.push((stream, sequence)),
            });
        }
        scheduler.come_after((stream, sequence), held, &mut scratch.foreign);
        if !held.awaits.is_empty() {
            self.observers.counters.tasks_parked += 1;
            self.scheduler.raise_priority(stream, &held.awaits);
        }
    }

    /// Flushes the streams that hold tasks which conflict with the binding, up to those tasks. Afterwards tasks held by
    /// different streams do not conflict, unless the other stream is parked.
    #[inline]
    fn flush_conflicts(&mut self, stream: u32, slice: u32, binding: &Binding) {
        let foreign = &mut self.scratch.foreign;
        self.hazards
            .held_before(slice, binding, stream, |other, sequence| {
                foreign.push((other, sequence));
            });
        if foreign.is_empty() {
            return;
        }
        let mut foreign = std::mem::take(foreign);
        for (other, sequence) in foreign.drain(..) {
            // A dropped stream is removed with its last task.
            if !self.scheduler.contains(other) {
                continue;
            }
            self.log_conflict(stream, other, binding);
            self.flush_prefix(other, sequence, FlushReason::Conflict);
        }
        self.scratch.foreign = foreign;
    }

    /// Returns `true` if tasks that are issued to `queue` from now on must wait for `point` of another queue.
    #[inline]
    pub(super) fn needs_wait(&self, queue: QueueId, point: Point) -> bool {
        !self.scheduler.has_passed(point) && !self.hazards.implies(queue, point)
    }
}

// The properties of an operation that admission needs, looked up once by the operation's discriminant.

/// A set of the constants below.
#[derive(Clone, Copy)]
pub(super) struct OpFlags(u8);

impl OpFlags {
    /// The operation is not a task.
    pub(super) const CONTROL: u8 = 1;
    /// The operation is never issued at once: it needs memory, or waits until earlier tasks have completed.
    pub(super) const HELD: u8 = 2;
    /// A caller waits for its answer.
    pub(super) const ANSWER: u8 = 4;
    /// Drops are processed before it, so that a caller that dropped a value and then syncs observes the drop.
    pub(super) const SYNC: u8 = 8;
    /// It may take more cursors than its queue has room for: one for each task of a recording, or for each result.
    pub(super) const MANY: u8 = 16;

    /// The flag of [`Self::PLAIN_LAUNCH`].
    pub(super) const PLAIN: u8 = 32;

    /// A launch without extra. As a constant it lets the compiler remove the tests for all other tasks.
    pub(super) const PLAIN_LAUNCH: Self = Self(Self::PLAIN);

    #[inline]
    pub(super) fn of(op: &Op) -> Self {
        Self(match op {
            Op::Taken | Op::Device(_) | Op::Register(_) | Op::Flush => Self::CONTROL,
            Op::Reserve { .. } => Self::HELD,
            Op::Host(_) => Self::HELD | Self::ANSWER,
            Op::CopyOut(_) => Self::ANSWER | Self::MANY,
            Op::SyncPart(_) => Self::ANSWER,
            Op::Answer(_) => Self::ANSWER | Self::SYNC,
            Op::Launch { .. }
            | Op::CopyIn(_)
            | Op::Copy
            | Op::Fill(_)
            | Op::Mark
            | Op::Custom(_)
            | Op::DropAfter(_) => 0,
            Op::Replay { .. } => Self::MANY,
        })
    }

    /// Returns `true` if any of these flags is set.
    #[inline(always)]
    pub(super) fn has(self, these: u8) -> bool {
        self.0 & these != 0
    }
}

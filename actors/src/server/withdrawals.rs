//! Held tasks that act on their withdrawal before their turn.
//!
//! A withdrawn task keeps its place in the order and is removed at its turn, which may be late: behind a host function,
//! or behind missing memory. A caller that waits for its answer is answered at once; the task itself is still decided at
//! its turn, so that failures are marked in issue order. A reservation that waits for memory fails at once, wherever it is
//! in the wait list.
//!
//! This module has the held tasks under terms to which that applies: copies to the host, host functions with a reply, and
//! reservations. An entry is removed when the task was withdrawn or has left the stream, or a part of it is issued: it
//! has begun then, and is not withdrawn any more.

use std::collections::BTreeSet;
use std::time::Instant;

use millstream_protocol::{Backend, Error, Failure, Op, Task};

use super::Server;
use super::host::answer_caller;

/// A held task: the key of its stream, and its sequence there.
type HeldTaskId = (u32, u64);

/// The held tasks under terms that act on their withdrawal before their turn.
#[derive(Default)]
pub(super) struct Withdrawals {
    all: BTreeSet<HeldTaskId>,
    /// The tasks with a deadline, by deadline.
    timed: BTreeSet<(Instant, HeldTaskId)>,
    /// Whether a token may have been cancelled since the last check.
    cancelled: bool,
    /// The time, if any task has had a deadline.
    pub(super) now: Option<Instant>,
}

impl Withdrawals {
    /// Records that a token may have been cancelled.
    pub(super) fn note_cancel(&mut self) {
        self.cancelled = !self.all.is_empty();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Sets the time.
    pub(super) fn set_time(&mut self, now: Instant) {
        self.now = self.now.max(Some(now));
    }

    fn add(&mut self, place: HeldTaskId, deadline: Option<Instant>) {
        self.all.insert(place);
        self.timed
            .extend(deadline.map(|deadline| (deadline, place)));
    }

    fn remove(&mut self, place: HeldTaskId, deadline: Option<Instant>) {
        self.all.remove(&place);
        if let Some(deadline) = deadline {
            self.timed.remove(&(deadline, place));
        }
    }

    /// Returns the tasks whose terms may have withdrawn them by now.
    fn candidates(&mut self) -> Vec<HeldTaskId> {
        if std::mem::take(&mut self.cancelled) {
            return self.all.iter().copied().collect();
        }
        let due = self.timed.iter();
        due.take_while(|(deadline, _)| Some(*deadline) <= self.now)
            .map(|(_, place)| *place)
            .collect()
    }
}

/// Returns `true` if the withdrawal of a task has consequences before its turn.
fn acts_before_its_turn(task: &Task) -> bool {
    match &task.op {
        Op::CopyOut(_) | Op::Reserve { .. } => true,
        Op::Host(work) => work.on_failure.is_some(),
        _ => false,
    }
}

impl<B: Backend> Server<B> {
    /// Returns the earliest deadline of these tasks.
    pub fn next_deadline(&self) -> Option<Instant> {
        Some(self.withdrawals.timed.first()?.0)
    }

    /// Adds a task under terms that was admitted and may be held.
    #[cold]
    pub(super) fn watch_withdrawal(&mut self, stream: u32, sequence: u64) {
        if self.scheduler.has_begun(stream, sequence) {
            return;
        }
        let held = self.scheduler.task(stream, sequence);
        if let Some(task) = held.filter(|task| acts_before_its_turn(task))
            && let Some(terms) = task.terms()
        {
            // A token that was cancelled before the task was sent sends no further message.
            self.withdrawals.cancelled |= terms.withdrawn(self.withdrawals.now).is_some();
            self.withdrawals.add((stream, sequence), terms.deadline());
        }
    }

    /// Removes the entry of a task that has left its stream or begun.
    #[cold]
    pub(super) fn forget_withdrawal(&mut self, place: HeldTaskId, deadline: Option<Instant>) {
        self.withdrawals.remove(place, deadline);
    }

    /// Answers the callers of held tasks that were withdrawn, and ends withdrawn reservations that wait for memory.
    #[cold]
    pub(super) fn end_withdrawn(&mut self) {
        for (stream, sequence) in self.withdrawals.candidates() {
            let now = self.withdrawals.now;
            let Some(task) = self.scheduler.task_mut(stream, sequence) else {
                continue;
            };
            let Some((reason, deadline)) = task
                .terms()
                .and_then(|terms| Some((terms.withdrawn(now)?, terms.deadline())))
            else {
                continue;
            };
            self.withdrawals.remove((stream, sequence), deadline);
            match &mut task.op {
                Op::Host(work) => {
                    let failure = Failure::not_run(&work.name, reason);
                    answer_caller(work, self.device.error_of(failure));
                }
                Op::CopyOut(_) => {
                    let failure = Failure::not_run(&self.objects.names.copy_out, reason);
                    // The rest of the task keeps its place, as an empty task.
                    if let Op::CopyOut(copy) = std::mem::replace(&mut task.op, Op::Mark) {
                        copy.reply.send(Err(Error::Failed(failure)));
                    }
                }
                // The first task of a stream in the wait list is its reservation.
                Op::Reserve { .. } => {
                    let is_first = self.scheduler.first_sequence(stream) == sequence;
                    if is_first && self.memory.wait_list.position(stream).is_some() {
                        self.try_waiting(stream);
                    }
                }
                _ => {}
            }
        }
    }
}

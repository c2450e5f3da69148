//! Callers that wait for an answer of a held task whose time is up.
//!
//! A withdrawn task keeps its place in the order and is removed when its turn comes, which may be late: behind a host function, or
//! behind memory that is missing. Its caller is answered at once. What becomes of the task is decided at its turn all the same, so
//! that failures are marked in issue order.
//!
//! Known here are the tasks under terms that bring an answer (copies to the host, host functions with a reply) and that could not be
//! issued when they were admitted. An entry goes when its caller is answered or its task has left the stream.

use std::collections::BTreeSet;
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::error::Error;
use millstream_protocol::failure::Failure;
use millstream_protocol::message::{Op, Task};

use super::Server;
use super::host::answer_caller;

/// A held task: the key of its stream and its sequence there.
type Place = (u32, u64);

/// Held tasks under terms, of which callers wait for an answer.
#[derive(Default)]
pub(super) struct Askers {
    all: BTreeSet<Place>,
    /// Those with a deadline, by it.
    timed: BTreeSet<(Instant, Place)>,
    /// Whether a token may have been cancelled since the last look.
    cancelled: bool,
    /// The time, if any task has had a deadline.
    now: Option<Instant>,
    wants_time: bool,
}

impl Askers {
    /// The earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        Some(self.timed.first()?.0)
    }

    /// A token may have been cancelled.
    pub(super) fn note_cancel(&mut self) {
        self.cancelled = !self.all.is_empty();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A task has a deadline, and its caller has seen the clock at `since`.
    pub(super) fn want_time(&mut self, since: Instant) {
        self.wants_time = true;
        self.tell_time(since);
    }

    /// Has any task had a deadline?
    pub(super) fn wants_time(&self) -> bool {
        self.wants_time
    }

    /// It is `now`.
    pub(super) fn tell_time(&mut self, now: Instant) {
        self.now = self.now.max(Some(now));
    }

    /// The time, if any task has had a deadline.
    pub(super) fn now(&self) -> Option<Instant> {
        self.now
    }

    /// Nobody waits any more.
    pub(super) fn forget(&mut self) {
        self.all.clear();
        self.timed.clear();
        self.cancelled = false;
    }

    fn add(&mut self, place: Place, deadline: Option<Instant>) {
        self.all.insert(place);
        self.timed
            .extend(deadline.map(|deadline| (deadline, place)));
    }

    fn remove(&mut self, place: Place, deadline: Option<Instant>) {
        self.all.remove(&place);
        if let Some(deadline) = deadline {
            self.timed.remove(&(deadline, place));
        }
    }

    /// The tasks whose terms may have withdrawn them by now.
    fn candidates(&mut self) -> Vec<Place> {
        if std::mem::take(&mut self.cancelled) {
            return self.all.iter().copied().collect();
        }
        let due = self.timed.iter();
        due.take_while(|(deadline, _)| Some(*deadline) <= self.now)
            .map(|(_, place)| *place)
            .collect()
    }
}

/// Whether a caller waits for an answer that the task's own turn would bring.
fn has_asker(task: &Task) -> bool {
    match &task.op {
        Op::CopyOut(_) => true,
        Op::Host(work) => work.told.is_some(),
        _ => false,
    }
}

impl<B: Backend> Server<B> {
    /// A task under terms was admitted, and may be held.
    #[cold]
    pub(super) fn note_asker(&mut self, stream: u32, sequence: u64) {
        let held = self.scheduler.task(stream, sequence);
        if let Some(task) = held.filter(|task| has_asker(task))
            && let Some(terms) = task.terms()
        {
            // A token that was cancelled before sends no second message.
            self.askers.cancelled |= terms.withdrawn(self.askers.now).is_some();
            self.askers.add((stream, sequence), terms.deadline());
        }
    }

    /// A task under terms has left its stream.
    #[cold]
    pub(super) fn forget_asker(&mut self, place: Place, deadline: Option<Instant>) {
        self.askers.remove(place, deadline);
    }

    /// Answers the callers whose tasks have been withdrawn and are still held.
    #[cold]
    pub(super) fn answer_withdrawn(&mut self) {
        for (stream, sequence) in self.askers.candidates() {
            let now = self.askers.now;
            let Some(task) = self.scheduler.task_mut(stream, sequence) else {
                continue;
            };
            let Some((reason, deadline)) = task
                .terms()
                .and_then(|terms| Some((terms.withdrawn(now)?, terms.deadline())))
            else {
                continue;
            };
            self.askers.remove((stream, sequence), deadline);
            match &mut task.op {
                Op::Host(work) => {
                    let failure = Failure::not_run(&work.name, reason);
                    answer_caller(work, self.device.error_of(failure));
                }
                Op::CopyOut(_) => {
                    let failure = Failure::not_run(&self.objects.names().copy_out, reason);
                    // What is left of it keeps its place, and does nothing there.
                    if let Op::CopyOut(copy) = std::mem::replace(&mut task.op, Op::Mark) {
                        copy.reply.send(Err(Error::Failed(failure)));
                    }
                }
                _ => {}
            }
        }
    }
}

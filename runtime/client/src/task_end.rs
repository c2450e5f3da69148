//! The end of a task that code outside of the device carries out. It may come before the turn of the task.

use std::sync::Arc;

use millstream_protocol::{
    Extent, Failure, FailureRef, HostBytes, HostDone, HostOutcome, HostUpload, Process, Reason,
};
use millstream_sync::facade::{Mutex, lock};

use crate::copies::same_length;
use crate::{Permit, Returned};

/// The end of a task that code outside of the device carries out. A drop fails the task.
pub(crate) struct TaskEnd {
    pub(crate) name: Arc<str>,
    /// Whether its code may have written a part of its output when it fails.
    extent: Extent,
    /// `None` once the end is reported.
    turn: Option<Turn>,
    /// The process of the task. In a forked child an end is leaked, since a thread of the parent may hold its locks.
    process: Process,
}

/// The turn of a task, to which its end is reported.
enum Turn {
    /// It has come. Without a permit if the device keeps that until it knows of the end.
    Come(HostDone, Option<Permit>),
    /// It may not have come.
    Awaited(Arc<Mutex<Meeting>>),
}

impl TaskEnd {
    /// Creates the end of a task that has begun.
    pub(crate) fn begun(
        name: Arc<str>,
        extent: Extent,
        done: HostDone,
        permit: Option<Permit>,
    ) -> Self {
        let turn = Some(Turn::Come(done, permit));
        Self {
            name,
            extent,
            turn,
            process: Process::current(),
        }
    }

    /// Creates the end of a task that may not have begun.
    pub(crate) fn early(name: Arc<str>, meeting: Arc<Mutex<Meeting>>) -> Self {
        Self {
            name,
            extent: Extent::NotRun,
            turn: Some(Turn::Awaited(meeting)),
            process: Process::current(),
        }
    }

    /// Reports the end.
    pub(crate) fn report(mut self, outcome: HostOutcome) {
        self.end(outcome);
    }

    /// Returns `true` if the end can be reported to nothing: the task cannot run any more, or this is a forked child.
    pub(crate) fn is_over(&self) -> bool {
        if !self.process.is_current() {
            return true;
        }
        match &self.turn {
            Some(Turn::Come(..)) => false,
            Some(Turn::Awaited(meeting)) => matches!(*lock(meeting), Meeting::Over),
            None => true,
        }
    }

    fn end(&mut self, outcome: HostOutcome) {
        if !self.process.is_current() {
            return std::mem::forget((self.turn.take(), outcome));
        }
        match self.turn.take() {
            Some(Turn::Come(done, _permit)) => done.end(outcome),
            Some(Turn::Awaited(meeting)) => Meeting::outcome(&meeting, outcome),
            None => {}
        }
    }

    /// Reports the bytes of the output, of which `expected` are expected.
    pub(crate) fn arrive<H: HostBytes>(self, data: H, expected: u64) -> Result<(), Returned<H>> {
        let upload = HostUpload::<H>::new(data);
        match same_length(&self.name, upload.len() as u64, expected) {
            Ok(()) => {
                self.report(HostOutcome::Arrived(upload.erase()));
                Ok(())
            }
            Err(error) => Err(Returned {
                value: upload.into_data(),
                error,
            }),
        }
    }

    /// Fails the task.
    pub(crate) fn fail(self, reason: Reason) {
        let failure = self.failure(reason);
        self.report(HostOutcome::Failed(failure));
    }

    /// Fails the task because of another failure.
    pub(crate) fn fail_by(self, cause: FailureRef) {
        let failure = Arc::new(Failure {
            extent: self.extent,
            ..(*Failure::input(&self.name, cause)).clone()
        });
        self.report(HostOutcome::Failed(failure));
    }

    fn failure(&self, reason: Reason) -> FailureRef {
        Arc::new(Failure {
            task: self.name.clone(),
            reason,
            extent: self.extent,
            origin: None,
        })
    }
}

impl Drop for TaskEnd {
    fn drop(&mut self) {
        let why = match self.turn {
            None => return,
            Some(Turn::Come(..)) => "it was dropped before it was completed",
            Some(Turn::Awaited(_)) => "its bytes were dropped before they were sent",
        };
        let failure = self.failure(Reason::Refused(why.to_owned()));
        self.end(HostOutcome::Failed(failure));
    }
}

/// The turn of a task and its outcome, which arrive in any order.
pub(crate) enum Meeting {
    /// Neither has arrived.
    Open,
    /// The task's turn has come, and its bytes have not arrived.
    Turn(HostDone, Permit),
    /// The bytes have arrived, or never will.
    Outcome(HostOutcome),
    /// Both have arrived, or the task cannot run.
    Over,
}

impl Meeting {
    /// The task's turn has come.
    pub(crate) fn turn(meeting: &Mutex<Self>, done: HostDone, permit: Permit) {
        let mut state = lock(meeting);
        match std::mem::replace(&mut *state, Self::Over) {
            Self::Outcome(outcome) => {
                drop(state);
                done.end(outcome);
            }
            _ => *state = Self::Turn(done, permit),
        }
    }

    /// The outcome is known.
    fn outcome(meeting: &Mutex<Self>, outcome: HostOutcome) {
        let mut state = lock(meeting);
        match std::mem::replace(&mut *state, Self::Over) {
            Self::Open => *state = Self::Outcome(outcome),
            Self::Turn(done, _permit) => {
                drop(state);
                done.end(outcome);
            }
            Self::Outcome(_) | Self::Over => {}
        }
    }

    /// The task cannot run.
    pub(crate) fn cannot_run(meeting: &Mutex<Self>) {
        let settled = std::mem::replace(&mut *lock(meeting), Self::Over);
        // Its bytes, which are user code, are dropped outside of the lock.
        drop(settled);
    }
}

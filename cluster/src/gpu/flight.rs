//! A call whose work is on its lanes.

use std::time::{Duration, Instant};

use millstream::FailureRef;
use millstream::backend::Refused;
use millstream::cuda::{Communicators, Mark};
use smallvec::SmallVec;

use super::failure_by;
use crate::part::Part;

/// How long polls follow each other without a pause: as long as small calls take. A thread that yields leaves the core to
/// any other thread that can run.
const YIELDS_FOR: Duration = Duration::from_micros(50);
/// Later the pause is this part of the time that the call has taken, so that a poll is late by that part at most.
const PAUSE_PART: u32 = 16;
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_micros(100);

/// A call whose work is on its lanes.
pub(super) struct Flight {
    name: &'static str,
    steps: SmallVec<[Step; 1]>,
    failure: Option<FailureRef>,
    /// Whether its work on one GPU waits for that on others.
    is_collective: bool,
    began: Instant,
}

/// Parts, and the marks after which they end.
pub(super) struct Step {
    pub(super) marks: SmallVec<[Mark; 2]>,
    pub(super) parts: SmallVec<[Part; 2]>,
}

impl Flight {
    pub(super) fn new(name: &'static str, steps: SmallVec<[Step; 1]>) -> Self {
        Self {
            name,
            steps,
            failure: None,
            is_collective: false,
            began: Instant::now(),
        }
    }

    /// A call whose work on one GPU waits for that on others, by communicators.
    pub(super) fn collective(name: &'static str, steps: SmallVec<[Step; 1]>) -> Self {
        Self {
            is_collective: true,
            ..Self::new(name, steps)
        }
    }

    /// Fails the parts that have not ended. They end once no work uses their memory any more.
    pub(super) fn fail(&mut self, refused: Refused) {
        self.failure
            .get_or_insert_with(|| failure_by(self.name, refused));
    }

    /// Returns the pause before the next poll. Without one the thread yields.
    pub(super) fn pause(&self) -> Duration {
        match self.began.elapsed() {
            taken if taken < YIELDS_FOR => Duration::ZERO,
            taken => (taken / PAUSE_PART).min(PAUSE_MAX),
        }
    }

    fn has_marks(&self) -> bool {
        self.steps.iter().any(|step| !step.marks.is_empty())
    }

    /// Ends the parts whose marks have completed. Returns whether all have ended.
    pub(super) fn poll(&mut self, communicators: &mut Option<Communicators>) -> bool {
        let waits = self.is_collective && self.failure.is_none() && self.has_marks();
        let mut lost = match communicators {
            _ if !waits => None,
            Some(communicators) => communicators.asynchronous_error(),
            None => Some(Refused::Task(
                "the failure of another call ended its communicators".to_owned(),
            )),
        };
        for step in &mut self.steps {
            step.marks.retain(|mark| match mark.is_complete() {
                Ok(complete) => !complete,
                Err(refused) => {
                    // On a lost GPU no work runs. Otherwise it may, so the driver is asked again.
                    let runs = !matches!(refused, Refused::Lost(_));
                    lost = Some(refused);
                    runs
                }
            });
        }
        if let Some(refused) = lost {
            if waits {
                // The work on the other GPUs would wait for ever.
                abort(communicators);
            }
            self.fail(refused);
        }
        let failure = self.failure.clone();
        self.steps.retain(|step| {
            let is_pending = !step.marks.is_empty();
            if !is_pending {
                end(&mut step.parts, failure.as_ref());
            }
            is_pending
        });
        self.steps.is_empty()
    }
}

/// Ends the collectives that run. The next one has new communicators.
pub(super) fn abort(communicators: &mut Option<Communicators>) {
    if let Some(communicators) = communicators.take() {
        communicators.abort();
    }
}

fn end(parts: &mut SmallVec<[Part; 2]>, failure: Option<&FailureRef>) {
    for part in parts.drain(..) {
        match failure {
            None => part.complete(),
            Some(cause) => part.fail_by(cause.clone()),
        }
    }
}

//! A call whose work is on its lanes.

use std::time::{Duration, Instant};

use millstream::FailureRef;
use millstream::backend::Refused;
use millstream::cuda::{Communicators, Mark};

use super::failure_by;
use crate::part::{Part, fail_all};

/// How long polls follow each other without a pause: as long as small calls take. A thread that yields leaves the core to
/// any other thread that can run.
const YIELDS_FOR: Duration = Duration::from_micros(50);
/// Later the pause is this part of the time that the call has taken, so that a poll is late by that part at most.
const PAUSE_PART: u32 = 16;
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_micros(100);

/// A call whose work is on its lanes. Its parts end together, after all of its marks.
pub(super) struct Flight {
    pub(super) name: &'static str,
    pub(super) marks: Vec<Mark>,
    pub(super) parts: Vec<Part>,
    pub(super) failure: Option<FailureRef>,
    /// Whether its work on one GPU waits for that on others, by communicators.
    pub(super) is_collective: bool,
    pub(super) began: Instant,
}

impl Flight {
    /// Returns the pause before the next poll. Without one the thread yields.
    pub(super) fn pause(&self) -> Duration {
        match self.began.elapsed() {
            taken if taken < YIELDS_FOR => Duration::ZERO,
            taken => (taken / PAUSE_PART).min(PAUSE_MAX),
        }
    }

    /// Ends the parts if the marks have completed. Returns whether they have.
    pub(super) fn poll(&mut self, communicators: &mut Option<Communicators>) -> bool {
        let waits = self.is_collective && self.failure.is_none() && !self.marks.is_empty();
        let mut lost = match communicators {
            _ if !waits => None,
            Some(communicators) => communicators.asynchronous_error(),
            None => Some(Refused::Task(
                "the failure of another call ended its communicators".to_owned(),
            )),
        };
        self.marks.retain(|mark| match mark.is_complete() {
            Ok(complete) => !complete,
            Err(refused) => {
                // On a lost GPU no work runs. Otherwise it may, so the driver is asked again.
                let runs = !matches!(refused, Refused::Lost(_));
                lost = Some(refused);
                runs
            }
        });
        if let Some(refused) = lost {
            if waits {
                // The work on the other GPUs would wait for ever.
                abort(communicators);
            }
            // The parts end once no work uses their memory any more.
            let cause = failure_by(self.name, refused);
            self.failure.get_or_insert(cause);
        }
        let is_over = self.marks.is_empty();
        if is_over {
            let parts = std::mem::take(&mut self.parts);
            match &self.failure {
                None => parts.into_iter().for_each(Part::complete),
                Some(cause) => fail_all(parts, cause),
            }
        }
        is_over
    }
}

/// Ends the collectives that run. The next one has new communicators.
pub(super) fn abort(communicators: &mut Option<Communicators>) {
    if let Some(communicators) = communicators.take() {
        communicators.abort();
    }
}

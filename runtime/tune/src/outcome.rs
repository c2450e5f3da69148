//! The result of a tuning.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::stats::Summary;

/// The result of one candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub name: Arc<str>,
    /// The index in the set.
    pub index: usize,
    /// The measured times, or why it was eliminated.
    pub result: Result<Summary, Failure>,
}

/// The result of a tuning: every candidate that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The index of the winner in the set.
    pub winner: usize,
    /// The clock of the times.
    pub clock: String,
    /// The confidence that the winner's median exceeds that of no other candidate by more than the tolerance: the
    /// requested confidence if the race reached it before the samples or the time ran out, and 0 otherwise.
    pub confidence: f64,
    /// All candidates that were tried, the fastest first and the failed ones last.
    pub candidates: Vec<Candidate>,
}

impl Outcome {
    /// Returns the winner.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|candidate| candidate.index == self.winner)
    }

    /// Returns the names and medians of the fastest three, for logs.
    pub(crate) fn top(&self) -> String {
        let medians = self.candidates.iter().filter_map(|candidate| {
            let microseconds = candidate.result.as_ref().ok()?.median / 1e3;
            Some(format!("`{}` {microseconds:.2} µs", candidate.name))
        });
        medians.take(3).collect::<Vec<_>>().join(", ")
    }
}

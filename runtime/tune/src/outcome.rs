//! What came of tuning a key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::stats::Summary;

/// What came of one candidate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub name: Arc<str>,
    /// Its place in the set.
    pub index: usize,
    /// How long it took, or why it is out.
    pub result: Result<Summary, Failure>,
}

/// What came of tuning a key: every candidate that was tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The index of the winner in the set.
    pub winner: usize,
    /// Whose clock the times are of.
    pub clock: String,
    /// How sure it is that the winner's median is no more than the tolerance above that of any other: the confidence that was asked for, where
    /// that was reached before the samples or the time ran out, and 0 where not.
    pub confidence: f64,
    /// All that were tried, the fastest first and those that failed last.
    pub candidates: Vec<Candidate>,
}

impl Outcome {
    /// The winner.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|candidate| candidate.index == self.winner)
    }

    /// The names and medians of the fastest three, in words.
    pub(crate) fn top(&self) -> String {
        let medians = self.candidates.iter().filter_map(|candidate| {
            let summary = candidate.result.as_ref().ok()?;
            Some(format!(
                "`{}` {}",
                candidate.name,
                microseconds(summary.median)
            ))
        });
        medians.take(3).collect::<Vec<_>>().join(", ")
    }
}

fn microseconds(nanoseconds: f64) -> String {
    format!("{:.2} us", nanoseconds / 1e3)
}

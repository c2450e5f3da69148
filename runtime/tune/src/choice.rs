//! The state of a key, the policy for unknown keys, and choices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::stats::Summary;

/// What a tuner knows of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fastest {
    /// The fastest candidate, by its index in the set.
    Hit(usize),
    /// The key is being tuned.
    Pending,
    /// A stored choice whose checksum was not compared with a set yet:
    /// [`Tuner::validate_checksum`](crate::Tuner::validate_checksum) does that.
    Unchecked,
    /// Nothing is known.
    Miss,
}

/// What to do for a key that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Tune the key now. Other callers that need the key wait for the result, so it is tuned once.
    #[default]
    Wait,
    /// Use the default and tune nothing: for the path of a frame or a request. `Background` of the package
    /// `millstream` tunes the key on another thread.
    UseDefault,
    /// Never tune, so that the same program behaves the same. A key that is not known is an error.
    Frozen,
    /// Never tune, and use the default for a key that is not known.
    FrozenDefault,
}

/// A chosen candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its index in the set.
    pub index: usize,
    /// Why it was chosen.
    pub by: Chosen,
}

/// Why a candidate was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// It is the only candidate.
    Alone,
    /// It was known to be the fastest.
    Known,
    /// A tuning has just found it to be the fastest.
    Tuned,
    /// It is the default, and the fastest candidate is not known.
    Default,
}

// The result of a tuning.

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

//! What can go wrong.

use std::sync::Arc;

/// Why one candidate is out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Failure {
    /// It returned this error, or the device answered it.
    #[error("{0}")]
    Failed(String),
    /// It panicked with this.
    #[error("panicked with \"{0}\"")]
    Panicked(String),
}

impl Failure {
    /// Of an error.
    pub fn new(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Why there is no choice.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The set has no candidate for this key: it is empty, or the priorities of all are negative.
    #[error(
        "`{set}` has no candidate for {key}: add one, or give one a priority that is not negative"
    )]
    NoCandidates {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
    },
    /// None of them works.
    #[error("no candidate of `{set}` works for {key}: {}", reasons(.failures))]
    AllFailed {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
        /// Each by its name, and why.
        failures: Vec<(Arc<str>, Failure)>,
    },
    /// It is being tuned on this very thread, around the candidate that asks or between two pumps; or on one that waits for what this
    /// thread tunes. Whoever waited for that here would wait for ever.
    #[error(
        "{key} of `{set}` is being tuned by this thread, or by one that waits for it, which cannot wait for itself: use `Policy::UseDefault` here, or finish that tuning first"
    )]
    TunedHere {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
    },
    /// A tuning was begun with one set, and gone on with another.
    #[error(
        "the tuning of {key} was begun with other candidates than those of `{set}`: go on with the set that it was begun with"
    )]
    OtherSet {
        /// The name of the set that it was gone on with.
        set: Arc<str>,
        /// The key.
        key: String,
    },
    /// Nothing is tuned under [`Policy::Frozen`](crate::Policy::Frozen), and this key is not known.
    #[error(
        "{key} of `{set}` was not tuned, and tuning is frozen: tune it before, or import a bundle that has it"
    )]
    Frozen {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
    },
}

fn reasons(failures: &[(Arc<str>, Failure)]) -> String {
    let each = failures.iter().map(|(name, why)| format!("`{name}` {why}"));
    each.collect::<Vec<_>>().join("; ")
}

/// Why what was kept could not be read, or could not be kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused.
    #[error("the tuning cache {place} cannot be {verb}: {why}; give another place, or none")]
    Io {
        /// Where it is.
        place: String,
        /// What was tried.
        verb: &'static str,
        /// What the system said.
        why: String,
    },
    /// It is of another device, or of another version of it.
    #[error("it was tuned on {of}, and this is {here}: tune here, or import it on such a device")]
    OtherDevice {
        /// Where it was tuned.
        of: String,
        /// What is here.
        here: String,
    },
    /// It is nothing that was kept by this library.
    #[error("it is no tuning cache, or its first line is damaged: {why}")]
    NotACache {
        /// What is wrong with it.
        why: String,
    },
}

//! Errors of tuning and of stores.

use std::sync::Arc;

/// Why a candidate was eliminated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Failure {
    /// The candidate or the device returned this error.
    #[error("{0}")]
    Failed(String),
    /// The candidate panicked with this message.
    #[error("panicked with \"{0}\"")]
    Panicked(String),
}

impl Failure {
    /// Creates a failure from an error.
    pub fn new(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Why a candidate cannot be chosen.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The set is empty.
    #[error("`{set}` has no candidate for {key}: add one")]
    NoCandidates {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
    },
    /// No candidate works.
    #[error("no candidate of `{set}` works for {key}: {}", reasons(.failures))]
    AllFailed {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
        /// The names of the candidates, and why they fail.
        failures: Vec<(Arc<str>, Failure)>,
    },
    /// Waiting would deadlock: this thread tunes the key itself (in an outer candidate, or between two pumps), or the
    /// thread that tunes it waits for a key that this thread tunes.
    #[error(
        "waiting for {key} of `{set}` would deadlock: this thread tunes it, or a thread that waits for this one does; use `Policy::UseDefault` here, or finish that tuning first"
    )]
    WouldDeadlock {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
    },
    /// A tuning was continued with another set than it was begun with.
    #[error(
        "the tuning of {key} was begun with another set than `{set}`: continue it with the set that it was begun with"
    )]
    OtherSet {
        /// The name of the set that it was continued with.
        set: Arc<str>,
        /// The key.
        key: String,
    },
    /// The policy is [`Policy::Frozen`](crate::Policy::Frozen), and the key is not known.
    #[error(
        "{key} of `{set}` was not tuned, and tuning is frozen: tune the key before, or import a bundle that contains it"
    )]
    Frozen {
        /// The name of the set.
        set: Arc<str>,
        /// The key.
        key: String,
    },
}

impl TuneError {
    /// Creates an error about a key of a set.
    pub(crate) fn about(
        set: &Arc<str>,
        key: &impl std::fmt::Debug,
        why: impl FnOnce(Arc<str>, String) -> Self,
    ) -> Self {
        why(set.clone(), format!("{key:?}"))
    }
}

fn reasons(failures: &[(Arc<str>, Failure)]) -> String {
    let each = failures.iter().map(|(name, why)| format!("`{name}` {why}"));
    each.collect::<Vec<_>>().join("; ")
}

/// Why a tuning cache cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system returned an error.
    #[error("the tuning cache {place} cannot be {verb}: {why}; use another location, or none")]
    Io {
        /// The location of the cache.
        place: String,
        /// The operation, as a participle.
        verb: &'static str,
        /// The error of the system.
        why: String,
    },
    /// The cache is of another device, or of another version.
    #[error(
        "the choices were tuned on {of}, but this is {here}: tune here, or load them on such a device"
    )]
    OtherDevice {
        /// The device and version of the cache.
        of: String,
        /// The device and version of this program.
        here: String,
    },
    /// The bytes are not a tuning cache of this library.
    #[error(
        "the bytes are not a tuning cache, or their first line is damaged: {why}; tune again, or load another file"
    )]
    NotACache {
        /// The reason.
        why: String,
    },
}

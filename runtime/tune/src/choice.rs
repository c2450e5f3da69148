//! The state of a key, the policy for unknown keys, and choices.

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

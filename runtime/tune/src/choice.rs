//! What is known, what is to be done where nothing is, and what was chosen.

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fastest {
    /// The fastest candidate, by its index in the set.
    Hit(usize),
    /// It is being tuned.
    Pending,
    /// One was stored, of a set whose checksum nobody has compared yet: [`Tuner::validate_checksum`](crate::Tuner::validate_checksum) settles it.
    Unchecked,
    /// Nothing.
    Miss,
}

/// What to do where a key is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Tune it here and now. Others that ask for it meanwhile wait until that is over, and nobody tunes it twice.
    #[default]
    Wait,
    /// Use the default, and tune nothing here: for a frame's or a request's path. `Background` of the package `millstream` tunes it behind
    /// the caller's back.
    UseDefault,
    /// Tune nothing, ever: the same program does the same. A key that is not known is an error.
    Frozen,
    /// The same, with the default for a key that is not known.
    FrozenDefault,
}

/// A candidate that was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its index in the set.
    pub index: usize,
    /// Why it.
    pub by: Chosen,
}

/// How a candidate came to be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// There is no other, or no other that may be tried.
    Alone,
    /// It was known to be the fastest.
    Known,
    /// It was found to be, now.
    Tuned,
    /// It is the default, and what is the fastest is not known.
    Default,
}

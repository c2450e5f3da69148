//! [`ProgramError`]: why a program is invalid.

/// The reason why a program is invalid, as a sentence: the item or statement of the program, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramError(String);

impl ProgramError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(crate) fn too_many(what: &str, given: u64, limit: u64) -> Self {
        Self(format!("expected at most {limit} {what}, got {given}"))
    }
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramError {}

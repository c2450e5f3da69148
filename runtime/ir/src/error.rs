//! [`ProgramError`]: why a program is invalid.

use std::fmt::{self, Display};

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

impl Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramError {}

/// A part of a program that is checked: errors name it.
pub(crate) trait Checked: Copy {
    /// Returns the error of this part.
    fn error(self, why: impl Display) -> ProgramError;

    /// Returns the error that the part names an item that does not exist.
    #[cold]
    fn missing(self, what: &str, index: impl Into<u64>) -> ProgramError {
        let index = index.into();
        self.error(format_args!("names {what} {index}, which does not exist"))
    }

    /// Returns an error unless two types are equal.
    fn same<T: PartialEq + Display>(
        self,
        expected: impl Into<T>,
        given: T,
    ) -> Result<(), ProgramError> {
        let expected = expected.into();
        self.expect(expected == given, expected, given)
    }

    /// Returns an error unless an operation takes a type.
    fn takes(self, takes: bool, op: impl Display, given: impl Display) -> Result<(), ProgramError> {
        self.expect(takes, format_args!("a type that `{op}` supports"), given)
    }

    /// Returns an error unless a type fits.
    fn expect(
        self,
        fits: bool,
        expected: impl Display,
        given: impl Display,
    ) -> Result<(), ProgramError> {
        match fits {
            true => Ok(()),
            false => Err(self.error(format_args!("expects {expected}, got {given}"))),
        }
    }
}

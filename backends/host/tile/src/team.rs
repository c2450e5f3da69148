//! Who runs a launch, and why one has not run.

use std::ops::Range;

use crate::launch_error::LaunchError;

/// Who runs the pieces of a launch.
pub trait Team {
    /// Runs `work` on ranges of `0..pieces` that cover each piece exactly once, on any threads at once. All together take one
    /// thread about `ns` nanoseconds. Blocks until all are done.
    ///
    /// # Errors
    /// The message of the first panic.
    fn share(
        &mut self,
        pieces: u64,
        ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String>;

    /// How many threads there are for [`Team::share`], at least one.
    fn threads(&self) -> usize;
}

/// The calling thread and nobody else. Does not catch panics.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleThread;

impl Team for SingleThread {
    fn share(
        &mut self,
        pieces: u64,
        _ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String> {
        work(0..pieces);
        Ok(())
    }

    fn threads(&self) -> usize {
        1
    }
}

/// Why a launch has not run, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// It was refused before anything ran.
    Refused(LaunchError),
    /// A piece panicked with this message.
    Panic(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Refused(error) => write!(f, "{error}"),
            RunError::Panic(message) => write!(f, "it panicked: {message}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<LaunchError> for RunError {
    fn from(error: LaunchError) -> Self {
        Self::Refused(error)
    }
}

//! The threads that run a launch, and the errors of running it.

use std::ops::Range;

/// The threads that run the pieces of a launch.
pub trait Team {
    /// Runs `work` on ranges of `0..pieces` that cover each piece exactly once, concurrently on any threads. One
    /// thread needs about `ns` nanoseconds for all pieces. Blocks until all are done.
    ///
    /// # Errors
    /// The message of the first panic.
    fn share(
        &mut self,
        pieces: u64,
        ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String>;

    /// Returns the number of threads of [`Team::share`], at least one.
    fn threads(&self) -> usize;
}

/// The calling thread alone. Does not catch panics.
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

/// The reason a launch did not run, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It was refused before anything ran.
    #[error("{0}")]
    Refused(String),
    /// A piece panicked with this message.
    #[error("panicked with \"{0}\"")]
    Panic(String),
}

impl From<String> for RunError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

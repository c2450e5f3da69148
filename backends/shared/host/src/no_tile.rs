//! What stands for [`millstream_tile`](https://docs.rs/millstream-tile) in programs that were built without the feature
//! `tile`: no nest and no product compiles.

use std::ops::Range;

use millstream_ir::{Blocking, Program};
use millstream_protocol::NativeView;

/// The threads that share the pieces of a program.
pub trait Team {
    /// Runs `work` on ranges of `0..pieces` that cover each piece exactly once. One thread needs about `ns` nanoseconds
    /// for all pieces. Blocks until all are done.
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

/// A compiled nest or product. There is none.
#[derive(Debug)]
pub enum Code {}

impl Code {
    /// Returns no blockings.
    pub fn blockings(_program: &Program) -> Vec<Blocking> {
        Vec::new()
    }

    pub(crate) fn compile(_program: &Program, _options: Options) -> Result<Self, String> {
        Err("this program was built without the feature `graph` of millstream, which runs nests and products on the CPU".to_owned())
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    ///
    /// # Safety
    /// None.
    pub unsafe fn run(
        &self,
        _views: &[NativeView],
        _words: &[u64],
        _team: &mut dyn Team,
    ) -> Result<(), RunError> {
        match *self {}
    }
}

/// The options of a compilation.
pub(crate) struct Options {
    pub(crate) blocking: Blocking,
    #[allow(dead_code, reason = "nothing compiles")]
    pub(crate) machine_code: bool,
}

/// The reason a launch did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
#[allow(dead_code, reason = "there is no program to launch")]
pub enum RunError {
    /// The launch was refused, for this reason.
    #[error("{0}")]
    Refused(String),
    /// Code of the kernel has panicked.
    #[error("panicked with \"{0}\"")]
    Panic(String),
}

//! A compiled program, and how it is run.

use std::ops::Range;

use millstream_ir::{Blocking, Program};
use millstream_protocol::kernel::NativeView;

use crate::build::Unfit;
use crate::level::Level;
use crate::matmul::{self, MatmulCode};
use crate::misfit::Misfit;
use crate::nest::{self, NestCode};

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
pub struct Alone;

impl Team for Alone {
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
    Misfit(Misfit),
    /// A piece panicked with this message.
    Panic(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Misfit(misfit) => write!(f, "{misfit}"),
            RunError::Panic(message) => write!(f, "it panicked: {message}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<Misfit> for RunError {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

/// A program, compiled for this processor.
#[derive(Debug)]
pub struct Code {
    kind: Box<Kind>,
}

#[derive(Debug)]
enum Kind {
    Nest(NestCode),
    Matmul(MatmulCode),
}

impl Code {
    /// Compiles a program. Takes microseconds.
    ///
    /// # Errors
    /// What of it cannot be run here.
    pub fn compile(program: &Program) -> Result<Self, Unfit> {
        Self::compile_blocked(program, Blocking::USUAL)
    }

    /// As [`Code::compile`], cut up so: one of those that [`Code::blockings`] has for the program, or the usual one.
    ///
    /// # Errors
    /// As there; [`Unfit::Blocking`] of others.
    pub fn compile_blocked(program: &Program, blocking: Blocking) -> Result<Self, Unfit> {
        let processor = Level::of_processor();
        if blocking != Blocking::USUAL && !Self::blockings(program).contains(&blocking) {
            return Err(Unfit::Blocking(blocking));
        }
        Self::compile_for(program, processor.of_vectors(blocking.vector), blocking)
    }

    /// How a program can be cut up beside the usual way: what a tuner chooses among. Nothing, where there is nothing to choose.
    pub fn blockings(program: &Program) -> Vec<Blocking> {
        let vectors = Level::of_processor().narrower();
        match program {
            Program::Nest(nest) => nest::blockings(nest, &vectors),
            Program::Matmul(_) => matmul::blockings(),
            _ => Vec::new(),
        }
    }

    /// As [`Code::compile_blocked`], for a level that the processor has.
    pub(crate) fn compile_for(
        program: &Program,
        level: Level,
        blocking: Blocking,
    ) -> Result<Self, Unfit> {
        program.check().map_err(Unfit::Wrong)?;
        let kind = match program {
            Program::Nest(nest) => Kind::Nest(NestCode::compile(nest, level, blocking.rows)?),
            Program::Matmul(matmul) => {
                Kind::Matmul(MatmulCode::compile(matmul, level, blocking.tile)?)
            }
            _ => return Err(Unfit::Kind),
        };
        Ok(Self {
            kind: Box::new(kind),
        })
    }

    /// Runs a launch: views are its bindings, words its launch words. Blocks until it is done.
    ///
    /// # Errors
    /// Why it is refused (then nothing ran), or what a piece panicked with.
    ///
    /// # Safety
    /// The memory behind the views is initialized, and nobody else touches what the program writes or writes what it reads
    /// until this returns. Views may overlap.
    pub unsafe fn run(
        &self,
        views: &[NativeView],
        words: &[u64],
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        match &*self.kind {
            // SAFETY: the caller's promises.
            Kind::Nest(nest) => unsafe { nest.run(views, words, None, team) },
            // SAFETY: the caller's promises.
            Kind::Matmul(matmul) => unsafe { matmul.run(views, words, team) },
        }
    }
}

//! A compiled program, and how it is run.

use millstream_ir::{Blocking, Program};
use millstream_protocol::kernel::NativeView;

use crate::build::CompileError;
use crate::level::Level;
use crate::matmul::{self, MatmulCode};
use crate::nest::{self, NestCode};
use crate::options::Options;
use crate::team::{RunError, Team};

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
    /// What of it cannot be run here; [`Unfit::Blocking`] of a way to cut it up that there is not.
    pub fn compile(program: &Program, options: Options) -> Result<Self, CompileError> {
        let (processor, blocking) = (Level::of_processor(), options.blocking);
        if blocking != Blocking::USUAL && !Self::blockings(program).contains(&blocking) {
            return Err(CompileError::Blocking(blocking));
        }
        Self::compile_for(program, processor.of_vectors(blocking.vector), options)
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

    /// As [`Code::compile`], for a level that the processor has.
    pub(crate) fn compile_for(
        program: &Program,
        level: Level,
        options: Options,
    ) -> Result<Self, CompileError> {
        program.check().map_err(CompileError::Invalid)?;
        let kind = match program {
            Program::Nest(nest) => Kind::Nest(NestCode::compile(nest, level, options)?),
            Program::Matmul(matmul) => Kind::Matmul(MatmulCode::compile(matmul, level, options)?),
            _ => return Err(CompileError::Kind),
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

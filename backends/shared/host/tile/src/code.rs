//! A compiled program, and running it.

use millstream_ir::{Blocking, Program};
use millstream_protocol::NativeView;

use crate::matmul::{self, MatmulCode};
use crate::nest::{self, NestCode};
use crate::options::Options;
use crate::prepare_error::CompileError;
use crate::team::{RunError, Team};
use millstream_loops::level::Level;

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
    /// The part of the program that the CPU does not support, or that the program has no such blocking.
    pub fn compile(program: &Program, options: Options) -> Result<Self, CompileError> {
        let (processor, blocking) = (Level::of_processor(), options.blocking);
        if blocking != Blocking::DEFAULT && !Self::blockings(program).contains(&blocking) {
            return Err(format!(
                "the CPU does not support this blocking for the program ({blocking}); `blockings` lists the supported ones"
            ));
        }
        Self::compile_for(program, processor.of_vectors(blocking.vector), options)
    }

    /// Returns the blockings of a program besides the usual one, for a tuner to choose from. Empty if there is no
    /// choice.
    pub fn blockings(program: &Program) -> Vec<Blocking> {
        let vectors = Level::of_processor().narrower();
        match program {
            Program::Nest(nest) => nest::blockings(nest, vectors),
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
        program.check().map_err(|why| why.to_string())?;
        let kind = match program {
            Program::Nest(nest) => Kind::Nest(NestCode::compile(nest, level, options)?),
            Program::Matmul(matmul) => Kind::Matmul(MatmulCode::compile(matmul, level, options)?),
            _ => {
                return Err("the CPU runs nests, products and SSA functions, but not programs of this kind; use one of those".into());
            }
        };
        Ok(Self {
            kind: Box::new(kind),
        })
    }

    /// Runs a launch with these bindings and launch words. Blocks until it is done.
    ///
    /// # Errors
    /// The reason it is refused (then nothing ran), or the message of a panic in a piece.
    ///
    /// # Safety
    /// The memory behind the views is initialized. Until this returns, nothing else touches memory that the program
    /// writes, or writes memory that it reads. Views may overlap.
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

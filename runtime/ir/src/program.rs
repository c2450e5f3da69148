//! What a kernel can be made of: one IR for all devices.

use std::fmt;

use crate::nest::{BufferMode, NestError};
use crate::ssa::{Function, SsaError};
use crate::{DType, Matmul, Nest};

/// A program for any device. Every backend lowers it where it runs. Of nests and products it chooses by the launch's words how many
/// cubes it is: their launches say one cube.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Program {
    /// A fused kernel.
    Nest(Nest),
    /// A product of matrices.
    Matmul(Matmul),
    /// What one thread does. Launches say how many cubes there are.
    Ssa(Function),
}

/// Why a program is none.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProgramError {
    /// A nest, or a product's epilogue.
    Nest(NestError),
    /// A function.
    Ssa(SsaError),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Nest(error) => error.fmt(f),
            ProgramError::Ssa(error) => error.fmt(f),
        }
    }
}

// What it is made of is what it says: there is no cause below.
impl std::error::Error for ProgramError {}

impl From<NestError> for ProgramError {
    fn from(error: NestError) -> Self {
        ProgramError::Nest(error)
    }
}

impl From<SsaError> for ProgramError {
    fn from(error: SsaError) -> Self {
        ProgramError::Ssa(error)
    }
}

impl Program {
    /// Is the program right?
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ProgramError> {
        match self {
            Program::Nest(nest) => nest.check().map_err(ProgramError::from),
            Program::Matmul(matmul) => matmul.check().map_err(ProgramError::from),
            Program::Ssa(function) => function.check().map_err(ProgramError::from),
        }
    }

    /// What is bound, in order: the type and how it is touched.
    pub fn buffers(&self) -> Vec<(DType, BufferMode)> {
        match self {
            Program::Nest(nest) => nest.buffers.iter().map(|b| (b.dtype, b.mode)).collect(),
            Program::Matmul(matmul) => {
                let read = (matmul.dtype, BufferMode::Read);
                let mode = match matmul.partial {
                    true => BufferMode::Update,
                    false => BufferMode::Write,
                };
                let out = (matmul.dtype, mode);
                let more = matmul.epilogue.iter().flat_map(|nest| &nest.buffers[1..]);
                let more = more.map(|b| (b.dtype, b.mode));
                [read, read, out].into_iter().chain(more).collect()
            }
            Program::Ssa(function) => function.params.iter().map(|b| (b.dtype, b.mode)).collect(),
        }
    }

    /// The name of one of them, for messages.
    pub fn buffer_name(&self, index: usize) -> String {
        match self {
            Program::Ssa(function) if index < function.params.len() => {
                function.params[index].name.clone()
            }
            _ => format!("b{index}"),
        }
    }

    /// How many launch words there are.
    pub fn words(&self) -> usize {
        match self {
            Program::Nest(nest) => nest.words,
            Program::Matmul(matmul) => matmul.words(),
            Program::Ssa(function) => function.scalars.len(),
        }
    }
}

//! What a kernel can be made of: one IR for all devices.

use crate::nest::{BufferMode, NestError};
use crate::{DType, Matmul, Nest};

/// A program for any device. Every backend lowers it where it runs, and chooses by the launch's words how many cubes it is: launches
/// of nests and products say one cube.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Program {
    /// A fused kernel.
    Nest(Nest),
    /// A product of matrices.
    Matmul(Matmul),
}

impl Program {
    /// Is the program right?
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), NestError> {
        match self {
            Program::Nest(nest) => nest.check(),
            Program::Matmul(matmul) => matmul.check(),
        }
    }

    /// What is bound, in order: the type and how it is touched.
    pub fn buffers(&self) -> Vec<(DType, BufferMode)> {
        match self {
            Program::Nest(nest) => nest.buffers.iter().map(|b| (b.dtype, b.mode)).collect(),
            Program::Matmul(matmul) => {
                let read = (matmul.dtype, BufferMode::Read);
                let out = (matmul.dtype, BufferMode::Write);
                let more = matmul.epilogue.iter().flat_map(|nest| &nest.buffers[1..]);
                let more = more.map(|b| (b.dtype, b.mode));
                [read, read, out].into_iter().chain(more).collect()
            }
        }
    }

    /// How many launch words there are.
    pub fn words(&self) -> usize {
        match self {
            Program::Nest(nest) => nest.words,
            Program::Matmul(matmul) => matmul.words(),
        }
    }
}

//! The program of a kernel: one IR for all devices.

use crate::nest::BufferMode;
use crate::ssa::Function;
use crate::{DType, Matmul, Nest, ProgramError};

/// A program for any device. Each backend lowers it for its device. A backend chooses the number of cubes of nests and
/// products from the launch words; their launches have one cube.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Program {
    /// A fused kernel.
    Nest(Nest),
    /// A product of matrices.
    Matmul(Matmul),
    /// The program of one thread. Launches give the number of cubes.
    Ssa(Function),
}

impl Program {
    /// Checks the program.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), ProgramError> {
        match self {
            Program::Nest(nest) => nest.check(),
            Program::Matmul(matmul) => matmul.check(),
            Program::Ssa(function) => function.check(),
        }
    }

    /// Returns the type and the mode of each binding, in order.
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

    /// Returns the name of a binding, for messages.
    pub fn buffer_name(&self, index: usize) -> String {
        match self {
            Program::Ssa(function) if index < function.params.len() => {
                function.params[index].name.clone()
            }
            _ => format!("b{index}"),
        }
    }

    /// Returns the number of launch words.
    pub fn words(&self) -> usize {
        match self {
            Program::Nest(nest) => nest.words,
            Program::Matmul(matmul) => matmul.words(),
            Program::Ssa(function) => function.scalars.len(),
        }
    }
}

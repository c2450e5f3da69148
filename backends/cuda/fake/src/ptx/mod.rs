//! Kernels: PTX text is read into instructions, which are interpreted.
//!
//! What is not known here (an instruction, a modifier, a directive) is an error when the module is loaded, never a
//! wrong result. The lanes of a warp that are at the same instruction run it together; of those that are apart, the
//! ones that are behind go first, so that they meet again. Warps take turns, blocks run one after the other.
//!
//! | module | what |
//! | --- | --- |
//! | `tokens` | text into words |
//! | `parse` | words into kernels |
//! | `decode` | one statement into an instruction |
//! | `operands` | what a statement is made of |
//! | `instruction`, `operations` | what there is |
//! | `integer`, `arithmetic` | what operations compute: of bits, of either |
//! | `format`, `number` | floats of every width, exact and rounded once |
//! | `run` | a launch: blocks, warps, memory, meetings |
//! | `shadow` | who touched which bytes within a launch, and races there |

mod arithmetic;
mod decode;
mod format;
mod instruction;
mod integer;
mod number;
mod operands;
mod operations;
mod parse;
mod run;
mod shadow;
#[cfg(test)]
mod tests;
mod tokens;

use std::ptr::NonNull;

use crate::code::Code;

pub(crate) use parse::parse;
pub(crate) use run::run;

/// Where the spaces that are no global memory begin, as generic addresses.
mod windows {
    pub(super) const SHARED: u64 = 0x0b00_0000_0000;
    pub(super) const LOCAL: u64 = 0x0b10_0000_0000;
    pub(super) const PARAMETERS: u64 = 0x0b20_0000_0000;
    /// As much as one can be.
    pub(super) const BYTES: u64 = 1 << 32;
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// A variable that a module declares.
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) align: usize,
    pub(crate) bytes: usize,
    /// What its first bytes are; the rest is 0.
    pub(crate) initial: &'a [u8],
}

/// A kernel, read.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    /// Static shared memory.
    pub(crate) shared_bytes: usize,
    /// How many registers a thread has, and how many bytes of its own.
    registers: usize,
    local_bytes: usize,
    /// It orders memory by other means than barriers.
    fences: bool,
    /// Where it begins among its instructions, those of its functions before.
    entry: usize,
    instructions: Vec<instruction::Instruction>,
}

impl Kernel {
    /// Bytes of all parameters.
    pub(crate) fn parameter_bytes(&self) -> usize {
        let last = self.parameters.last();
        last.map_or(0, |last| last.offset + last.bytes)
    }
}

/// Why a launch stopped.
pub(crate) struct Trap {
    pub(crate) code: Code,
    pub(crate) said: String,
}

/// A block of memory of the GPU.
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) at: NonNull<u8>,
}

/// Memory of the GPU as a kernel sees it. What it hands out stays for the launch.
pub(crate) trait Global {
    /// The block that has these bytes.
    fn window(&mut self, address: u64, bytes: u64) -> Result<Window, Trap>;
}

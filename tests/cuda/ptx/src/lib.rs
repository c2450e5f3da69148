//! An interpreter of PTX: text is read into instructions, and a launch runs them.
//!
//! It knows nothing of a driver. [`parse`] asks for memory for the variables of a module, [`run`] asks [`Global`] for
//! the blocks of memory that a kernel touches, and tells what was touched, which threads raced and why a launch
//! stopped.
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

pub use parse::parse;
pub use run::{Ran, run};

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
pub struct Parameter {
    /// Its name in the text.
    pub name: String,
    /// Where it begins among the bytes of all parameters.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: usize,
}

/// A variable that a module declares.
pub struct Variable<'a> {
    /// Its name in the text.
    pub name: &'a str,
    /// What its address is a multiple of, in bytes.
    pub align: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// What its first bytes are; the rest is 0.
    pub initial: &'a [u8],
}

/// A kernel that was read from a text.
#[derive(Debug)]
pub struct Kernel {
    /// Its name in the text.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: usize,
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
    /// The size of all parameters together, in bytes.
    pub fn parameter_bytes(&self) -> usize {
        let last = self.parameters.last();
        last.map_or(0, |last| last.offset + last.bytes)
    }
}

/// A launch of a kernel: what [`run`] runs.
pub struct Launch<'a> {
    /// Which one.
    pub kernel: &'a Kernel,
    /// The shape of the grid.
    pub cubes: [u32; 3],
    /// The shape of a block.
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The bytes of all parameters, where the kernel has them.
    pub parameters: &'a [u8],
}

/// How bytes are touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// They are read.
    Read,
    /// They are written.
    Write,
    /// Both at once. Atomic operations do not conflict with each other.
    Atomic,
}

impl Kind {
    /// What a thread or a step does to bytes, in a sentence of a report.
    pub fn verb(self) -> &'static str {
        match self {
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Atomic => "updates",
        }
    }

    /// Does the order of two touches of the same bytes matter?
    pub fn conflicts(self, other: Self) -> bool {
        self != other || self == Kind::Write
    }
}

/// What a launch did wrong, as a GPU would report it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It touched memory that it may not touch.
    IllegalAddress,
    /// It touched memory at an address that its type does not allow.
    MisalignedAddress,
    /// It did what no kernel may do.
    LaunchFailed,
    /// It would never end.
    LaunchTimeout,
}

/// Why a launch stopped.
#[derive(Debug)]
pub struct Trap {
    /// What a driver answers.
    pub fault: Fault,
    /// A sentence: where, and what.
    pub said: String,
}

/// A block of memory of the GPU.
pub struct Window {
    /// Its address on the GPU.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its first byte on the host. All `bytes` of it are valid, aligned to 8, until the launch ends.
    pub at: NonNull<u8>,
}

/// Memory of the GPU as a kernel sees it. What it hands out stays for the launch.
pub trait Global {
    /// The block that has these bytes.
    fn window(&mut self, address: u64, bytes: u64) -> Result<Window, Trap>;
}

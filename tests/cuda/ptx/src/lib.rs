//! An interpreter of PTX: parses text to instructions, and runs launches of them.
//!
//! It is independent of a driver. [`parse()`] requests memory for the variables of a module. [`run()`] requests the blocks
//! of memory that a kernel accesses from [`Global`], and returns the accessed bytes, the races between threads, and the
//! reason why a launch stopped.
//!
//! An unknown instruction, modifier or directive is an error when the module is loaded, never a wrong result. The threads
//! of a block take turns, from one barrier or collective to the next, and blocks run one after the other.
//!
//! | module | contents |
//! | --- | --- |
//! | `tokens` | splits text into tokens |
//! | `parse` | parses tokens to kernels |
//! | `decode` | decodes a statement to an instruction |
//! | `operands` | the modifiers and operands of a statement |
//! | `instruction` | the decoded instructions |
//! | `table` | the instructions that compute: their types, operands and functions |
//! | `types`, `number` | types, and floats of every width, computed exactly and rounded once |
//! | `run` | runs a launch: blocks, threads, memory, collectives |
//! | `shadow` | the accesses within a launch, and its race detector |

mod decode;
mod instruction;
mod number;
mod operands;
mod parse;
mod run;
mod shadow;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod types;

use std::ptr::NonNull;

pub use parse::parse;
pub use run::{Outcome, run};

/// The generic addresses at which the spaces other than global memory begin.
mod windows {
    pub(super) const SHARED: u64 = 0x0b00_0000_0000;
    pub(super) const LOCAL: u64 = 0x0b10_0000_0000;
    pub(super) const PARAMETERS: u64 = 0x0b20_0000_0000;
    /// The largest size of such a space.
    pub(super) const BYTES: u64 = 1 << 32;
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name in the text.
    pub name: String,
    /// The offset in the bytes of all parameters.
    pub offset: usize,
    /// The size in bytes.
    pub bytes: usize,
}

/// A variable that a module declares.
pub struct Variable<'a> {
    /// The name in the text.
    pub name: &'a str,
    /// The alignment of its address in bytes.
    pub align: usize,
    /// The size in bytes.
    pub bytes: usize,
    /// The initial value of its first bytes; the rest is 0.
    pub initial: &'a [u8],
}

/// A parsed kernel.
#[derive(Debug)]
pub struct Kernel {
    /// The name in the text.
    pub name: String,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Bytes of static shared memory of a block.
    pub shared_bytes: usize,
    /// The number of registers of a thread.
    registers: usize,
    /// The bytes of local memory of a thread.
    local_bytes: usize,
    /// The first of its instructions. The instructions of its functions are before it.
    entry: usize,
    instructions: Vec<instruction::Instruction>,
}

impl Kernel {
    /// Returns the size of all parameters together in bytes.
    pub fn parameter_bytes(&self) -> usize {
        let last = self.parameters.last();
        last.map_or(0, |last| last.offset + last.bytes)
    }
}

/// A launch of a kernel, for [`run()`].
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The dimensions of the grid.
    pub cubes: [u32; 3],
    /// The dimensions of a block.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The bytes of all parameters, at their offsets.
    pub parameters: &'a [u8],
}

/// The kind of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// An atomic read and write. Atomic operations do not conflict with each other.
    Atomic,
}

impl Kind {
    /// Returns the verb for a report.
    pub fn verb(self) -> &'static str {
        match self {
            Kind::Read => "reads",
            Kind::Write => "writes",
            Kind::Atomic => "updates",
        }
    }

    /// Returns `true` if two accesses of the same bytes conflict: their order matters.
    pub fn conflicts(self, other: Self) -> bool {
        self != other || self == Kind::Write
    }
}

/// A fault of a launch, as a GPU reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An access to memory that the kernel may not access.
    IllegalAddress,
    /// An access that is not aligned to its type.
    MisalignedAddress,
    /// An operation that no kernel may perform.
    LaunchFailed,
    /// The launch would not terminate.
    LaunchTimeout,
}

/// The reason why a launch stopped.
#[derive(Debug)]
pub struct Trap {
    /// The fault, which determines the driver's error code.
    pub fault: Fault,
    /// A message with the location and the cause.
    pub message: String,
}

/// A block of GPU memory.
pub struct Window {
    /// The address on the GPU.
    pub start: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The first byte on the host, aligned to 8. All `bytes` bytes are valid until the launch ends.
    pub at: NonNull<u8>,
}

/// The GPU memory that a kernel can access. Windows stay valid for the launch.
pub trait Global {
    /// Returns the block that contains these bytes.
    fn window(&mut self, address: u64, bytes: u64) -> Result<Window, Trap>;
}

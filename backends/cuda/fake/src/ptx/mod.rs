//! Kernels: PTX text is read into instructions, which are interpreted.
//!
//! What is not known here (an instruction, a modifier, a directive) is an error when the module is loaded, never a
//! wrong result. Threads of a block run one after the other, each up to the next barrier; blocks, too. So races
//! *within* a launch are not seen.
//!
//! | module | what |
//! | --- | --- |
//! | `tokens` | text into words |
//! | `parse` | words into kernels |
//! | `decode` | one statement into an instruction |
//! | `operands` | what a statement is made of |
//! | `instruction` | what there is |
//! | `arithmetic` | what operations compute |
//! | `run` | a launch |

mod arithmetic;
mod decode;
mod instruction;
mod operands;
mod parse;
mod run;
mod tokens;

use std::ops::Range;
use std::ptr::NonNull;

use crate::access::Kind;
use crate::code::Code;

pub(crate) use parse::parse;
pub(crate) use run::run;

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// A kernel, read.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    /// Static shared memory.
    pub(crate) shared_bytes: usize,
    /// How many registers a thread has.
    registers: usize,
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

/// Memory of the GPU as a kernel sees it.
pub(crate) trait Global {
    /// Bytes that are there, to be touched like that.
    fn at(&mut self, address: u64, bytes: u64, kind: Kind) -> Result<NonNull<u8>, Trap>;
}

/// More pieces than these are joined where they touch.
const PIECES_MANY: usize = 1 << 14;

/// What a launch touched.
#[derive(Default)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    pub(crate) fn add(&mut self, range: Range<u64>) {
        if let Some(last) = self.0.last_mut()
            && last.start <= range.start
            && range.start <= last.end
        {
            last.end = last.end.max(range.end);
            return;
        }
        if self.0.len() == self.0.capacity() && self.0.len() >= PIECES_MANY {
            self.join();
        }
        self.0.push(range);
    }

    fn join(&mut self) {
        self.0.sort_by_key(|range| range.start);
        self.0.dedup_by(|next, kept| {
            let touch = next.start <= kept.end;
            if touch {
                kept.end = kept.end.max(next.end);
            }
            touch
        });
    }

    /// In order, none touching another.
    pub(crate) fn joined(mut self) -> Vec<Range<u64>> {
        self.join();
        self.0
    }
}

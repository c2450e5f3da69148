//! Operations in native code: what kernels of other libraries do, with the checks of every other operation.

use std::ops::Range;

/// Whether an operation may run, by its data.
pub(crate) type Ready = extern "C" fn(u64) -> u32;
/// Runs an operation: its data, and pointers to the memory that it reads and writes.
pub(crate) type Run = extern "C" fn(u64, *const *const u8, *const *mut u8);

/// A range of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl Span {
    pub(crate) fn range(self) -> Range<u64> {
        self.start..self.start + self.bytes
    }
}

/// An operation in native code.
#[derive(Clone)]
pub(crate) struct Native {
    pub(crate) name: String,
    pub(crate) reads: Vec<Span>,
    pub(crate) writes: Vec<Span>,
    pub(crate) ready: Option<Ready>,
    pub(crate) run: Run,
    pub(crate) data: u64,
}

impl Native {
    /// Returns `true` if the operation may run.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.is_none_or(|ready| ready(self.data) != 0)
    }
}

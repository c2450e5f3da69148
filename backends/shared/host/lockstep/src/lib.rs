//! Runs functions of the IR ([`ssa`](millstream_ir::ssa)) on a CPU.
//!
//! ```text
//!  Function ── Columns::new() ──► steps over typed columns         once
//!  Columns::run(): called for some cubes, on any thread of the team
//!                             for each step: a loop over all threads of several cubes
//! ```
//! All threads of a cube execute a statement before any of them executes the next one, so a barrier does nothing, and a
//! reduction is a loop. A column has an element of the value's type for each thread, and a statement is a loop over columns,
//! which are few enough to stay in the cache. What is the same for all threads is computed once, as a scalar; an index
//! that grows by the same amount from thread to thread is two scalars, so that an access with it is a copy. Small cubes run
//! side by side, because a step costs as much as a loop over a hundred threads.
//!
//! It runs everything a GPU runs, and reports mistakes: an access out of bounds, or a misaligned wide access, ends the launch
//! with a message.
//!
//! | module | contents |
//! | --- | --- |
//! | `survey`, `lower` | from a function to steps |
//! | `code` | steps |
//! | `machine` | runs them |
//! | `kernels` | the loops |
//! | `scratch` | the memory of a thread of the host |
//!
//! [`millstream_ir::scalar`] defines the operations on values.
//!
//! # Invariants
//! 1. No access touches a byte outside its memory: bounds are checked at each access, for one thread or for several at once.
//! 2. Columns in use at the same time do not share memory.
//! 3. In the steady state nothing is allocated (I9): each thread of the host reuses the memory of its last function.

mod code;
mod kernels;
mod lower;
mod machine;
mod scratch;
mod survey;

use std::cell::Cell;
use std::ops::Range;

use millstream_ir::ProgramError;
use millstream_ir::ssa::Function;
use millstream_protocol::{Cube, NativeArgs};
use scratch::Scratch;

thread_local! {
    /// The memory of the last cubes, reused for the next ones (I9).
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// A compiled function, for the signature of [`Kernel::from_program`](millstream_protocol::Kernel::from_program).
pub struct Columns(Box<code::Code>);

impl Columns {
    /// Compiles a function.
    ///
    /// # Errors
    /// The function is invalid.
    pub fn new(function: &Function) -> Result<Self, ProgramError> {
        function.check()?;
        Ok(Self(Box::new(lower::compile(function))))
    }

    /// Runs these cubes of a launch of `counts` cubes, of which `arguments` are those of any.
    ///
    /// # Panics
    /// An access is out of bounds or misaligned, or an assertion fails. Of several such threads one is named, of the first
    /// cubes that run side by side.
    pub fn run(&self, cubes: Range<u64>, counts: [u32; 3], arguments: &NativeArgs<'_>) {
        // `None` if this thread is ending, or if a cube panicked.
        let cached = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut scratch = cached.unwrap_or_default();
        let mut index = cubes.start;
        while index < cubes.end {
            let cube = Cube::new(index, counts);
            let some = (cubes.end - index).min(self.0.cubes as u64);
            machine::run(&self.0, &mut scratch, &cube, some as usize, arguments);
            index += some;
        }
        let _ = SCRATCH.try_with(|cell| cell.set(Some(scratch)));
    }
}

#[allow(clippy::missing_fields_in_debug, reason = "the steps are functions")]
impl std::fmt::Debug for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let function = &self.0.function.name;
        f.debug_struct("Columns")
            .field("function", function)
            .finish()
    }
}

//! Runs functions of the IR ([`ssa`](millstream_ir::ssa)) on a CPU, as native kernels.
//!
//! ```text
//!  Function ── native() ──► a native kernel: called once for each cube, on any thread of the team
//!                             for each statement: for each active thread of the cube
//! ```
//! All threads of a cube execute a statement before any of them executes the next one. So a barrier does nothing, and
//! a reduction is a loop. A column holds a value for all threads. Threads that are inactive, after an `if` or a loop
//! that they left, keep their old value.
//!
//! This is not a fast way to run a program. It runs everything a GPU runs, and reports mistakes: an access out of
//! bounds, or a misaligned wide access, ends the launch with a message.
//!
//! | module | contents |
//! | --- | --- |
//! | `machine` | statements |
//! | `memory` | buffers, shared arrays and locals |
//!
//! [`millstream_ir::scalar`] defines the operations on values.

mod machine;
mod memory;

use std::cell::Cell;
use std::sync::Arc;

use machine::{Code, Machine, Scratch};
use millstream_ir::ProgramError;
use millstream_ir::ssa::Function;
use millstream_protocol::NativeKernel;

thread_local! {
    /// The columns of the last cube, reused for the next one (I9).
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Returns a function as a native kernel, for the signature of
/// [`Kernel::from_program`](millstream_protocol::Kernel::from_program). The kernel panics at an access out of
/// bounds, like any native kernel.
///
/// # Errors
/// The function is invalid.
pub fn native(function: &Function) -> Result<Arc<NativeKernel>, ProgramError> {
    function.check()?;
    let code = Code::new(function.clone());
    Ok(Arc::new(move |cube, arguments| {
        // `None` if this thread is ending, or if a cube panicked.
        let cached = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut scratch = cached.unwrap_or_default();
        Machine::new(&code, &mut scratch, cube, arguments).run();
        let _ = SCRATCH.try_with(|cell| cell.set(Some(scratch)));
    }))
}

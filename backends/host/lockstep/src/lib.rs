//! Functions of the IR ([`ssa`](millstream_ir::ssa)) on a CPU, as native kernels.
//!
//! ```text
//!  Function ── native() ──► a native kernel: called once for each cube, on any thread of the team
//!                             for each statement: for each thread of the cube that comes by
//! ```
//! All threads of a cube do a statement before any does the next one, so a barrier is nothing, and a reduction is a loop. What a
//! value is, for all threads, lies in one column; what threads do not come by, at an `if` or a loop that they left, keeps what it
//! had. This is no fast way to run a program, but one that runs whatever a GPU runs, and says what is wrong with it: an access out
//! of bounds, or a wide one where none may be, ends the launch with a sentence.
//!
//! | module | what it is |
//! | --- | --- |
//! | `machine` | statements |
//! | `memory` | buffers, arrays of the cube, locals |
//!
//! What an operation is of values: [`millstream_ir::scalar`].

mod machine;
mod memory;

use std::cell::Cell;
use std::sync::Arc;

use machine::{Code, Machine, Scratch};
use millstream_ir::ssa::{Function, SsaError};
use millstream_protocol::kernel::NativeKernel;

thread_local! {
    /// Columns of the last cube, kept for the next one (I9).
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// A function as a native kernel, for [`Kernel::from_program`](millstream_protocol::kernel::Kernel::from_program)'s signature. It panics
/// where a native kernel does: at an access out of bounds.
///
/// # Errors
/// What is wrong with the function.
pub fn native(function: &Function) -> Result<Arc<NativeKernel>, SsaError> {
    function.check()?;
    let code = Code::new(function.clone());
    Ok(Arc::new(move |cube, arguments| {
        // None, if this thread is ending, or a cube panicked.
        let kept = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut scratch = kept.unwrap_or_default();
        Machine::new(&code, &mut scratch, cube, arguments).run();
        let _ = SCRATCH.try_with(|cell| cell.set(Some(scratch)));
    }))
}

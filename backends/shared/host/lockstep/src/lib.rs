//! Runs functions of the IR ([`ssa`](millstream_ir::ssa)) on a CPU, as native kernels.
//!
//! ```text
//!  Function ── native() ──► steps over typed columns               once
//!  a native kernel: called once for each cube, on any thread of the team
//!                             for each step: a loop over all threads of the cube
//! ```
//! All threads of a cube execute a statement before any of them executes the next one, so a barrier does nothing, and a
//! reduction is a loop. A column has an element of the value's type for each thread, and a statement is a loop over columns,
//! which are few enough to stay in the L1 cache. What is the same for all threads is computed once, as a scalar; an index
//! that grows by the same amount from thread to thread is two scalars, so that an access with it is a copy.
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
use std::sync::Arc;

use millstream_ir::ProgramError;
use millstream_ir::ssa::Function;
use millstream_protocol::NativeKernel;
use scratch::Scratch;

thread_local! {
    /// The memory of the last cube, reused for the next one (I9).
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
    let code = lower::compile(function);
    Ok(Arc::new(move |cube, arguments| {
        // `None` if this thread is ending, or if a cube panicked.
        let cached = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut scratch = cached.unwrap_or_default();
        machine::run(&code, &mut scratch, cube, arguments);
        let _ = SCRATCH.try_with(|cell| cell.set(Some(scratch)));
    }))
}

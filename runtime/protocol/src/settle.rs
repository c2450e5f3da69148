//! Failures that become known while a task runs, for backends whose tasks can fail then.
//!
//! A queue calls [`inputs`] just before a task runs and [`outputs`] just after, both before it
//! publishes the task's cursor. Because hazards order conflicting tasks, poison is marked, found and
//! cleared in the one order that the data sees (I7), and an answer that waits for the cursor finds
//! it settled (I5).
//!
//! # Who needs it
//! A backend whose closures (native kernels, custom tasks) run in their turn, when the server has issued what follows.
//! A backend that runs closures in the call, as CUDA's does, refuses the call with what they panicked with; the server
//! poisons the data then, issues marks for the tasks that read it, and nothing is left to settle.
//!
//! # Commands of a driver behind closures
//! A command of a driver cannot fail while it runs, but it may read what a closure before it has failed to write. So it is
//! settled as any task: [`inputs`] is called once all closures before it have ended, and before the command is given to the
//! driver; [`outputs`] once the command has ended.
//!
//! ```text
//! the queue's thread                                                  the driver
//! closure runs and panics
//! outputs(closure, Err)      the poison of what it would have written
//! publish(closure)
//! inputs(command)            finds that poison: the command is not given
//! outputs(command, Err(inherited))
//! publish(command)
//! inputs(other command)      clean ────────────────────────────────►  runs
//! outputs(other command, Ok) heals what it wrote whole  ◄───────────  has ended
//! publish(other command)
//! ```
//! If the command is given before the closure has ended, or `inputs` is called before, the command computes on data that has
//! failed, and its reader gets no error. If `outputs` is left out because commands do not fail, data that was overwritten
//! stays failed. Several commands may be in flight as long as no closure lies between them: commands cannot poison anything.

use std::sync::Arc;

use crate::access::Access;
use crate::backend::BoundSlice;
use crate::failure::{Failure, FailureRef};
use crate::table::Table;

/// The failure that a task inherits: that of the first poisoned range that it reads. Then it must not run.
///
/// # Errors
/// That failure.
#[inline]
pub fn inputs(table: &Table, bindings: &[BoundSlice]) -> Result<(), FailureRef> {
    for binding in bindings {
        if binding.access.reads()
            && let Some(slot) = table.slot(binding.slice.index())
            && !slot.payload().poison.is_clean()
            && let Some(failure) = slot.payload().poison.find(range(binding))
        {
            return Err(failure);
        }
    }
    Ok(())
}

/// Settles what a task did to its outputs: a success heals what it wrote whole, a failure poisons
/// everything that it would have written.
///
/// A launch whose count was read on the device and is zero wrote nothing: its outputs are not settled.
#[inline]
pub fn outputs(table: &Table, bindings: &[BoundSlice], outcome: &Result<(), FailureRef>) {
    if let Err(failure) = outcome {
        table.sink().faults.count(&failure.reason);
    }
    for binding in bindings {
        if !binding.access.writes() || binding.len == 0 {
            continue;
        }
        let Some(slot) = table.slot(binding.slice.index()) else {
            continue;
        };
        let poison = &slot.payload().poison;
        match outcome {
            Ok(()) if binding.access == Access::Write && !poison.is_clean() => {
                poison.clear(range(binding));
            }
            Ok(()) => {}
            Err(failure) => poison.mark(range(binding), failure.clone()),
        }
    }
}

/// The failure of task `name` that cannot run because of `cause`.
pub fn inherited(name: &Arc<str>, cause: FailureRef) -> FailureRef {
    Failure::input(name, cause)
}

fn range(binding: &BoundSlice) -> std::ops::Range<u64> {
    binding.slice_offset..binding.slice_offset + binding.len
}

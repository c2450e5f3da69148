//! Settling of failures that become known while a task runs: poison in, poison out.
//!
//! A queue calls [`inputs`] just before a task runs and [`outputs`] just after it, both before it publishes the
//! task's cursor. Hazards order conflicting tasks, so queues mark, find and clear poison in the order in which the
//! data is written and read (I7). An answer that waits for the cursor finds the failure settled (I5).
//!
//! # The states of a range
//! Each byte of a slice is *clean* or *poisoned* by one failure. The ranges of failures at run time lie in the
//! slice's slot of the shared [`Table`]; those of failures at issue are the server's. A new mark replaces the old
//! one. Beyond 4,096 ranges the nearest neighbours merge, and the bytes between them are poisoned as well (I12).
//!
//! | task | input poisoned by F | success | own failure E |
//! | --- | --- | --- | --- |
//! | reads the range ([`Access::Read`]) | does not run, inherits F | range unchanged | range unchanged |
//! | updates it ([`Access::ReadWrite`]) | does not run, range poisoned by F' | range unchanged | range poisoned by E |
//! | overwrites it ([`Access::Write`]) | does not apply: it reads none of it | range clean | range poisoned by E |
//!
//! F' is the failure that the task inherits: it names the task, and its root is that of F ([`inherited`]). A task
//! that does not run because any of its inputs is poisoned poisons all ranges that it would have written by F'.
//!
//! Two queues, task 2 waits for task 1, task 3 for task 2:
//!
//! ```text
//! queue 0                                   queue 1
//! 1 write a: inputs Ok, runs, panics
//!   outputs(a, Err E)   a poisoned by E
//!   publish 1  ───────────────────────────► 2 read a, write b: inputs Err E, does not run
//!                                             outputs(b, Err E')   b poisoned by E'
//!   ◄─────────────────────────────────────    publish 2
//! 3 write a: inputs Ok, runs
//!   outputs(a, Ok)      a clean; b stays poisoned
//!   publish 3
//! ```
//! The publication on the timeline (Release, paired with the waiter's Acquire) makes the mark visible to task 2.
//!
//! # Which backends need it
//! Backends whose closures (native kernels, custom tasks) run in their turn, after the server has issued later tasks.
//!
//! A backend that runs closures inside the call, as the CUDA backend does, refuses the call with the panic message. The
//! server then poisons the data, issues marks for the tasks that read it, and nothing is left to settle.
//!
//! # Commands of a driver behind closures
//! A command of a driver cannot fail while it runs, but it may read data that a closure before it has failed to
//! write. So it is settled like any task: call [`inputs`] after all closures before the command have ended and before
//! the command is submitted to the driver, and [`outputs`] after the command has ended.
//!
//! ```text
//! the queue's thread                                                  the driver
//! closure runs and panics
//! outputs(closure, Err)      poisons what it would have written
//! publish(closure)
//! inputs(command)            finds that poison: the command is not submitted
//! outputs(command, Err(inherited))
//! publish(command)
//! inputs(other command)      clean ────────────────────────────────►  runs
//! outputs(other command, Ok) heals what it overwrote    ◄───────────  has ended
//! publish(other command)
//! ```
//! If the command is submitted, or `inputs` is called, before the closure has ended, the command computes on failed
//! data and its reader gets no error. If `outputs` is left out because commands do not fail, overwritten data stays
//! poisoned. Several commands may be in flight as long as no closure lies between them: commands cannot poison
//! anything.
//!
//! # Tests
//! The module `failure` of the conformance suite, and the swarm's random programs. The swarm finds the mutants
//! `i7_failure_is_not_inherited` and `i7_overwrite_does_not_heal`. Loom's model `poison` checks that a mark is
//! visible after the publication, and that healing one range keeps a mark of another.

use std::sync::Arc;

use crate::backend::BoundSlice;
use crate::binding::Access;
use crate::failure::{Failure, FailureRef};
use crate::table::Table;

/// Returns the failure that a task inherits: that of the first poisoned range that it reads. The task must then not
/// run.
///
/// # Errors
/// The failure of the poisoned range.
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

/// Settles the outputs of a task. A success heals the ranges that the task overwrote; a failure poisons all ranges
/// that it would have written.
///
/// Do not call it for a launch whose count was read on the device and is zero: the launch wrote nothing.
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

/// Returns the failure of task `name`, which cannot run because of `cause`.
pub fn inherited(name: &Arc<str>, cause: FailureRef) -> FailureRef {
    Failure::input(name, cause)
}

fn range(binding: &BoundSlice) -> std::ops::Range<u64> {
    binding.slice_offset..binding.slice_offset + binding.len
}

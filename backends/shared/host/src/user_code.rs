//! Users' code on the thread of a queue, which may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_protocol::{Failure, FailureRef, Reason, Refused};
use millstream_sync::payload::panic_message;

/// Runs the custom work of a task.
///
/// # Errors
/// It panicked, refused the task, or found the device lost.
pub fn run_custom(
    task: &Arc<str>,
    work: impl FnOnce() -> Result<(), Refused>,
) -> Result<(), FailureRef> {
    let reason = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Refused::Task(why))) => Reason::Refused(why),
        Ok(Err(_)) => Reason::Lost,
        Err(payload) => return Err(Failure::panicked(task, panic_message(payload))),
    };
    Err(Failure::not_run(task, reason))
}

/// Runs users' code and discards a panic: no caller waits for its result.
pub fn discard_panic(run: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        panic_message(payload);
    }
}

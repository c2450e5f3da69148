//! Callers of a driven device that wait for its tasks in the driver.

use std::time::Duration;

/// Blocks the threads of callers until a driven device completes a task.
///
/// A device that runs tasks without being pumped ([`Backend::RUNS_WITHOUT_PUMP`](super::Backend::RUNS_WITHOUT_PUMP))
/// wakes no thread when a task completes. Without this trait a caller that waits sleeps for a short time between two
/// pumps. With it the caller sleeps in the driver, and pumps as soon as the task has completed.
///
/// Any number of threads may wait at once, none of them inside the device: the calls of the backend go on meanwhile, and
/// so may its drop. After the drop a wait returns at once.
///
/// # Which drivers can
/// The wait must be bounded in time, because the caller hears nothing else meanwhile: neither a message of another thread
/// nor user code that becomes due. `vkWaitSemaphores` has a timeout. `cuEventSynchronize` has none, so the CUDA backend
/// does not have this trait.
pub trait CompletionWait: Send + Sync {
    /// Blocks until any queue completes a task that no pump has found complete, for at most `budget`. Returns `false`
    /// if no task runs, or if the driver refuses to wait or reports a loss; the caller then sleeps elsewhere. The
    /// next pump reports a loss that the driver has reported to the wait.
    ///
    /// `is_over` is called once the tasks are chosen. If it returns `true`, the call returns `true` at once. A task that
    /// another thread pumps meanwhile is not missed: either the wait is for this task, and so ends, or `is_over` sees
    /// what the publication of its cursor has done.
    fn wait(&self, budget: Duration, is_over: &dyn Fn() -> bool) -> bool;
}

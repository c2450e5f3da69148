//! What callers do with a backend while they wait: they run tasks that they issued as they stepped in for the device thread,
//! and block in the driver.

use std::time::Duration;

/// What [`Backend::start_deferred`](super::Backend::start_deferred) does with tasks that are too large to run on the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Large {
    /// The backend's threads start them.
    Begin,
    /// The backend holds them until the caller calls [`Held::run`], after it has left the device. The call always
    /// follows.
    Hold,
}

/// The result of [`Backend::start_deferred`](super::Backend::start_deferred).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StartOutcome {
    /// Whether any task ran.
    pub ran: bool,
    /// The queues that received tasks, one bit each.
    pub queues: u64,
}

/// Runs the held tasks of a device on the thread of a caller that is about to wait for them.
pub trait Held: Send + Sync {
    /// Runs held tasks on the calling thread, including those of other callers, if they are no user code and are
    /// expected to take no longer than `budget` in total; or waits for tasks that a device runs, for at most `budget`.
    /// The backend's threads complete the others.
    fn run(&self, budget: Duration);
}

// Callers of a driven device that wait for its tasks in the driver.

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

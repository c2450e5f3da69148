//! Callers that step in for the device thread, and the tasks that they issued meanwhile.

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

//! What a caller that steps in for the device's thread does of the tasks it issued.

use std::time::Duration;

/// What [`Backend::let_go`](super::Backend::let_go) does with tasks that are too large to run at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Large {
    /// The backend's threads begin them.
    Begin,
    /// They are held until the caller, which has left the device actor by then, calls [`Held::run`]. It does, whatever
    /// happens.
    Hold,
}

/// What [`Backend::let_go`](super::Backend::let_go) did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LetGo {
    /// Did any task run?
    pub ran: bool,
    /// The queues that something was issued to, a bit each.
    pub queues: u64,
}

/// The tasks of a device that are held, for the thread of a caller that is about to wait for them.
pub trait Held: Send + Sync {
    /// Runs held tasks on the calling thread, those of other callers too, as long as they are no code of users and are
    /// expected to take no longer than `budget` together. The backend's threads begin the others. Waits for nothing.
    fn run(&self, budget: Duration);
}

//! What a backend answers.

/// Why a backend refused a task. The server poisons what the task would have written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// This task cannot run; others can.
    #[error("{0}")]
    Task(String),
    /// The user's code panicked with this, in the call of the task. What of it had begun may have happened.
    #[error("panicked with \"{0}\"")]
    Panicked(String),
    /// The device is gone, with everything that it had. The server stops at the first such word and asks
    /// [`Backend::recovery`](crate::backend::Backend::recovery).
    #[error("the device is lost: {0}")]
    Lost(String),
}

//! The errors of a backend's calls.

/// Why a backend refused a task. The server poisons the ranges that the task would have written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// This task cannot run; others can.
    #[error("{0}")]
    Task(String),
    /// User code panicked with this message inside the call. The code may have had effects before it panicked.
    #[error("panicked with \"{0}\"")]
    Panicked(String),
    /// The device is lost, with everything that it held. The first such error ends the epoch: the server queries
    /// [`Backend::recovery`](crate::backend::Backend::recovery).
    #[error("the device was lost: {0}")]
    Lost(String),
}

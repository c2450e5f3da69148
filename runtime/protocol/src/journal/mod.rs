//! The submission log: what a device accepted, in mailbox order, as plain data that can be saved and replayed.
//!
//! ```text
//!  mailbox ──► Journal::note ──► Server::admit        ComputeClient::resubmit
//!                 │ entries, encoded at once             │ one thread, log order
//!                 ▼                                      ▼
//!           SubmissionLog ── write_to ─► file ─ read_from ─► streams of any device
//! ```
//! | file | contents |
//! | --- | --- |
//! | `entry` | [`Entry`]: what is logged, and the order of its bytes |
//! | `code` | the serde representation of what serde cannot derive |
//! | `encoding` | encoding and decoding of entries, with `postcard` |
//! | `digest` | [`Digest`]: a 64-bit digest of bytes |
//! | `log` | [`SubmissionLog`]: the log as a value, and its file format |
//!
//! The mailbox has the one order in which all hazards are judged (I1, I2). So its order determines the result of all
//! tasks, whichever threads sent them. A replay of the log from one thread gives the same bits if
//! 1. kernels are functions of their arguments (no clocks, no atomics whose order shows in the result), and
//! 2. no task reads bytes that no task defined: the contents of fresh memory are not logged.
//!
//! Objects (streams, kernels, slices, recordings) are named by their slots. A task
//! that was withdrawn, by a token or a deadline, is noted when that happens, and fails in the replay with the same
//! reason.
//!
//! User code cannot be logged: host functions, custom tasks, guards. They leave an [`Entry::Task`] with a
//! [`Work::Gap`]. A gap that only reads is replayed as a mark. For a gap that may have written, the replay returns an
//! error before anything is submitted. Requests (statistics, syncs,
//! flushes) compute nothing and are not logged.
//!
//! Clients resubmit a log (`ComputeClient::resubmit`); the log does not depend on them.
//!
//! A disabled log costs one comparison per burst of messages. This module does no I/O: the caller passes a `Read` or
//! a `Write`.

mod code;
mod digest;
mod encoding;
mod entry;
mod log;
#[cfg(test)]
mod tests;

pub(crate) use code::dtype;
pub use digest::Digest;
pub use encoding::encode;
pub use entry::{Entry, Work};
pub use log::{LogError, SubmissionLog};

//! The submission log: what a device took, in mailbox order, as plain data that can be saved and replayed.
//!
//! ```text
//!  mailbox ──► Journal::note ──► Server::admit        ComputeClient::resubmit
//!                 │ entries, encoded at once             │ one thread, log order
//!                 ▼                                      ▼
//!           SubmissionLog ── write_to ─► file ─ read_from ─► streams of any device
//! ```
//! | file | what it is |
//! | --- | --- |
//! | `entry` | [`Entry`]: what is logged, and the order of its bytes |
//! | `code` | how serde sees the types of the protocol that stand in entries |
//! | `encoding` | entries as bytes, and back, by `postcard` |
//! | `log` | [`SubmissionLog`]: the log as a value, and its file format |
//! | `digest` | [`Digest`]: many bytes as one number |
//!
//! The mailbox is the one order in which all hazards are judged (I1, I2), so its order decides all that tasks
//! compute, whichever threads sent them. Replaying the log from one thread gives the same bits, if
//! 1. kernels are functions of their arguments (no clocks, no atomics whose order shows in the result), and
//! 2. nothing is read that no task defined: what fresh memory holds is not logged.
//!
//! Objects (streams, kernels, slices, recordings) are numbered in the order in which the log first names them.
//! Tasks that were withdrawn, by a token or a deadline, are noted as such when it happens, and fail in the replay
//! as they did.
//!
//! What cannot be logged is the users' code: host functions, custom tasks, guards. They leave an [`Entry::Task`]
//! with a [`Work::Gap`]. One that only reads is replayed as a point of order; one that may have written makes the
//! replay a typed error, before anything is submitted. Launches with tensor maps are gaps as well. Asks (statistics,
//! syncs, flushes) compute nothing and are left out.
//!
//! Clients resubmit a log (`ComputeClient::resubmit`); the log knows nothing of them.
//!
//! A log that is off costs one comparison per burst. No I/O here: the caller gives a `Read` or a `Write`.

mod code;
mod digest;
mod encoding;
mod entry;
mod log;
#[cfg(test)]
mod tests;

pub use digest::Digest;
pub use encoding::encode;
pub use entry::{Count, Entry, Part, Step, Work};
pub use log::{LogError, SubmissionLog};

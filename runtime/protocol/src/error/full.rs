//! The resource that is full when a call is refused for lack of room.

use std::time::Duration;

use crate::failure::Bytes;

/// The resource that is full (I12). The message has the figures, and the name of the limit if it can be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The device's mailbox.
    #[error("the mailbox is full with {messages} messages (`mailbox_capacity`)")]
    Mailbox {
        /// Messages in the mailbox.
        messages: usize,
    },
    /// The tasks that a stream has accepted and not issued.
    #[error("the stream, or its client, holds {held} of at most {limit} tasks (`max_held`, `max_tasks`){}", too_low(*.limit))]
    Stream {
        /// Tasks held.
        held: u64,
        /// The limit, in tasks.
        limit: u64,
    },
    /// The bytes of a client's uploads in flight.
    #[error("no room for an upload of {}: {} of at most {} are in flight (`max_upload_bytes`)", Bytes(*.requested), Bytes(*.in_use), Bytes(*.limit))]
    Uploads {
        /// Bytes of the upload that found no room.
        requested: u64,
        /// Bytes in flight.
        in_use: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The memory of a client with a hard limit: tasks that have not completed use the part that live handles leave
    /// free.
    #[error("no room for a reservation of {}: {} of at most {} are in use, some of them by tasks that have not completed (`hard_limit`)", Bytes(*.requested), Bytes(*.in_use), Bytes(*.limit))]
    Memory {
        /// Bytes requested.
        requested: u64,
        /// Bytes of the client's slices, including dropped ones whose tasks have not completed.
        in_use: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The slots for slices, streams, kernels, recordings and clients: dropped objects with tasks that have not
    /// completed take the part that live handles leave free.
    #[error(
        "all {limit} slots for slices, kernels and streams are in use, {held} by live ones, the others by dropped ones whose tasks have not completed (`max_handles`)"
    )]
    Handles {
        /// Slots of live objects.
        held: u32,
        /// The limit, in slots, for live and dropped objects together.
        limit: u32,
    },
    /// The pending host functions, callbacks and values to drop of a client.
    #[error(
        "the client has {in_use} of at most {limit} pending host functions, callbacks and values to drop (`max_jobs`)"
    )]
    Jobs {
        /// Pending jobs.
        in_use: u64,
        /// The limit, in jobs.
        limit: u64,
    },
    /// The readbacks of a sequence that were requested and not taken.
    #[error("the sequence is full with {requested} readbacks that were not taken")]
    Readbacks {
        /// Readbacks in the sequence, which equals its capacity.
        requested: u64,
    },
}

impl Full {
    /// Returns the number of units in use: messages, tasks, bytes, slots, jobs or readbacks.
    pub fn depth(&self) -> u64 {
        match self {
            Full::Mailbox { messages } => *messages as u64,
            Full::Stream { held, .. } => *held,
            Full::Uploads { in_use, .. }
            | Full::Memory { in_use, .. }
            | Full::Jobs { in_use, .. } => *in_use,
            Full::Handles { limit, .. } => u64::from(*limit),
            Full::Readbacks { requested } => *requested,
        }
    }

    /// Returns the end of a message: the limit to raise for a thread that cannot wait for room.
    pub(super) fn or_raise(&self) -> &'static str {
        match self {
            Full::Stream { .. } | Full::Jobs { .. } => ", or raise `callback_headroom`",
            Full::Uploads { .. } => ", or raise `callback_upload_headroom`",
            Full::Mailbox { .. }
            | Full::Memory { .. }
            | Full::Handles { .. }
            | Full::Readbacks { .. } => "",
        }
    }

    /// Returns an estimate of how long to wait before retrying: the time in which half of the units complete.
    ///
    /// The estimate takes a microsecond for a message, task or callback, far above the runtime's own cost, and a
    /// quarter of a nanosecond for a byte, as over PCIe 3. Readbacks wait for their consumer: one millisecond.
    pub fn retry_after(&self) -> Duration {
        match self {
            Full::Mailbox { messages } => Duration::from_micros(*messages as u64 / 2 + 1),
            Full::Stream { held, .. } => Duration::from_micros(held / 2 + 1),
            Full::Jobs { in_use, .. } => Duration::from_micros(in_use / 2 + 1),
            Full::Uploads { in_use, .. } | Full::Memory { in_use, .. } => {
                Duration::from_nanos(in_use / 8 + 1_000)
            }
            Full::Handles { held, limit } => {
                Duration::from_micros(u64::from(limit.saturating_sub(*held)) / 2 + 1)
            }
            Full::Readbacks { .. } => Duration::from_millis(1),
        }
    }
}

/// Returns the end of the message for a stream: with a limit below 2 a retry of `create` never succeeds.
fn too_low(limit: u64) -> &'static str {
    match limit {
        ..2 => "; `create` submits 2 tasks, so raise the limit to 2 for calls that do not wait",
        _ => "",
    }
}

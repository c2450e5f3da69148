//! What has no room when a call is told to try again.

use std::fmt;
use std::time::Duration;

use crate::failure::Bytes;

/// What has no room (I12). Its sentence has the figures, and the limit's name where one can be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Full {
    /// The device's mailbox.
    Mailbox {
        /// Messages that wait in it.
        messages: usize,
    },
    /// The tasks that a stream has accepted and not issued.
    Stream {
        /// How many there are.
        held: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The bytes of a client's uploads that are on their way.
    Uploads {
        /// Bytes of the upload that found no room.
        asked: u64,
        /// Bytes on their way.
        in_use: u64,
        /// Bytes that may be.
        limit: u64,
    },
    /// The memory of a client with a hard limit: what its handles leave room for is in use by tasks that have not completed.
    Memory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes of the client's slices, and of dropped ones whose tasks have not completed.
        in_use: u64,
        /// Bytes that the client may have.
        limit: u64,
    },
    /// The slots for slices, streams, kernels, recordings and clients: those that handles leave are of dropped things with tasks that have
    /// not completed.
    Handles {
        /// How many are live.
        held: u32,
        /// How many there may be, dropped ones with them.
        limit: u32,
    },
    /// The host functions, callbacks and values to drop of a client that are on their way.
    Jobs {
        /// How many there are.
        in_use: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The readbacks of a sequence that were asked and not taken.
    Readbacks {
        /// How many there are, which is all that the sequence holds.
        asked: u64,
    },
}

impl Full {
    /// How many are there already: messages, tasks, bytes, jobs or readbacks.
    pub fn depth(&self) -> u64 {
        match self {
            Full::Mailbox { messages } => *messages as u64,
            Full::Stream { held, .. } => *held,
            Full::Uploads { in_use, .. }
            | Full::Memory { in_use, .. }
            | Full::Jobs { in_use, .. } => *in_use,
            Full::Handles { limit, .. } => u64::from(*limit),
            Full::Readbacks { asked } => *asked,
        }
    }

    /// The end of a sentence that says what else helps a thread that cannot wait for room.
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

    /// How long to wait before trying again: a guess. A message, task or callback is taken to cost a
    /// microsecond, far above what one of the runtime's costs, and a byte a quarter of a nanosecond, as over
    /// PCIe 3; half of what is there makes room enough. Readbacks wait for their consumer: a millisecond.
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

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Mailbox { messages } => {
                write!(
                    f,
                    "the mailbox is full with {messages} messages (`mailbox_capacity`)"
                )
            }
            Full::Stream { held, limit } => {
                write!(
                    f,
                    "the stream, or its client, holds {held} of at most {limit} tasks (`max_held`, `max_tasks`)"
                )?;
                match limit {
                    // Trying again will not help whoever creates.
                    ..2 => {
                        f.write_str("; `create` is two tasks, give it 2 where calls do not wait")
                    }
                    _ => Ok(()),
                }
            }
            Full::Uploads {
                asked,
                in_use,
                limit,
            } => write!(
                f,
                "an upload of {} finds {} of at most {} on their way (`max_upload_bytes`)",
                Bytes(*asked),
                Bytes(*in_use),
                Bytes(*limit)
            ),
            Full::Memory {
                asked,
                in_use,
                limit,
            } => write!(
                f,
                "{} of memory find {} of at most {} in use, part of it by tasks that have not completed (`hard_limit`)",
                Bytes(*asked),
                Bytes(*in_use),
                Bytes(*limit)
            ),
            Full::Handles { held, limit } => write!(
                f,
                "all {limit} slots for slices, kernels and streams are in use, {held} of them by live ones, the others by tasks that have not completed (`max_handles`)"
            ),
            Full::Jobs { in_use, limit } => write!(
                f,
                "the client has {in_use} of at most {limit} host functions, callbacks and values to drop on their way (`max_jobs`)"
            ),
            Full::Readbacks { asked } => {
                write!(
                    f,
                    "the sequence is full with {asked} readbacks that nobody has taken"
                )
            }
        }
    }
}

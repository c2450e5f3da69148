//! Bounded mailbox: many producers, one consumer, messages built in the slot and consumed in place.
//!
//! ```text
//!   senders --claim (one CAS on tail)--> slot[pos & mask] --publish (turn = pos + 1)--> receiver
//!      ^                                                                                   |
//!      +------ room: one parked producer is woken, and passes the baton <--- free (turn = pos + capacity)
//! ```
//! Invariants
//! 1. The slot of `pos` is free for `pos` when `turn == pos`, and holds its message when `turn == pos + 1`.
//! 2. A message is accepted exactly when its compare-and-swap moved `tail`. CLOSED in `tail` stops
//!    further ones, so after closing the receiver knows every accepted message (I5, I6).
//! 3. Every accepted message is received, or dropped by the receiver; none is lost.
//! 4. Positions are one total order that extends happens-before between sends (I1).
//! 5. A producer that waits for room is woken after at most half a capacity of messages, or when the
//!    receiver finds the mailbox empty, or when it is closed. Tasks that wait are woken with the first thread behind them:
//!    no wake is lost to a task that was dropped.

mod crowd;
mod receiver;
mod reserved;
mod ring;
mod sender;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use receiver::Receiver;
pub use reserved::Reserved;
pub use sender::{Probe, RoomPlace, Sender};

use crate::gate::Gate;
use std::fmt;

/// Makes a mailbox of at least `capacity` messages, rounded up to a power of two and at least two.
/// `gate` is where the receiver sleeps, and where it may also be woken for other reasons.
pub fn mailbox<T: Send>(capacity: usize, gate: std::sync::Arc<Gate>) -> (Sender<T>, Receiver<T>) {
    let ring = crate::facade::Arc::new(ring::Ring::new(capacity, gate));
    (Sender::first(ring.clone()), Receiver::new(ring))
}

/// A message that was not accepted, handed back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// No room at the moment.
    Full(T),
    /// The mailbox is closed for good.
    Closed(T),
}

/// The mailbox is closed for good; the message is handed back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T = ()>(pub T);

/// [`Closed`], where the message had not been built yet.
pub type ClosedMarker = Closed<()>;

/// Why a message that had not been built yet was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room at the moment.
    Full,
    /// The mailbox is closed for good.
    Closed,
}

impl<T> TrySendError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(message) | Self::Closed(message) => message,
        }
    }

    fn new(why: Refused, message: T) -> Self {
        match why {
            Refused::Full => Self::Full(message),
            Refused::Closed => Self::Closed(message),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the mailbox is full",
            Self::Closed => "the mailbox is closed",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => Refused::Full.fmt(f),
            Self::Closed(_) => Refused::Closed.fmt(f),
        }
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Refused::Closed.fmt(f)
    }
}

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl std::error::Error for Refused {}
impl<T> std::error::Error for TrySendError<T> {}
impl<T> std::error::Error for Closed<T> {}

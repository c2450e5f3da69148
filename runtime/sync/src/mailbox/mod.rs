//! Bounded mailbox: many producers, one consumer; messages are built in their slots and used in place.
//!
//! ```text
//!   senders -- claim (one CAS on tail) --> slot[pos & mask] -- publish (turn = pos + 1) --> receiver
//!      ^                                                                                       |
//!      +------- wait for room: one producer is woken, and wakes the next <--- free (turn = pos + capacity)
//! ```
//! # States of a slot, for the message of position `pos`
//!
//! | state | holds while | leaves by |
//! | --- | --- | --- |
//! | free | `turn == pos`, `tail <= pos` | a producer claims it: CAS of `tail` to `pos + 1` (Relaxed) |
//! | claimed | `turn == pos`, `tail > pos` | the producer publishes: `turn = pos + 1` (Release) |
//! | published | `turn == pos + 1` | the receiver frees it: `turn = pos + capacity` (Release) |
//!
//! The value belongs to the producer while claimed and to the receiver while published.
//!
//! ```text
//!   producer                                   receiver
//!   turn == pos               (Acquire)        turn == head + 1?            (Acquire)
//!   CAS tail: pos -> pos + 1                     yes: use the message, drop it
//!   write the message                                 turn = head + capacity  (Release)
//!   turn = pos + 1            (Release)          no:  sleep at the gate
//!   wake the gate
//! ```
//! The Release of a publication pairs with the receiver's Acquire: it sees the message. The Release
//! of a free pairs with the Acquire in `claim`: the producer that uses the slot next comes after
//! the message was dropped. `tail` orders nothing but positions. The gate's handshake makes a
//! publication wake a receiver that sleeps.
//!
//! # Waiting for room (I12)
//!
//! ```text
//!   producer                                   receiver
//!   enter the wait list                        turn = head + capacity
//!   fence(SeqCst)                              fence(SeqCst)
//!   claim again                                wait list not empty?         (Relaxed)
//!     claimed: leave the list                    yes: wake one producer
//!     full:    park, then enter again
//! ```
//! One of the two sees the other. The receiver does not fence for each message: it does so after
//! half a capacity of messages, and whenever it finds the mailbox empty. A woken producer that
//! claimed a slot wakes the next one while there is room; that saves time and nothing depends on
//! it. Closing wakes all producers: a producer that enters the list later reads CLOSED in `tail`.
//!
//! # Invariants
//! 1. The slot of `pos` is free for `pos` when `turn == pos`, and holds its message when `turn ==
//!    pos + 1`.
//! 2. A message is accepted exactly when its compare-and-swap moved `tail`. CLOSED in `tail` stops
//!    further ones, so after closing the receiver knows every accepted message (I5, I6).
//! 3. Every accepted message is received, or dropped by the receiver; none is lost.
//! 4. Positions are one total order that extends happens-before between sends (I1).
//! 5. A producer that waits for room is woken after at most half a capacity of messages, or when
//!    the receiver finds the mailbox empty, or when it is closed. Tasks are woken together with the
//!    first thread behind them, so that no wake is lost to a task that was dropped.
//!
//! Checked by the models in `loom-tests/tests/models/mailbox.rs` and `requests.rs`; the mutants
//! `mailbox_*` remove orderings, fences and wakes.

mod receiver;
mod reserved;
mod ring;
mod sender;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod wait_list;

pub use receiver::Receiver;
pub use reserved::Reserved;
pub use sender::{Probe, RoomPlace, Sender};

use crate::gate::Gate;

/// Creates a mailbox of at least `capacity` messages, rounded up to a power of two and at least
/// two. The receiver sleeps at `gate`, where it may also be woken for other reasons.
pub fn mailbox<T: Send>(capacity: usize, gate: std::sync::Arc<Gate>) -> (Sender<T>, Receiver<T>) {
    let ring = crate::facade::Arc::new(ring::Ring::new(capacity, gate));
    (Sender::new(ring.clone()), Receiver::new(ring))
}

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The mailbox is full at the moment.
    Full,
    /// The mailbox is closed for good.
    Closed,
}

//! Counted slots: how a handle (slice, kernel, stream, point) is counted, and how frees travel.
//!
//! ```text
//!   any thread: acquire <---- free list <---- recycle :device thread
//!        |                                      ^
//!     Counted (clone, drop)                     | take_dropped, once the stamp is passed
//!        +-- last drop --> dropped list --------+
//! ```
//! Invariants
//! 1. A slot is in one place at a time: free, counted (count > 0), dropped, or with the device thread.
//! 2. Neither list is ever full and neither allocates: both run through the slots' `next` (I9, I12).
//! 3. A dropped slot carries the sink's stamp of after its count reached zero. Sends by any of its handles
//!    happened before, so that they lie before the stamp (I4).
//! 4. Slots do not move and live as long as the table; each counted slot keeps the table alive.
//!
//! 5. A caller that finds the table full waits as long as a slot returns by itself, and learns when one has (`outlook`).
//!
//! The device thread alone takes the dropped list and recycles.

mod counted;
mod outlook;
mod segments;
mod table;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use counted::Counted;
pub use outlook::Outlook;
pub use table::{Exhausted, Slot, SlotId, Slots};

/// Where the one who recycles is to be found: the mailbox's probe.
pub trait Sink: Send + Sync + 'static {
    /// The position after the last accepted message.
    fn stamp(&self) -> u64;
    /// Wakes the one who recycles.
    fn wake(&self);
}

//! The table of counted slots: how handles (of slices, kernels, streams, points) are counted, and
//! how their deferred drops reach the device thread.
//!
//! # States of a slot
//!
//! ```text
//!                  acquire                           any thread
//!      FREE --------------------------> COUNTED      clone: count += 1, drop: count -= 1
//!       ^                                  |
//!       | recycle: generation += 1         | last drop: count = 0, stamp, push
//!       |                                  v
//!      TAKEN <------------------------- DROPPED
//!                take_dropped
//!  device thread
//! ```
//! FREE slots are in the free list, DROPPED slots in the dropped list; a COUNTED slot belongs to
//! its handles and a TAKEN slot to the device thread, which alone takes the dropped list and
//! recycles. Both lists run through the slots' `next`.
//!
//! # A drop against the messages that name the slot (I4)
//! A message carries a slot's plain index. The device thread recycles a slot only after it has
//! received every message before the slot's stamp:
//!
//! ```text
//!   client                                    device thread
//!   send a message with the index
//!   last drop: count 1 -> 0   (Release;
//!     then an Acquire fence)
//!   stamp = tail of the mailbox
//!   push on the dropped list  (Release)       take the dropped list       (Acquire)
//!   wake, if the list was empty               receive until head >= stamp
//!                                             generation += 1
//!   acquire: pop              (Acquire)       push on the free list       (Release)
//! ```
//! Each Release pairs with the Acquire that reads its result: the Release of every drop with the
//! fence of the last one, so that all sends by all handles happen before the stamp is read; a push
//! on the dropped list with the take; a push on the free list with the pop.
//!
//! # Invariants
//! 1. A slot is in one state at a time.
//! 2. Neither list is ever full and neither allocates (I9, I12).
//! 3. A dropped slot carries the sink's stamp, read after its count reached zero. Sends by any of
//!    its handles happened before, so their positions lie before the stamp (I4).
//! 4. Slots do not move and live as long as the table; each counted slot keeps the table alive.
//! 5. A caller that finds the table full waits while a dropped slot is still to be recycled, and is
//!    woken when one has been (`counted`).
//!
//! Checked by the models in `loom-tests/tests/models/slots.rs` and by the walk
//! `a_slot_outlives_the_messages_that_name_it`; the mutants `count_*`, `dropped_*`, `free_list_*`
//! and `slot_*` remove orderings, the tag of the free list, and wakes.

mod counted;
mod segments;
mod table;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use counted::{Availability, Counted};
pub use table::{Exhausted, Slot, SlotId, Slots};

/// The device thread, as seen by a dropped handle: the mailbox's probe.
pub trait Sink: Send + Sync + 'static {
    /// Returns the position after the last accepted message.
    fn stamp(&self) -> u64;
    /// Wakes the device thread.
    fn wake(&self);
}

//! Waiting at a full table: whether a dropped slot is still to be recycled, and the wake when it has been.
//!
//! A slot is *held* while it is COUNTED. A dropped slot becomes free without its former holders,
//! when the device thread recycles it. So a caller waits while fewer than all slots are held:
//!
//! ```text
//!   waiter                                        device thread
//!   cursor = returns.completed() + 1
//!   free: EMPTY -> EMPTY | WAITED_FOR (Release)
//!   all held? fail                                free: EMPTY | WAITED_FOR -> slot   (Release)
//!   wait for `cursor` on `returns`                WAITED_FOR was set: fence(Acquire)
//!                                                 returns.publish(completed + 1)
//! ```
//! No wake is lost (I5). The waiter's exchange proves that the free list is empty, in the same word
//! that the next recycling exchanges, so that recycling reads the bit. There is a next recycling:
//! all slots had been acquired by then, so if fewer than all are held, one was dropped and is not
//! yet recycled. The Release of the waiter's exchange pairs with the device's Acquire fence: the
//! waiter reads its cursor before the device publishes the next one. A stale count of drops only
//! makes the caller fail, as if it had come earlier.
//!
//! Two credits, as the hard limit of a client has, would cost three more exchanges for each slice, on lines that all
//! threads share; counting the held slots by a scan would visit up to the whole table for each call that fails.
//! Waiters are not served in order: all try again.
//!
//! Checked by the models `slots::a_waiter_is_woken_when_a_slot_is_recycled` and
//! `slots::a_full_table_of_held_slots_is_not_waited_for`.

use super::table::{NIL, WAITED_FOR, unpack};
use super::{Sink, Slots};
use crate::facade::atomic::{Ordering, fence};
use crate::timeline::Timeline;

/// Whether a caller that found the table full can expect a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// A slot may be free by now.
    Free,
    /// All slots are held: only their holders can make room.
    Held,
    /// Some slots are held; another one is free once [`Slots::returns`] has passed the cursor.
    Returning {
        /// The number of slots that are held.
        held: u32,
        /// The cursor of [`Slots::returns`] to wait for.
        cursor: u64,
    },
}

impl<P: Default + Send + Sync + 'static, S: Sink> Slots<P, S> {
    /// Returns what a caller can expect whose [`Slots::acquire`] found no slot. Never waits.
    #[cold]
    pub fn availability(&self) -> Availability {
        // Before the bit is set: the publication that the bit causes is the next one.
        let cursor = self.returns.completed() + 1;
        // Relaxed: a guess for the exchange. It is not older than the cursor, which was acquired.
        let mut head = self.free.load(Ordering::Relaxed);
        while head & WAITED_FOR == 0 {
            if unpack(head).0 != NIL || !self.has_made_all() {
                return Availability::Free;
            }
            // Release: pairs with the fence in `publish_return`; the cursor was read before.
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            match self
                .free
                .compare_exchange_weak(head, head | WAITED_FOR, won, lost)
            {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        match self.held(head) {
            held if held >= self.limit => Availability::Held,
            held => Availability::Returning { held, cursor },
        }
    }

    /// Returns the number of held slots among those acquired up to this load of the free list.
    /// Slots acquired and dropped since then may make the difference negative.
    fn held(&self, head: u64) -> u32 {
        let held = self.acquired(head).wrapping_sub(self.ever_dropped());
        if held.cast_signed() < 0 { 0 } else { held }
    }

    /// Returns the timeline that passes another cursor each time a slot that was waited for is recycled.
    pub fn returns(&self) -> &Timeline {
        &self.returns
    }

    /// Publishes that a slot that was waited for is free. All waiters try again. For the device thread only.
    #[cold]
    pub(super) fn publish_return(&self) {
        // Acquire: pairs with the Release in `availability`.
        fence(Ordering::Acquire);
        self.returns.publish(self.returns.completed() + 1);
    }
}

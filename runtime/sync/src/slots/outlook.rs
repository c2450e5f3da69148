//! What a caller may expect that finds the table full: a slot that returns by itself, or none.
//!
//! A slot that is *held* has a count. One that was dropped returns by itself, when the device thread recycles it. So a caller waits as
//! long as fewer than all are held:
//!
//! ```text
//!   waiter:  cursor = returns.completed(); sets WAITED_FOR in the empty free list; all held? else waits for cursor + 1
//!   device:  pushes a slot on the free list; WAITED_FOR was set? publishes the next cursor
//! ```
//! No wake is lost. The waiter's exchange proves that the list is empty, in the word that the next recycling exchanges: that one sees
//! the bit. And there is a next one: all slots were acquired by then, so that with fewer than all held one of them was dropped and
//! not yet recycled. A count of drops that is an old one only makes the caller fail as if it had come earlier.

use super::table::{NIL, WAITED_FOR, unpack};
use super::{Sink, Slots};
use crate::facade::atomic::{Ordering, fence};
use crate::timeline::Timeline;

/// What a caller may expect that finds the table full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// There may be a free slot by now.
    Free,
    /// All slots are held: only their holders can make room.
    Held,
    /// Some are held; one of the others will be free once [`Slots::returns`] has passed the cursor.
    Returning {
        /// Slots that are held.
        held: u32,
        /// What to wait for.
        cursor: u64,
    },
}

impl<P: Default + Send + Sync + 'static, S: Sink> Slots<P, S> {
    /// Looks what a caller may expect whose [`Slots::acquire`] found nothing. Never waits.
    #[cold]
    pub fn outlook(&self) -> Outlook {
        // Before the bit is set: what is published because of that bit is the next one.
        let cursor = self.returns.completed() + 1;
        // Relaxed: a guess for the exchange. It is not older than the cursor, which was acquired.
        let mut head = self.free.load(Ordering::Relaxed);
        while head & WAITED_FOR == 0 {
            if unpack(head).0 != NIL || !self.is_made_whole() {
                return Outlook::Free;
            }
            // Release: pairs with the fence in `tell_returned`, so that the look at the cursor comes before it.
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
            held if held >= self.limit => Outlook::Held,
            held => Outlook::Returning { held, cursor },
        }
    }

    /// Slots that are held, of those acquired up to this look at the free list. Those that were acquired and dropped since
    /// may make it fewer than none.
    fn held(&self, head: u64) -> u32 {
        let held = self.acquired(head).wrapping_sub(self.ever_dropped());
        if held.cast_signed() < 0 { 0 } else { held }
    }

    /// Passes another cursor each time a slot returns that was waited for.
    pub fn returns(&self) -> &Timeline {
        &self.returns
    }

    /// A slot has returned that was waited for. All who wait look again. On the device thread only.
    #[cold]
    pub(super) fn tell_returned(&self) {
        // Acquire: pairs with the Release in `outlook`.
        fence(Ordering::Acquire);
        self.returns.publish(self.returns.completed() + 1);
    }
}

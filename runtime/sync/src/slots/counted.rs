//! A counted handle of a slot. Cloning is one relaxed increment; the last drop stamps the slot,
//! pushes it on the dropped list and wakes the device thread.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::table::{NIL, WAITED_FOR, unpack};
use super::{Exhausted, Sink, Slot, SlotId, Slots};
use crate::facade::atomic::{Ordering, fence};
use crate::timeline::Timeline;

/// With more handles than this the process aborts, as with `Arc`.
const COUNT_MAX: u32 = i32::MAX as u32;

/// A counted handle of a slot.
pub struct Counted<P: Default + Send + Sync + 'static, S: Sink> {
    /// All handles of one slot share **one** strong count of the table, so that cloning touches
    /// only the slot. The last handle releases it.
    table: ManuallyDrop<Arc<Slots<P, S>>>,
    slot: NonNull<Slot<P>>,
    id: SlotId,
}

// SAFETY: it is a counted reference to a `Slot<P>` and a `Slots<P, S>`, both of which are Sync and Send.
unsafe impl<P: Default + Send + Sync + 'static, S: Sink> Send for Counted<P, S> {}
// SAFETY: as above.
unsafe impl<P: Default + Send + Sync + 'static, S: Sink> Sync for Counted<P, S> {}

impl<P: Default + Send + Sync + 'static, S: Sink> Slots<P, S> {
    /// Takes a free slot, or makes one; its count is one. Never waits, and allocates only to grow.
    #[inline]
    pub fn acquire(self: &Arc<Self>) -> Result<Counted<P, S>, Exhausted> {
        let (index, slot) = match self.pop_free() {
            Some(found) => found,
            None => self.make()?,
        };
        // Relaxed: the slot is this thread's alone until the handle is passed on.
        slot.count.store(1, Ordering::Relaxed);
        Ok(Counted::first(self.clone(), slot, index))
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> Counted<P, S> {
    /// Creates the first handle of a slot of `table` whose count is one.
    #[inline]
    fn first(table: Arc<Slots<P, S>>, slot: &Slot<P>, index: u32) -> Self {
        let id = SlotId {
            index,
            generation: slot.generation(),
        };
        let slot = NonNull::from(slot);
        Self {
            table: ManuallyDrop::new(table),
            slot,
            id,
        }
    }

    /// Returns the slot's index and generation.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// Returns the slot.
    #[inline]
    pub fn slot(&self) -> &Slot<P> {
        // SAFETY: the table keeps its slots in place for as long as it lives, and `self` keeps the table.
        unsafe { self.slot.as_ref() }
    }

    /// Returns the payload, which clients and the device share.
    #[inline]
    pub fn payload(&self) -> &P {
        self.slot().payload()
    }

    /// Returns the table.
    #[inline]
    pub fn table(&self) -> &Arc<Slots<P, S>> {
        &self.table
    }

    /// Returns `true` if this is the only handle. It stays the only one until it is cloned, and
    /// everything that other handles did happened before.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.slot().count() == 1
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> Clone for Counted<P, S> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the new handle is made from one that exists, and is passed on by other means.
        if self.slot().count.fetch_add(1, Ordering::Relaxed) > COUNT_MAX {
            std::process::abort();
        }
        // SAFETY: the copy drops the `Arc` only if its handle is the last one, and then it is the
        // only copy left; until then the slot's one strong count keeps the table.
        let table = unsafe { ptr::read(&raw const self.table) };
        Self {
            table,
            slot: self.slot,
            id: self.id,
        }
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> Drop for Counted<P, S> {
    #[inline]
    fn drop(&mut self) {
        // Release: what this handle did happens before the last drop.
        if self.slot().count.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: pairs with the other drops' Release.
            fence(Ordering::Acquire);
            self.drop_last();
        }
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> Counted<P, S> {
    fn drop_last(&mut self) {
        let table = &**self.table;
        let stamp = table.sink.stamp();
        // Only the push on an empty list wakes: it wakes the device thread for later pushes as well.
        let was_empty = table.push_dropped(self.id.index, self.slot(), stamp);
        if was_empty {
            table.sink.wake();
        }
        // SAFETY: the slot is not this handle's any more, but its strong count of the table still
        // is; it is released once, here, and `table` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.table) };
    }
}

// Waiting at a full table: whether a dropped slot is still to be recycled, and the wake when it has been.
//
// A slot is *held* while it is COUNTED. A dropped slot becomes free without its former holders,
// when the device thread recycles it. So a caller waits while fewer than all slots are held:
//
// ```text
// waiter                                        device thread
// cursor = returns.completed() + 1
// free: EMPTY -> EMPTY | WAITED_FOR (Release)
// all held? fail                                free: EMPTY | WAITED_FOR -> slot   (Release)
// wait for `cursor` on `returns`                WAITED_FOR was set: fence(Acquire)
// returns.publish(completed + 1)
// ```
// No wake is lost (I5). The waiter's exchange proves that the free list is empty, in the same word
// that the next recycling exchanges, so that recycling reads the bit. There is a next recycling:
// all slots had been acquired by then, so if fewer than all are held, one was dropped and is not
// yet recycled. The Release of the waiter's exchange pairs with the device's Acquire fence: the
// waiter reads its cursor before the device publishes the next one. A stale count of drops only
// makes the caller fail, as if it had come earlier.
//
// Two credits, as the hard limit of a client has, would cost three more exchanges for each slice, on lines that all
// threads share; counting the held slots by a scan would visit up to the whole table for each call that fails.
// Waiters are not served in order: all try again.
//
// Checked by the models `slots::a_waiter_is_woken_when_a_slot_is_recycled` and
// `slots::a_full_table_of_held_slots_is_not_waited_for`.

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
        // Acquire: pairs with the Release of `Availability`.
        fence(Ordering::Acquire);
        self.returns.publish(self.returns.completed() + 1);
    }
}

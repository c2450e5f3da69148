//! A counted handle of a slot. Cloning is one relaxed increment; the last drop stamps the slot,
//! pushes it on the dropped list and wakes the device thread.

use super::{Exhausted, Sink, Slot, SlotId, Slots};
use crate::facade::atomic::{Ordering, fence};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

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

//! A counted hold on a slot. Cloning is one relaxed increment; the last drop stamps the slot, pushes it on
//! the dropped list and wakes the one who recycles.

use super::{Exhausted, Sink, Slot, SlotId, Slots};
use crate::facade::atomic::{Ordering, fence};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// More handles than this and the process aborts, as with `Arc`.
const COUNT_MAX: u32 = i32::MAX as u32;

/// One of possibly many holds on a slot.
pub struct Counted<P: Default + Send + Sync + 'static, S: Sink> {
    /// All holds on one slot share **one** strong count of the table, so that cloning touches the slot
    /// only. The last hold gives it back.
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
        // Relaxed: the slot is this thread's alone until the handle is handed on.
        slot.count.store(1, Ordering::Relaxed);
        Ok(Counted::first(self.clone(), slot, index))
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> Counted<P, S> {
    /// The first hold on a slot of `table` whose count is one.
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

    /// Which slot, in which of its lives.
    #[inline]
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// The slot.
    #[inline]
    pub fn slot(&self) -> &Slot<P> {
        // SAFETY: the table keeps its slots in place for as long as it lives, and `self` keeps the table.
        unsafe { self.slot.as_ref() }
    }

    /// What both sides share.
    #[inline]
    pub fn payload(&self) -> &P {
        self.slot().payload()
    }

    /// The table.
    #[inline]
    pub fn table(&self) -> &Arc<Slots<P, S>> {
        &self.table
    }

    /// Whether this is the only hold. If so, it stays so until this one is cloned, and everything that
    /// other holds did happened before.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.slot().count() == 1
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> Clone for Counted<P, S> {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the new hold is made from one that exists, and is handed on by other means.
        if self.slot().count.fetch_add(1, Ordering::Relaxed) > COUNT_MAX {
            std::process::abort();
        }
        // SAFETY: the copy never drops the `Arc` unless its hold is the last one, and then it is the only
        // copy left; until then the slot's one strong count keeps the table.
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
        // Release: what this hold did comes before the last drop.
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
        // Only the first push wakes: later ones find a list that somebody is being woken for.
        let was_empty = table.push_dropped(self.id.index, self.slot(), stamp);
        if was_empty {
            table.sink.wake();
        }
        // SAFETY: the slot is not this hold's any more, but its strong count of the table still is; it is
        // given back once, here, and `table` is not used again.
        unsafe { ManuallyDrop::drop(&mut self.table) };
    }
}

impl<P: Default + Send + Sync + 'static, S: Sink> fmt::Debug for Counted<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

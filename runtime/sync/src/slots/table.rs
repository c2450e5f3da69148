//! The table: its slots, the free list and the dropped list.
//!
//! The free list is a Treiber stack. Each pop increments a tag in its head, so that an exchange
//! fails if slots were popped and pushed since the head was read (ABA). The dropped list needs no
//! tag: slots are pushed one by one and taken all at once. Its head counts the pushes; with the tag
//! and `made` that yields the number of held slots, without another word on the path of a drop.

use super::Sink;
use super::segments::Segments;
use crate::facade::Padded;
use crate::facade::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::facade::cell::UnsafeCell;
use crate::timeline::Timeline;
use std::sync::Arc;

/// An index has 28 bits and a tag 35: 268 million slots, and 34 billion pops between two reads of
/// the same head by one thread. The bit above is [`WAITED_FOR`].
const INDEX_BITS: u32 = 28;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// The end of a list.
pub(super) const NIL: u32 = INDEX_MASK as u32;
/// In `free`, only while the list is empty: a caller waits for a slot.
pub(super) const WAITED_FOR: u64 = 1 << 63;

/// Every slot of the table is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The greatest number of slots.
    pub limit: u32,
}

/// A slot's index and generation.
#[derive(Copy, Clone, Eq, PartialEq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// The slot's index.
    pub index: u32,
    /// How often the slot was recycled before.
    pub generation: u32,
}

/// One slot. Its fields belong to the holder of the slot's state (invariant 1), except the count,
/// the generation and the payload, which all threads may read.
pub struct Slot<P> {
    pub(super) count: AtomicU32,
    generation: AtomicU32,
    /// The next slot in the list that contains this one.
    next: AtomicU32,
    stamp: UnsafeCell<u64>,
    payload: P,
}

// SAFETY: `stamp` is written by the last dropper before its Release push and read by the device
// thread after its Acquire take; everything else is atomic, or `P`, which is shared between
// threads.
unsafe impl<P: Send + Sync> Send for Slot<P> {}
// SAFETY: as above.
unsafe impl<P: Send + Sync> Sync for Slot<P> {}

impl<P: Default> Default for Slot<P> {
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            next: AtomicU32::new(NIL),
            stamp: UnsafeCell::new(0),
            payload: P::default(),
        }
    }
}

impl<P> Slot<P> {
    /// Returns how often the slot was recycled.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Relaxed: a thread that depends on it has acquired the slot by the free list or by a message.
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns the payload, which clients and the device share.
    #[inline]
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Returns the number of handles at this moment.
    #[inline]
    pub fn count(&self) -> u32 {
        // Acquire: pairs with the drops' Release, so that a count of one means exclusive access.
        self.count.load(Ordering::Acquire)
    }
}

/// The table of counted slots.
pub struct Slots<P, S> {
    /// The first free slot, the tag, and [`WAITED_FOR`].
    pub(super) free: Padded<AtomicU64>,
    /// The last dropped slot or `NIL`, and above it the number of drops so far.
    dropped: Padded<AtomicU64>,
    /// The number of slots made so far.
    made: Padded<AtomicU32>,
    /// The number of recyclings so far; with `made` and the free list's tag it yields the live slots.
    recycled: AtomicU32,
    pub(super) limit: u32,
    segments: Segments<Slot<P>>,
    pub(super) sink: S,
    /// Passes a cursor whenever a slot that was waited for is recycled.
    pub(super) returns: Timeline,
}

fn pack(index: u32, tag: u64) -> u64 {
    u64::from(index) | ((tag << INDEX_BITS) & !WAITED_FOR)
}

pub(super) fn unpack(head: u64) -> (u32, u64) {
    (
        (head & INDEX_MASK) as u32,
        (head & !WAITED_FOR) >> INDEX_BITS,
    )
}

impl<P: Default + Send + Sync + 'static, S: Sink> Slots<P, S> {
    /// Creates a table of up to `limit` slots (at most 2^28 - 1). It allocates as it grows.
    pub fn new(limit: u32, sink: S) -> Arc<Self> {
        Arc::new(Self {
            free: Padded(AtomicU64::new(pack(NIL, 0))),
            dropped: Padded(AtomicU64::new(INDEX_MASK)),
            made: Padded(AtomicU32::new(0)),
            recycled: AtomicU32::new(0),
            limit: limit.min(NIL),
            segments: Segments::new(),
            sink,
            returns: Timeline::new(),
        })
    }

    /// Returns the sink that last drops notify.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    #[inline]
    pub(super) fn pop_free(&self) -> Option<(u32, &Slot<P>)> {
        // Acquire here and on failure: pairs with `recycle`; the slot is as its recycler left it.
        // Pops continue the release sequence, so the push of a slot further down is visible too.
        let acquire = Ordering::Acquire;
        let mut head = self.free.load(acquire);
        loop {
            let (index, tag) = unpack(head);
            if index == NIL {
                return None;
            }
            let slot = self.segments.get(index)?;
            // Relaxed: if the slot was popped meanwhile, the tag has changed and the exchange fails.
            let next = slot.next.load(Ordering::Relaxed);
            let next = pack(next, tag + 1);
            match self
                .free
                .compare_exchange_weak(head, next, acquire, acquire)
            {
                Ok(_) => return Some((index, slot)),
                Err(now) => head = now,
            }
        }
    }

    #[cold]
    pub(super) fn make(&self) -> Result<(u32, &Slot<P>), Exhausted> {
        let exhausted = Exhausted { limit: self.limit };
        let more = |made: u32| (made < self.limit).then_some(made + 1);
        // Relaxed: it only assigns an index; the segment's own Release and Acquire order its entries.
        let (won, lost) = (Ordering::Relaxed, Ordering::Relaxed);
        let index = self
            .made
            .fetch_update(won, lost, more)
            .map_err(|_| exhausted)?;
        let slot = self.segments.ensure(index).ok_or(exhausted)?;
        Ok((index, slot))
    }

    /// Returns the slot of an index that has been handed out.
    #[inline]
    pub fn slot(&self, index: u32) -> Option<&Slot<P>> {
        self.segments.get(index)
    }

    /// Pushes a slot whose count has reached zero. Returns `true` if the list was empty.
    #[inline]
    pub(super) fn push_dropped(&self, index: u32, slot: &Slot<P>, stamp: u64) -> bool {
        // SAFETY: the count is zero and the slot not yet pushed, so it is this thread's alone.
        slot.stamp.with_mut(|place| unsafe { *place = stamp });
        // Release: pairs with `take_dropped`. Relaxed otherwise: only the head itself is read.
        let (won, lost) = (Ordering::Release, Ordering::Relaxed);
        let mut head = self.dropped.load(Ordering::Relaxed);
        loop {
            let last = (head & INDEX_MASK) as u32;
            // Relaxed: published by the exchange.
            slot.next.store(last, Ordering::Relaxed);
            // The count above the index wraps: only differences of it are used.
            let next = (head >> INDEX_BITS).wrapping_add(1) << INDEX_BITS | u64::from(index);
            match self.dropped.compare_exchange_weak(head, next, won, lost) {
                Ok(_) => return last == NIL,
                Err(now) => head = now,
            }
        }
    }

    /// Returns `true` if [`Self::take_dropped`] would find a slot.
    #[inline]
    pub fn has_dropped(&self) -> bool {
        // Relaxed: a hint; `take_dropped` acquires.
        self.dropped.load(Ordering::Relaxed) & INDEX_MASK != INDEX_MASK
    }

    /// Calls `f` with the index and stamp of each dropped slot, the oldest first; returns how many
    /// there were. `f` may recycle them. For the device thread only.
    pub fn take_dropped(&self, mut f: impl FnMut(u32, u64)) -> usize {
        if !self.has_dropped() {
            return 0;
        }
        // Acquire: pairs with every push, through the release sequence of exchanges. Setting the
        // index to NIL empties the list and keeps the count.
        let taken = self.dropped.fetch_or(INDEX_MASK, Ordering::Acquire);
        let mut at = (taken & INDEX_MASK) as u32;
        // The list has the youngest slot first: reverse it.
        let mut oldest = NIL;
        while let Some(slot) = self.listed(at) {
            // Relaxed, here and below: the slots are this thread's.
            let next = slot.next.load(Ordering::Relaxed);
            slot.next.store(oldest, Ordering::Relaxed);
            oldest = at;
            at = next;
        }
        let mut taken = 0;
        while let Some(slot) = self.listed(oldest) {
            let next = slot.next.load(Ordering::Relaxed);
            // SAFETY: the slot was taken off the list, so it is this thread's.
            let stamp = slot.stamp.with(|stamp| unsafe { *stamp });
            f(oldest, stamp);
            oldest = next;
            taken += 1;
        }
        taken
    }

    fn listed(&self, index: u32) -> Option<&Slot<P>> {
        if index == NIL {
            None
        } else {
            self.segments.get(index)
        }
    }

    /// Ends this generation of a slot that [`Self::take_dropped`] returned; the next one is free.
    /// The caller has reset the payload. For the device thread only.
    #[inline]
    pub fn recycle(&self, index: u32) {
        let Some(slot) = self.segments.get(index) else {
            debug_assert!(false, "recycled a slot that was never made");
            return;
        };
        debug_assert_eq!(slot.count(), 0, "recycled a slot in use");
        // Relaxed: published by the exchange.
        slot.generation
            .store(slot.generation().wrapping_add(1), Ordering::Relaxed);
        self.recycled.fetch_add(1, Ordering::Relaxed);
        // Release: pairs with `pop_free`. Relaxed otherwise: only the head itself is read.
        let (won, lost) = (Ordering::Release, Ordering::Relaxed);
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            let (first, tag) = unpack(head);
            // Relaxed: published by the exchange.
            slot.next.store(first, Ordering::Relaxed);
            match self
                .free
                .compare_exchange_weak(head, pack(index, tag), won, lost)
            {
                Ok(_) if head & WAITED_FOR != 0 => return self.publish_return(),
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Returns how many slots had been acquired when `head` was read, modulo 2^32: each acquisition
    /// was a pop, which the tag counts, or a making.
    pub(super) fn acquired(&self, head: u64) -> u32 {
        // Relaxed: a statistic.
        (unpack(head).1 as u32).wrapping_add(self.made.load(Ordering::Relaxed))
    }

    /// Returns the number of drops so far, modulo 2^32.
    pub(super) fn ever_dropped(&self) -> u32 {
        // Relaxed: a statistic.
        (self.dropped.load(Ordering::Relaxed) >> INDEX_BITS) as u32
    }

    /// Returns `true` if the table has made as many slots as its limit allows.
    pub(super) fn has_made_all(&self) -> bool {
        // Relaxed: it only grows.
        self.made.load(Ordering::Relaxed) >= self.limit
    }

    /// Returns the number of slots acquired and not yet recycled. It may be stale.
    pub fn live(&self) -> u32 {
        // Relaxed: a statistic.
        let acquired = self.acquired(self.free.load(Ordering::Relaxed));
        acquired.wrapping_sub(self.recycled.load(Ordering::Relaxed))
    }
}

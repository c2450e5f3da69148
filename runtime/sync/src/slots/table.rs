//! The table: the free list, the dropped list, and what a slot is.
//!
//! The free list is a Treiber stack with a tag that every pop increments, so that a head seen before is
//! not taken for the same head when slots went through other hands meanwhile (ABA). The dropped list is
//! pushed one by one and taken whole, so it needs none. It counts its pushes: with the pops and makings it tells how many slots are
//! held, without another word on the way of a drop.

use super::Sink;
use super::segments::Segments;
use crate::facade::Padded;
use crate::facade::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::facade::cell::UnsafeCell;
use crate::timeline::Timeline;
use std::fmt;
use std::sync::Arc;

/// An index in 28 bits and a tag in 35: 268 million slots, and 34 thousand million pops between two
/// looks of one thread at the same head. The bit above is [`WAITED_FOR`].
const INDEX_BITS: u32 = 28;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// The end of a list.
pub(super) const NIL: u32 = INDEX_MASK as u32;
/// In `free`, only while it is empty: a caller waits for a slot.
pub(super) const WAITED_FOR: u64 = 1 << 63;

/// Every slot of the table is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// How many slots there may be.
    pub limit: u32,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {} slots are in use", self.limit)
    }
}

impl std::error::Error for Exhausted {}

/// A slot at one of its lives.
#[derive(Copy, Clone, Eq, PartialEq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    /// Which slot.
    pub index: u32,
    /// Which of its lives: how often it was recycled before.
    pub generation: u32,
}

/// One slot. Its fields belong to whoever has the slot (invariant 1), except the count, the generation
/// and the payload, which all may read.
pub struct Slot<P> {
    pub(super) count: AtomicU32,
    generation: AtomicU32,
    /// The next slot in the list that this one is in.
    next: AtomicU32,
    stamp: UnsafeCell<u64>,
    payload: P,
}

// SAFETY: `stamp` is written by the last dropper before its Release push and read by the device thread
// after its Acquire take; everything else is atomic, or `P`, which is shared between threads.
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
    /// How often the slot was recycled.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Relaxed: whoever may rely on it has acquired the slot by the free list or by a message.
        self.generation.load(Ordering::Relaxed)
    }

    /// What both sides share.
    #[inline]
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// Handles at the moment.
    #[inline]
    pub fn count(&self) -> u32 {
        // Acquire: pairs with the drops' Release, so that "one left" means alone.
        self.count.load(Ordering::Acquire)
    }
}

/// The table of counted slots.
pub struct Slots<P, S> {
    /// First free slot and tag, and [`WAITED_FOR`].
    pub(super) free: Padded<AtomicU64>,
    /// Last dropped slot, or `NIL`, and above it how many were ever dropped.
    dropped: Padded<AtomicU64>,
    /// Slots ever made.
    made: Padded<AtomicU32>,
    /// Slots given back; with `made` and the free list's tag it tells how many live.
    recycled: AtomicU32,
    pub(super) limit: u32,
    segments: Segments<Slot<P>>,
    pub(super) sink: S,
    /// Passes a cursor whenever a slot returns that was waited for.
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
    /// A table of up to `limit` slots (at most 2^28 - 1). It allocates as it grows.
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

    /// Where last drops are told.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    #[inline]
    pub(super) fn pop_free(&self) -> Option<(u32, &Slot<P>)> {
        // Acquire here and on failure: pairs with `recycle`; the slot is as its recycler left it. Pops
        // continue the release sequence, so the push of a slot further down is seen too.
        let acquire = Ordering::Acquire;
        let mut head = self.free.load(acquire);
        loop {
            let (index, tag) = unpack(head);
            if index == NIL {
                return None;
            }
            let slot = self.segments.get(index)?;
            // Relaxed: if the slot went elsewhere meanwhile the tag has changed and the exchange fails.
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
        // Relaxed: a ticket; the segment's own Release and Acquire order its entries.
        let (won, lost) = (Ordering::Relaxed, Ordering::Relaxed);
        let index = self
            .made
            .fetch_update(won, lost, more)
            .map_err(|_| exhausted)?;
        let slot = self.segments.ensure(index).ok_or(exhausted)?;
        Ok((index, slot))
    }

    /// The slot of an index that was given out once.
    #[inline]
    pub fn slot(&self, index: u32) -> Option<&Slot<P>> {
        self.segments.get(index)
    }

    /// Pushes a slot whose count has reached zero. True: the list was empty.
    #[inline]
    pub(super) fn push_dropped(&self, index: u32, slot: &Slot<P>, stamp: u64) -> bool {
        // SAFETY: the count is zero and the slot not yet pushed, so it is this thread's alone.
        slot.stamp.with_mut(|place| unsafe { *place = stamp });
        // Release: pairs with `take_dropped`. Relaxed otherwise: nothing behind the head is read.
        let (won, lost) = (Ordering::Release, Ordering::Relaxed);
        let mut head = self.dropped.load(Ordering::Relaxed);
        loop {
            let last = (head & INDEX_MASK) as u32;
            // Relaxed: published by the exchange.
            slot.next.store(last, Ordering::Relaxed);
            // The count above wraps: only differences of it are used.
            let next = (head >> INDEX_BITS).wrapping_add(1) << INDEX_BITS | u64::from(index);
            match self.dropped.compare_exchange_weak(head, next, won, lost) {
                Ok(_) => return last == NIL,
                Err(now) => head = now,
            }
        }
    }

    /// Whether slots wait to be taken by [`Self::take_dropped`].
    #[inline]
    pub fn has_dropped(&self) -> bool {
        // Relaxed: a hint; the taking acquires.
        self.dropped.load(Ordering::Relaxed) & INDEX_MASK != INDEX_MASK
    }

    /// Gives `f` every dropped slot and its stamp, the oldest first; returns how many. `f` may recycle
    /// them. For the device thread only.
    pub fn take_dropped(&self, mut f: impl FnMut(u32, u64)) -> usize {
        if !self.has_dropped() {
            return 0;
        }
        // Acquire: pairs with every push, through the release sequence of exchanges.
        // It makes the list empty, and keeps the count.
        let taken = self.dropped.fetch_or(INDEX_MASK, Ordering::Acquire);
        let mut at = (taken & INDEX_MASK) as u32;
        // The list is youngest first: turn it round.
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

    /// Ends this life of a slot that [`Self::take_dropped`] gave: the next generation is free. The caller
    /// has reset the payload. For the device thread only.
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
        // Release: pairs with `pop_free`. Relaxed otherwise: nothing behind the head is read.
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
                Ok(_) if head & WAITED_FOR != 0 => return self.tell_returned(),
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Slots acquired up to a look at the free list's head, modulo 2^32: every acquisition was a pop (the tag) or a making.
    pub(super) fn acquired(&self, head: u64) -> u32 {
        // Relaxed: a figure.
        (unpack(head).1 as u32).wrapping_add(self.made.load(Ordering::Relaxed))
    }

    /// Slots ever dropped, modulo 2^32.
    pub(super) fn ever_dropped(&self) -> u32 {
        // Relaxed: a figure.
        (self.dropped.load(Ordering::Relaxed) >> INDEX_BITS) as u32
    }

    /// Are all slots made that there may be?
    pub(super) fn is_made_whole(&self) -> bool {
        // Relaxed: it only grows.
        self.made.load(Ordering::Relaxed) >= self.limit
    }

    /// Slots acquired and not yet recycled, as of lately.
    pub fn live(&self) -> u32 {
        // Relaxed: a figure.
        let acquired = self.acquired(self.free.load(Ordering::Relaxed));
        acquired.wrapping_sub(self.recycled.load(Ordering::Relaxed))
    }
}

impl<P, S> fmt::Debug for Slots<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl<P> fmt::Debug for Slot<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Slot");
        out.field("generation", &self.generation())
            .field("count", &self.count());
        out.finish_non_exhaustive()
    }
}

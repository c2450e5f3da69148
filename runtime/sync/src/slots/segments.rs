//! A table that grows without moving its entries: segments of doubling size, allocated on demand.
//!
//! Segment `k` holds `FIRST << k` entries. A segment is published once and freed with the table.

use crate::facade::atomic::{AtomicPtr, Ordering};
use crate::facade::{IN_MODEL, Mutex, lock};
use std::ptr;

/// Entries of the first segment; few in a model.
const FIRST_LOG2: u32 = if IN_MODEL { 1 } else { 6 };
/// Enough segments for every `u32`; in a model for some hundred entries, or for a few where loom
/// tracks each of them.
const SEGMENTS: usize = match IN_MODEL {
    true if cfg!(all(loom, feature = "loom")) => 3,
    true => 8,
    false => 27,
};

pub(super) struct Segments<E> {
    heads: [AtomicPtr<E>; SEGMENTS],
    growing: Mutex<()>,
    /// Owns the entries.
    _owned: std::marker::PhantomData<E>,
}

/// Returns the segment and the offset of an index.
#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    let shifted = (index >> FIRST_LOG2) + 1;
    let segment = shifted.ilog2();
    let start = ((1u64 << segment) - 1) << FIRST_LOG2;
    (segment as usize, (u64::from(index) - start) as usize)
}

fn segment_len(segment: usize) -> usize {
    1 << (segment as u32 + FIRST_LOG2)
}

impl<E: Default> Segments<E> {
    pub(super) fn new() -> Self {
        Self {
            heads: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            growing: Mutex::new(()),
            _owned: std::marker::PhantomData,
        }
    }

    /// Returns the entry, if its segment exists.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&E> {
        let (segment, offset) = place(index);
        // Acquire: pairs with `ensure`; the entries are initialized.
        let head = self.heads.get(segment)?.load(Ordering::Acquire);
        if head.is_null() {
            return None;
        }
        // SAFETY: a published segment has `segment_len` entries, lives as long as `self`, and is
        // only shared.
        Some(unsafe { &*head.add(offset) })
    }

    /// Returns the entry; allocates its segment if needed. `None` beyond the last segment.
    pub(super) fn ensure(&self, index: u32) -> Option<&E> {
        if let Some(entry) = self.get(index) {
            return Some(entry);
        }
        let (segment, _) = place(index);
        let slot = self.heads.get(segment)?;
        let growing = lock(&self.growing);
        // Relaxed: written under the lock that is held.
        if slot.load(Ordering::Relaxed).is_null() {
            let entries: Box<[E]> = (0..segment_len(segment)).map(|_| E::default()).collect();
            // Release: pairs with `get`.
            slot.store(Box::into_raw(entries).cast::<E>(), Ordering::Release);
        }
        drop(growing);
        self.get(index)
    }
}

impl<E> Drop for Segments<E> {
    fn drop(&mut self) {
        for (segment, head) in self.heads.iter().enumerate() {
            // Acquire: another thread may have allocated it.
            let head = head.load(Ordering::Acquire);
            if !head.is_null() {
                let entries = ptr::slice_from_raw_parts_mut(head, segment_len(segment));
                // SAFETY: made by `Box::into_raw` in `ensure` with this length, and freed here only.
                drop(unsafe { Box::from_raw(entries) });
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_segments_double() {
        let mut expected = (0, 0);
        for index in 0..5_000 {
            assert_eq!(place(index), expected);
            expected.1 += 1;
            if expected.1 == segment_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX).0 < SEGMENTS);
    }

    #[test]
    fn entries_do_not_move() {
        let segments = Segments::<u64>::new();
        assert!(segments.get(0).is_none());
        let first: *const u64 = segments.ensure(0).unwrap();
        segments.ensure(10_000).unwrap();
        assert!(ptr::eq(segments.get(0).unwrap(), first));
    }
}

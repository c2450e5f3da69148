//! Failed byte ranges of a slice, in the order in which they failed (I7).
//!
//! The ranges are exact up to [`RANGES_MAX`](crate::ranges::RANGES_MAX) of them in a slice.
//!
//! `dirty` is written under the lock, together with the list that it speaks of. A reader that is ordered
//! after the marker, by a timeline or a lock, sees the mark; concurrent use on disjoint ranges is sound.
//! A clean cell is two words and one load.

use crate::facade::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::facade::{Mutex, MutexGuard, lock};
use crate::ranges::Ranges;
use std::fmt;
use std::ops::Range;
use std::ptr;

/// Failed byte ranges of a slice and why they failed.
pub struct PoisonCell<E> {
    /// Whether there is any mark.
    dirty: AtomicBool,
    /// Null until the first mark; then a box that stays until the cell goes.
    marks: AtomicPtr<Mutex<Ranges<E>>>,
    _owned: std::marker::PhantomData<E>,
}

// SAFETY: the marks are reached under their lock only, and move between threads.
unsafe impl<E: Send> Send for PoisonCell<E> {}
// SAFETY: as above; a found `E` is a clone made under the lock.
unsafe impl<E: Send> Sync for PoisonCell<E> {}

impl<E> PoisonCell<E> {
    /// A clean cell. It allocates at its first mark.
    pub fn new() -> Self {
        Self {
            dirty: AtomicBool::new(false),
            marks: AtomicPtr::new(ptr::null_mut()),
            _owned: std::marker::PhantomData,
        }
    }

    /// Whether nothing is marked.
    #[inline]
    pub fn is_clean(&self) -> bool {
        // Acquire: whoever is not ordered after the marker otherwise is so by this.
        !self.dirty.load(Ordering::Acquire)
    }

    fn marks(&self) -> Option<&Mutex<Ranges<E>>> {
        // Acquire: pairs with `marks_or_new`.
        let marks = self.marks.load(Ordering::Acquire);
        // SAFETY: null, or a box that was published once and lives as long as the cell.
        unsafe { marks.as_ref() }
    }

    fn marks_or_new(&self) -> &Mutex<Ranges<E>> {
        if let Some(marks) = self.marks() {
            return marks;
        }
        let new = Box::into_raw(Box::new(Mutex::new(Ranges::default())));
        // AcqRel: Release publishes the box. Acquire on failure: somebody else's is used.
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        match self.marks.compare_exchange(ptr::null_mut(), new, won, lost) {
            // SAFETY: just published; it lives as long as the cell.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: made above and never published.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: not null, and published by somebody else; it lives as long as the cell.
                unsafe { &*theirs }
            }
        }
    }

    /// Writes the flag that goes with the list, then gives the lock back.
    fn settle(&self, marks: MutexGuard<'_, Ranges<E>>) {
        let dirty = !marks.is_empty();
        // Release: pairs with `is_clean`.
        self.dirty.store(dirty, Ordering::Release);
    }

    /// Forgets every mark.
    pub fn reset(&self) {
        if self.is_clean() {
            return;
        }
        if let Some(marks) = self.marks() {
            let mut marks = lock(marks);
            let old = std::mem::take(&mut *marks);
            self.settle(marks);
            drop(old);
        }
    }
}

impl<E: Clone> PoisonCell<E> {
    /// Marks the range as failed; what was marked there before is replaced. An empty range marks nothing.
    pub fn mark(&self, range: Range<u64>, why: E) {
        if range.is_empty() {
            return;
        }
        let mut marks = lock(self.marks_or_new());
        marks.set(range, why);
        self.settle(marks);
    }

    /// Heals the range: something defined every byte of it.
    #[inline]
    pub fn clear(&self, range: Range<u64>) {
        if !self.is_clean() {
            self.clear_slow(&range);
        }
    }

    #[cold]
    fn clear_slow(&self, range: &Range<u64>) {
        if let Some(marks) = self.marks() {
            let mut marks = lock(marks);
            marks.clear(range);
            self.settle(marks);
        }
    }

    /// Why some byte of the range failed: of several reasons the oldest.
    #[inline]
    pub fn find(&self, range: Range<u64>) -> Option<E> {
        if self.is_clean() {
            None
        } else {
            self.find_slow(&range)
        }
    }

    #[cold]
    fn find_slow(&self, range: &Range<u64>) -> Option<E> {
        lock(self.marks()?).find(range).cloned()
    }
}

impl<E> Drop for PoisonCell<E> {
    fn drop(&mut self) {
        // Acquire: another thread may have published it.
        let marks = self.marks.load(Ordering::Acquire);
        if !marks.is_null() {
            // SAFETY: made by `Box::into_raw` in `marks_or_new`, and freed here only.
            drop(unsafe { Box::from_raw(marks) });
        }
    }
}

impl<E> Default for PoisonCell<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> fmt::Debug for PoisonCell<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("PoisonCell");
        out.field("clean", &self.is_clean()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "poison_tests.rs"]
mod tests;

//! Poisoned byte ranges of a slice, each with its reason, in the order in which they were marked
//! (I7). A clean cell is two words, and reading it is one load.
//!
//! # State
//! `marks` is null until the first mark, then a box that lives as long as the cell; the first
//! marker publishes it by a CAS. `dirty` is `true` exactly if the list has a range. It is written
//! under the list's lock, together with the list: a thread that cleans one range and a thread that
//! marks another leave the flag of the last one that held the lock.
//!
//! ```text
//!   queue, task fails                           reader of the data
//!   lock the list, set the range
//!   dirty = true             (Release)
//!   unlock
//!   publish the cursor                          wait for the cursor
//!                                               dirty?                   (Acquire)
//!                                                 false: clean
//!                                                 true:  lock the list, find the range
//! ```
//! A reader that a timeline or a lock orders after the mark sees it. The Release of `dirty` pairs
//! with the Acquire in `is_clean` for a reader that is not ordered otherwise. Threads may use
//! disjoint ranges at the same time.
//!
//! The ranges are exact up to [`RANGES_MAX`](crate::ranges::RANGES_MAX) of them in a slice. Checked
//! by the models in `loom-tests/tests/models/poison.rs`.

use crate::facade::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::facade::{Mutex, MutexGuard, lock};
use crate::ranges::Ranges;
use std::fmt;
use std::ops::Range;
use std::ptr;

/// The poisoned byte ranges of a slice and their reasons.
pub struct PoisonCell<E> {
    /// Whether any range is marked.
    dirty: AtomicBool,
    /// Null until the first mark; then a box that lives as long as the cell.
    marks: AtomicPtr<Mutex<Ranges<E>>>,
    _owned: std::marker::PhantomData<E>,
}

// SAFETY: the marks are accessed under their lock only, and move between threads.
unsafe impl<E: Send> Send for PoisonCell<E> {}
// SAFETY: as above; `find` returns a clone made under the lock.
unsafe impl<E: Send> Sync for PoisonCell<E> {}

impl<E> PoisonCell<E> {
    /// Creates a clean cell. It allocates at its first mark.
    pub fn new() -> Self {
        Self {
            dirty: AtomicBool::new(false),
            marks: AtomicPtr::new(ptr::null_mut()),
            _owned: std::marker::PhantomData,
        }
    }

    /// Returns `true` if no range is marked.
    #[inline]
    pub fn is_clean(&self) -> bool {
        // Acquire: pairs with `settle`, for a thread that is not ordered after the mark otherwise.
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
        // AcqRel: Release publishes the box. Acquire on failure: another thread's box is used.
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        match self.marks.compare_exchange(ptr::null_mut(), new, won, lost) {
            // SAFETY: just published; it lives as long as the cell.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: made above and never published.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: not null, and published by another thread; it lives as long as the cell.
                unsafe { &*theirs }
            }
        }
    }

    /// Writes the flag that matches the list, then unlocks it.
    fn settle(&self, marks: MutexGuard<'_, Ranges<E>>) {
        let dirty = !marks.is_empty();
        // Release: pairs with `is_clean`.
        self.dirty.store(dirty, Ordering::Release);
    }

    /// Removes all marks.
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
    /// Marks the range as poisoned, replacing earlier marks of its bytes. An empty range marks nothing.
    pub fn mark(&self, range: Range<u64>, why: E) {
        if range.is_empty() {
            return;
        }
        let mut marks = lock(self.marks_or_new());
        marks.set(range, why);
        self.settle(marks);
    }

    /// Makes the range clean: every byte of it has been overwritten.
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

    /// Returns the oldest reason for which a byte of the range is poisoned.
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

//! Poisoned byte ranges of a slice, each with its reason, in the order in which they were marked
//! (I7). A clean cell is three words, and reading it is one load.
//!
//! # State
//! `marks` has no list until the first mark. `dirty` is `true` exactly if the list has a range. It is
//! written under the list's lock, together with the list: a thread that cleans one range and a
//! thread that marks another leave the flag of the last one that held the lock.
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

use crate::facade::atomic::{AtomicBool, Ordering};
use crate::facade::{Mutex, MutexGuard, lock};
use crate::ranges::Ranges;
use std::ops::Range;

/// The poisoned byte ranges of a slice and their reasons.
pub struct PoisonCell<E> {
    /// Whether any range is marked.
    dirty: AtomicBool,
    marks: Mutex<Marks<E>>,
}

/// Boxed, since most cells are never marked.
type Marks<E> = Option<Box<Ranges<E>>>;

impl<E> PoisonCell<E> {
    /// Creates a clean cell. It allocates at its first mark.
    pub fn new() -> Self {
        Self {
            dirty: AtomicBool::new(false),
            marks: Mutex::new(None),
        }
    }

    /// Returns `true` if no range is marked.
    #[inline]
    pub fn is_clean(&self) -> bool {
        // Acquire: pairs with `settle`, for a thread that is not ordered after the mark otherwise.
        !self.dirty.load(Ordering::Acquire)
    }

    /// Writes the flag that matches the list, then unlocks it.
    fn settle(&self, marks: MutexGuard<'_, Marks<E>>) {
        let dirty = marks.as_ref().is_some_and(|marks| !marks.is_empty());
        // Release: pairs with `is_clean`.
        self.dirty.store(dirty, Ordering::Release);
    }

    /// Removes all marks.
    pub fn reset(&self) {
        if self.is_clean() {
            return;
        }
        let mut marks = lock(&self.marks);
        let old = marks.take();
        self.settle(marks);
        drop(old);
    }
}

impl<E: Clone> PoisonCell<E> {
    /// Marks the range as poisoned, replacing earlier marks of its bytes. An empty range marks nothing.
    pub fn mark(&self, range: Range<u64>, why: E) {
        if range.is_empty() {
            return;
        }
        let mut marks = lock(&self.marks);
        marks.get_or_insert_default().set(range, why);
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
        let mut marks = lock(&self.marks);
        if let Some(marks) = &mut *marks {
            marks.clear(range);
        }
        self.settle(marks);
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
        lock(&self.marks).as_ref()?.find(range).cloned()
    }
}

impl<E> Default for PoisonCell<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "poison_tests.rs"]
mod tests;

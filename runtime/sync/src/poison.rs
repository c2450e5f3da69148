//! Poisoned byte ranges of a slice, each with its reason, in the order in which they were marked
//! (I7). A cell without marks is one word, and reading it is one load.
//!
//! # State
//! A cell has no list until the first mark, and keeps it from then on. `dirty` is `true` exactly if the list
//! has a range. It is written under the list's lock, together with the list: a thread that cleans one range and
//! a thread that marks another leave the flag of the last one that held the lock.
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
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

/// The poisoned byte ranges of a slice and their reasons.
pub struct PoisonCell<E> {
    /// Null until the first mark. Set once, and freed with the cell.
    list: AtomicPtr<List<E>>,
    owns: PhantomData<Box<List<E>>>,
}

struct List<E> {
    /// Whether any range is marked.
    dirty: AtomicBool,
    ranges: Mutex<Ranges<E>>,
}

impl<E> List<E> {
    fn is_clean(&self) -> bool {
        // Acquire: pairs with `settle`, for a thread that is not ordered after the mark otherwise.
        !self.dirty.load(Ordering::Acquire)
    }

    /// Changes the ranges, then writes the flag that matches them before it unlocks them.
    fn change<R>(&self, change: impl FnOnce(&mut Ranges<E>) -> R) -> R {
        let mut ranges = lock(&self.ranges);
        let changed = change(&mut ranges);
        self.settle(ranges);
        changed
    }

    fn settle(&self, ranges: MutexGuard<'_, Ranges<E>>) {
        // Release: pairs with `is_clean`.
        self.dirty.store(!ranges.is_empty(), Ordering::Release);
    }
}

impl<E> PoisonCell<E> {
    /// Creates a clean cell. It allocates at its first mark.
    pub fn new() -> Self {
        Self {
            list: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// Returns `true` if no range is marked.
    #[inline]
    pub fn is_clean(&self) -> bool {
        self.dirty_list().is_none()
    }

    /// Returns the list, if a range is marked.
    #[inline]
    fn dirty_list(&self) -> Option<&List<E>> {
        // Acquire: pairs with the Release in `list`.
        let list = self.list.load(Ordering::Acquire);
        // SAFETY: the list is freed only with the cell, which is borrowed.
        unsafe { list.as_ref() }.filter(|list| !list.is_clean())
    }

    /// Returns the list; creates it, if there was no mark before.
    fn list(&self) -> &List<E> {
        // Acquire: pairs with the Release below.
        let mut list = self.list.load(Ordering::Acquire);
        if list.is_null() {
            let new = Box::into_raw(Box::new(List {
                dirty: AtomicBool::new(false),
                ranges: Mutex::default(),
            }));
            // Release: a thread that loads the pointer sees the list. Acquire: that of another thread.
            let (won, lost) = (Ordering::Release, Ordering::Acquire);
            list = match self.list.compare_exchange(list, new, won, lost) {
                Ok(_) => new,
                Err(first) => {
                    // SAFETY: the new list was not published.
                    drop(unsafe { Box::from_raw(new) });
                    first
                }
            };
        }
        // SAFETY: it is not null, and is freed only with the cell, which is borrowed.
        unsafe { &*list }
    }

    /// Removes all marks.
    pub fn reset(&self) {
        if let Some(list) = self.dirty_list() {
            // The reasons are dropped after the lock is released.
            drop(list.change(std::mem::take));
        }
    }
}

impl<E> Drop for PoisonCell<E> {
    fn drop(&mut self) {
        // Relaxed: the cell is borrowed exclusively.
        let list = self.list.load(Ordering::Relaxed);
        if !list.is_null() {
            // SAFETY: `list` made it from a box, and this is its only drop.
            drop(unsafe { Box::from_raw(list) });
        }
    }
}

impl<E: Clone> PoisonCell<E> {
    /// Marks the range as poisoned, replacing earlier marks of its bytes. An empty range marks nothing.
    pub fn mark(&self, range: Range<u64>, why: E) {
        if !range.is_empty() {
            self.list().change(|ranges| ranges.set(range, why));
        }
    }

    /// Makes the range clean: every byte of it has been overwritten.
    #[inline]
    pub fn clear(&self, range: Range<u64>) {
        if let Some(list) = self.dirty_list() {
            list.change(|ranges| ranges.clear(&range));
        }
    }

    /// Returns the oldest reason for which a byte of the range is poisoned.
    #[inline]
    pub fn find(&self, range: Range<u64>) -> Option<E> {
        let list = self.dirty_list()?;
        lock(&list.ranges).find(&range).cloned()
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

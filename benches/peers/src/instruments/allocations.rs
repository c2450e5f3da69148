//! Counts heap allocations and live bytes of the process, at a cost that is low enough to count while
//! times are measured.
//!
//! Each thread counts in its own cell, which only that thread writes: a relaxed load and store, without
//! a locked instruction. Threads beyond the table share its last cell and use locked instructions. The
//! thread that frees counts the free, so only sums over all cells are meaningful.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of cells: more than a sample has threads, without the shared last one.
const CELLS: usize = 64;
const SHARED: usize = CELLS - 1;
const UNASSIGNED: usize = usize::MAX;

/// The counts of a thread. Two cache lines, so that neighbours share none, even with the adjacent-line prefetcher.
#[repr(align(128))]
struct Counts {
    allocations: AtomicU64,
    bytes: AtomicI64,
}

static TABLE: [Counts; CELLS] = [const {
    Counts {
        allocations: AtomicU64::new(0),
        bytes: AtomicI64::new(0),
    }
}; CELLS];
static ASSIGNED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CELL: Cell<usize> = const { Cell::new(UNASSIGNED) };
}

/// The system's allocator, with counts.
pub(crate) struct Counting;

// Relaxed throughout: counts order nothing. A caller that needs exact sums has joined the threads, or has
// synchronized with them.
fn count(allocations: u64, bytes: i64) {
    let mut index = CELL.get();
    if index == UNASSIGNED {
        index = ASSIGNED.fetch_add(1, Relaxed).min(SHARED);
        CELL.set(index);
    }
    let counts = &TABLE[index];
    if index == SHARED {
        counts.allocations.fetch_add(allocations, Relaxed);
        counts.bytes.fetch_add(bytes, Relaxed);
    } else {
        counts
            .allocations
            .store(counts.allocations.load(Relaxed) + allocations, Relaxed);
        counts
            .bytes
            .store(counts.bytes.load(Relaxed) + bytes, Relaxed);
    }
}

// SAFETY: every call is passed to `System` unchanged. Counting does not allocate, because the
// thread-local is constant-initialized and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, new_size as i64 - layout.size() as i64);
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Returns the number of allocations of all threads so far, including reallocations.
pub(crate) fn allocations() -> u64 {
    TABLE
        .iter()
        .map(|counts| counts.allocations.load(Relaxed))
        .sum()
}

/// Returns the number of bytes that are allocated now.
pub(crate) fn live_bytes() -> i64 {
    TABLE.iter().map(|counts| counts.bytes.load(Relaxed)).sum()
}

//! Counts heap allocations and live bytes of the whole process, cheaply enough to stay on while
//! times are taken.
//!
//! Each thread counts in a cell of its own, which only it writes: a relaxed load and store, no
//! locked instruction. Threads beyond the table share its last cell and pay for one. A free is
//! counted by the thread that frees, so only sums over all cells mean anything.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Cells of the table: more threads than a sample starts, the shared last one aside.
const CELLS: usize = 64;
const SHARED: usize = CELLS - 1;
const UNASSIGNED: usize = usize::MAX;

/// Two cache lines, so that neighbours do not share one even with the adjacent-line prefetcher.
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

/// The system's allocator, counted.
pub(crate) struct Counting;

// Relaxed throughout: a count orders nothing; a reader that wants the sums exact has joined or
// synchronized with the threads that it counts.
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

// SAFETY: every call is handed to `System` unchanged; counting allocates nothing, since the
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

/// Allocations made so far by all threads, reallocations included.
pub(crate) fn allocations() -> u64 {
    TABLE
        .iter()
        .map(|counts| counts.allocations.load(Relaxed))
        .sum()
}

/// Bytes that are allocated now.
pub(crate) fn live_bytes() -> i64 {
    TABLE.iter().map(|counts| counts.bytes.load(Relaxed)).sum()
}

//! Counts the heap allocations and the live bytes of a test program, on all its threads.
//!
//! The program sets the allocator and is alone in its binary, since the counts are those of the whole process. Libraries
//! with an allocator of their own, such as a driver, are not counted.
//!
//! ```
//! use millstream_heap_count::{Counting, allocations, live_bytes};
//!
//! #[global_allocator]
//! static COUNTING: Counting = Counting;
//!
//! let (before, live) = (allocations(), live_bytes());
//! let kept = std::hint::black_box(vec![0_u8; 100]);
//! assert!(allocations() > before && live_bytes() >= live + 100);
//! # drop(kept);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The system's allocator, with counts.
#[derive(Debug)]
pub struct Counting;

// All orderings are relaxed: the counts are statistics, and order nothing.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);

/// Stops counting, for a program that measures times instead: several threads that count slow each other down.
pub fn stop() {
    IS_STOPPED.store(true, Ordering::Relaxed);
}

fn allocated(bytes: usize) {
    if IS_STOPPED.load(Ordering::Relaxed) {
        return;
    }
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    let live = LIVE_BYTES.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
    PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    if IS_STOPPED.load(Ordering::Relaxed) {
        return;
    }
    FREES.fetch_add(1, Ordering::Relaxed);
    LIVE_BYTES.fetch_sub(bytes as i64, Ordering::Relaxed);
}

// SAFETY: forwards every call to the system's allocator; counting accesses no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while the bytes are copied, so the peak includes both.
        allocated(size);
        freed(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Returns the number of allocations so far. A reallocation is an allocation and a free.
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Returns the number of frees so far.
pub fn frees() -> u64 {
    FREES.load(Ordering::Relaxed)
}

/// Returns the number of bytes that are allocated now.
pub fn live_bytes() -> i64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Runs `work`, and returns by how many bytes the live bytes grew at most meanwhile.
pub fn growth_bytes(work: impl FnOnce()) -> i64 {
    let before = live_bytes();
    PEAK_BYTES.store(before, Ordering::Relaxed);
    work();
    PEAK_BYTES.load(Ordering::Relaxed) - before
}

/// Returns the number of allocations of one run of `work` in the steady state. `sync` waits for what `work` has submitted;
/// its own allocations are measured alone and subtracted.
pub fn steady_allocations(sync: impl Fn(), work: impl Fn()) -> u64 {
    const WARM_UPS: usize = 30;
    const RUNS: usize = 15;
    for _ in 0..WARM_UPS {
        work();
        sync();
    }
    let count = |work: &dyn Fn()| {
        let before = allocations();
        work();
        sync();
        allocations() - before
    };
    // The minimum excludes other threads of the process, such as the test harness, which wake at any time.
    let fewest = |work: &dyn Fn()| (0..RUNS).map(|_| count(work)).min().unwrap_or(0);
    let of_sync = fewest(&|| {});
    fewest(&work).saturating_sub(of_sync)
}

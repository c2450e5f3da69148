//! I9: in the steady state launches allocate no host memory, on any thread of the runtime; copies and syncs allocate a
//! bounded amount.
//!
//! A test binary of its own, because it counts every allocation of the process. The driver is a library with its own
//! allocator, which is not counted. Without a driver the test is skipped, and says so.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::vulkan::Vulkan;
use millstream::{CubeCount, Device, read, update};
use millstream_vulkan_faults::kernels::{add_one, large, mix};
use millstream_vulkan_faults::program::large_args;
use millstream_vulkan_faults::unavailable;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards every call to the system allocator; counting accesses no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations of a run of `work`, after a warm-up.
fn steady_allocations(device: &Device, work: impl Fn()) -> u64 {
    let client = device.new_client();
    for _ in 0..30 {
        work();
        client.sync().wait().unwrap();
    }
    // A sync allocates its answer, which is measured separately and subtracted.
    let count = |work: &dyn Fn()| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        work();
        client.sync().wait().unwrap();
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    // The minimum excludes allocations of unrelated threads, such as those of the test harness.
    let min = |work: &dyn Fn()| (0..15).map(|_| count(work)).min().unwrap_or(0);
    let of_sync = min(&|| {});
    min(&work).saturating_sub(of_sync)
}

/// One test, because others would allocate meanwhile.
#[test]
fn launches_allocate_nothing_i9() {
    if unavailable().is_none() {
        [1, 2].into_iter().for_each(check);
    }
}

fn check(queues: usize) {
    let device = Device::open(Vulkan::ordinal(0).queues(queues)).unwrap();
    let client = device.new_client();
    let [add_one, mix, large] =
        [add_one(), mix(), large()].map(|kernel| client.kernel(kernel).unwrap());
    let (stream, other) = (client.new_stream(), client.new_stream());
    let [a, b] = [(); 2].map(|()| stream.create(&[1_u32; 64]).unwrap());
    let total = stream.create(&[0_u64]).unwrap();
    let one = CubeCount::single;
    let pushed = steady_allocations(&device, || {
        for _ in 0..40 {
            stream
                .launch(&add_one, one(), (update(&a), 64_u32))
                .unwrap();
        }
    });
    assert_eq!(pushed, 0, "launches allocate");
    let hazards = steady_allocations(&device, || {
        for _ in 0..20 {
            stream
                .launch(&add_one, one(), (update(&a), 64_u32))
                .unwrap();
            let arguments = (read(&a), update(&b), 64_u32);
            other.launch(&mix, one(), arguments).unwrap();
        }
    });
    assert_eq!(hazards, 0, "hazards between streams allocate");
    // A launch larger than a message allocates in the client; a replay of it does not, and takes the backend's same way.
    let recording = stream.record(|recorder| {
        (0..4).try_for_each(|_| recorder.launch(&large, one(), large_args(&a, &total)))
    });
    let recording = recording.unwrap();
    let spilled = steady_allocations(&device, || {
        (0..10).for_each(|_| recording.replay(&stream).unwrap());
    });
    assert_eq!(spilled, 0, "launches with spilled parameters allocate");
    let fills = steady_allocations(&device, || {
        (0..20).for_each(|_| stream.fill(&b, 3_u32).unwrap());
    });
    assert_eq!(fills, 0, "fills allocate");
    let copies = steady_allocations(&device, || {
        (0..20).for_each(|_| stream.copy(&a, &b).unwrap());
    });
    assert_eq!(copies, 0, "copies within the device allocate");
    // The client's copy of the data, the list of staging ranges, and the lists of a batch.
    let writes = steady_allocations(&device, || {
        (0..20).for_each(|_| stream.write(&a, &[2; 64]).unwrap());
    });
    assert!(writes <= 5 * 20, "{writes} allocations in 20 writes");
    // The result, its landing and its answer as well.
    let reads = steady_allocations(&device, || {
        (0..20).for_each(|_| drop(stream.read(&a).wait().unwrap()));
    });
    assert!(reads <= 8 * 20, "{reads} allocations in 20 reads");
    let syncs = steady_allocations(&device, || {
        (0..20).for_each(|_| stream.sync().wait().unwrap());
    });
    assert!(syncs <= 20, "{syncs} allocations in 20 syncs");
}

//! I9: in the steady state launches allocate no host memory, on any thread of the runtime; copies and syncs allocate a
//! bounded amount.
//!
//! A test binary of its own, because it counts every allocation of the process. The driver is a library with its own
//! allocator, which is not counted. Without a driver the test is skipped, and says so.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

use std::cell::Cell;

use millstream::vulkan::Vulkan;
use millstream::{CubeCount, Device, Recorder, Stream, read, update};
use millstream_heap_count::{Counting, steady_allocations};
use millstream_vulkan_faults::kernels::{add_one, large, mix};
use millstream_vulkan_faults::program::large_args;
use millstream_vulkan_faults::unavailable;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations of a run of `work` on these streams, after a warm-up.
fn steady<const N: usize>(streams: [&Stream; N], work: impl Fn()) -> u64 {
    let sync = || {
        for stream in streams {
            stream.sync().wait().unwrap();
        }
    };
    steady_allocations(sync, work)
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
    let pushed = steady([&stream, &other], || {
        for _ in 0..40 {
            stream
                .launch(&add_one, one(), (update(&a), 64_u32))
                .unwrap();
        }
    });
    assert_eq!(pushed, 0, "launches allocate");
    let hazards = steady([&stream, &other], || {
        for _ in 0..20 {
            stream
                .launch(&add_one, one(), (update(&a), 64_u32))
                .unwrap();
            let arguments = (read(&a), update(&b), 64_u32);
            other.launch(&mix, one(), arguments).unwrap();
        }
    });
    assert_eq!(hazards, 0, "hazards between streams allocate");
    // A launch larger than a message allocates in the client; a replay of it does not. With so few tasks it takes the
    // same way as a launch in the backend.
    let record = |launches: usize| {
        let record = |recorder: &mut Recorder<'_>| {
            (0..launches).try_for_each(|_| recorder.launch(&large, one(), large_args(&a, &total)))
        };
        stream.record(record).unwrap()
    };
    let few = record(3);
    let spilled = steady([&stream, &other], || {
        (0..10).for_each(|_| few.replay(&stream).unwrap());
    });
    assert_eq!(spilled, 0, "launches with spilled parameters allocate");
    let many = record(20);
    let replays = steady([&stream, &other], || {
        (0..10).for_each(|_| many.replay(&stream).unwrap());
    });
    assert_eq!(replays, 0, "replays with known arguments allocate");
    let mut recorder = stream.recorder();
    let n = recorder.scalar::<u32>();
    for _ in 0..20 {
        recorder.launch(&add_one, one(), (update(&a), &n)).unwrap();
    }
    let changing = recorder.finish().unwrap();
    // Each value twice: the second replay with it may record a secondary command buffer, but soon none does.
    let word = Cell::new(0_u32);
    let changed = steady([&stream, &other], || {
        for _ in 0..20 {
            let value = word.replace(word.get() + 1) / 2 % 32;
            changing.set(&n, value).replay(&stream).unwrap();
        }
    });
    assert_eq!(changed, 0, "replays with other arguments allocate");
    let fills = steady([&stream, &other], || {
        (0..20).for_each(|_| stream.fill(&b, 3_u32).unwrap());
    });
    assert_eq!(fills, 0, "fills allocate");
    let copies = steady([&stream, &other], || {
        (0..20).for_each(|_| stream.copy(&a, &b).unwrap());
    });
    assert_eq!(copies, 0, "copies within the device allocate");
    // The client's copy of the data, the list of staging ranges, and the lists of a batch.
    let writes = steady([&stream, &other], || {
        (0..20).for_each(|_| stream.write(&a, &[2; 64]).unwrap());
    });
    assert!(writes <= 5 * 20, "{writes} allocations in 20 writes");
    // The result, its landing and its answer as well.
    let reads = steady([&stream, &other], || {
        (0..20).for_each(|_| drop(stream.read(&a).wait().unwrap()));
    });
    assert!(reads <= 8 * 20, "{reads} allocations in 20 reads");
    let syncs = steady([&stream, &other], || {
        (0..20).for_each(|_| stream.sync().wait().unwrap());
    });
    assert!(syncs <= 20, "{syncs} allocations in 20 syncs");
}

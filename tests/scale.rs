//! I10, I12: clients and streams that come and go in great numbers leave nothing behind: in the device, in its
//! memory, and on the heap of the process.
//!
//! A binary of its own, because it counts the live bytes of the process. `millstream soak --scale` does the same
//! with ten times as many, and more of it.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use millstream::{
    ComputeClient, Cpu, CubeCount, Device, DeviceOptions, Handle, Kernel, KernelHandle, Stream,
    update,
};

struct Counting;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is the system allocator's; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a figure.
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Relaxed: a figure.
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Relaxed: a figure.
        LIVE_BYTES.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// At once, in one wave.
const CLIENTS: usize = 1_000;
const STREAMS_EACH: usize = 10;
/// Waves before device memory stays the same.
const WARM_UP: usize = 2;
/// Waves in a row over which the heap must not grow, and how many there may be until then: tables and lists reach the most that they
/// hold, each in a wave that timing chooses.
const WAVES: usize = 4;
const WAVES_MAX: usize = 16;
/// What the heap may gain over [`WAVES`] waves. A word kept of each stream would be 320,000; queues that double once more, because the
/// machine is busy, have been 137,952.
const GROWTH_MAX_BYTES: i64 = 256 << 10;

fn add_one() -> Kernel {
    Kernel::new("add_one")
        .updates::<u32>("values")
        .native(|_, args| args.chunk::<u32>(0)[0] += 1)
}

/// Opens clients and streams, lets each stream work on its client's buffer, and drops all.
fn wave(device: &Device, add_one: &KernelHandle) {
    let clients: Vec<(ComputeClient, Vec<Stream>)> = (0..CLIENTS)
        .map(|_| {
            let client = device.new_client();
            let streams = (0..STREAMS_EACH).map(|_| client.new_stream()).collect();
            (client, streams)
        })
        .collect();
    let buffers: Vec<Handle<u32>> = clients
        .iter()
        .map(|(_, streams)| {
            let buffer = streams[0].create(&[7_u32]).unwrap();
            for stream in streams {
                stream
                    .launch(add_one, CubeCount::single(), (update(&buffer),))
                    .unwrap();
            }
            buffer
        })
        .collect();
    let live = (CLIENTS * STREAMS_EACH) as u64;
    assert_eq!(device.stats().unwrap().streams, live);
    for ((_, streams), buffer) in clients.iter().zip(&buffers) {
        let got = streams[0].read(buffer).wait().unwrap();
        assert_eq!(got, [7 + STREAMS_EACH as u32]);
    }
}

fn what_is_left(device: &Device) -> (u64, u64, u64, u64, usize) {
    device.sync().wait().unwrap();
    let (stats, memory) = (device.stats().unwrap(), device.memory_usage().unwrap());
    (
        stats.streams,
        stats.tasks_held,
        memory.device.live_slices,
        memory.device.waiting,
        memory.clients.len(),
    )
}

fn waves_leave_nothing(device: &Device) {
    let add_one = device.new_client().kernel(add_one()).unwrap();
    let (mut reserved, mut live) = (0, Vec::new());
    for number in 0..WAVES_MAX {
        wave(device, &add_one);
        assert_eq!(what_is_left(device), (0, 0, 0, 0, 0), "wave {number}");
        let now = device.memory_usage().unwrap().device.reserved;
        let before = std::mem::replace(&mut reserved, now);
        assert!(
            number < WARM_UP || reserved == before,
            "device memory grew, wave {number}"
        );
        // Relaxed: a figure; the sync came after all that was dropped.
        live.push(LIVE_BYTES.load(Ordering::Relaxed));
        if number >= WAVES && live[number] - live[number - WAVES] <= GROWTH_MAX_BYTES {
            return;
        }
    }
    panic!("the heap grows with every wave: {live:?} bytes");
}

/// One test, for the heap is everybody's.
#[test]
fn clients_and_streams_that_come_and_go_leave_nothing_behind_i10() {
    waves_leave_nothing(&Device::open(Cpu::default().queues(2).threads(2)).unwrap());
    let cpu = Cpu::default().queues(2);
    let (device, _driver) = Device::open_driven(cpu, DeviceOptions::default()).unwrap();
    waves_leave_nothing(&device);
}

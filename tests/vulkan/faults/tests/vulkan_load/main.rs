//! The Vulkan backend under load: many threads, streams and devices, full queues, and clients that are dropped while
//! their work is in flight. Khronos' validation layer checks all but the longest tests.
//!
//! A program of its own, because it measures the memory and the files of the process. Without a driver every test is
//! skipped, and says so.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod in_flight;
mod modules;

use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream::vulkan::Vulkan;
use millstream::{CubeCount, Device, DeviceOptions, update};
use millstream_vulkan_faults::kernels::add_one;
use millstream_vulkan_faults::program::{self, PATIENCE};
use millstream_vulkan_faults::{Checked, unavailable};
use rstest::rstest;

/// Waits for the turn of a test: one runs at a time, so that measures are of one test. `None` without a device.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match unavailable() {
        None => Some(turn),
        Some(_) => None,
    }
}

fn assert_valid(checked: &Checked) {
    let messages = checked.take();
    assert!(messages.is_empty(), "{}", messages.join("\n"));
}

/// I1: two devices of one process are independent, also while others are opened and closed.
#[test]
fn two_devices_work_at_the_same_time_i1() {
    let Some(_turn) = turn() else { return };
    let checked = Checked::default();
    let devices = [1, 3].map(|queues| Device::open(checked.options(queues)).unwrap());
    std::thread::scope(|scope| {
        for device in devices.iter().cycle().take(4) {
            scope.spawn(|| (0..4).for_each(|_| program::run(device).unwrap()));
        }
        for _ in 0..8 {
            let device = Device::open(checked.options(2)).unwrap();
            assert!(device.close(PATIENCE).drained);
        }
    });
    drop(devices);
    assert_valid(&checked);
}

/// Bytes of memory that the process uses, and its open files.
#[cfg(target_os = "linux")]
fn used() -> (u64, usize) {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (pages * PAGE_BYTES, files)
}

/// I10: a device that is opened and closed many times leaves neither memory nor files behind.
#[cfg(target_os = "linux")]
#[test]
fn device_opened_500_times_leaves_nothing_behind_i10() {
    const TIMES: usize = 500;
    const WARM_UP: usize = 100;
    /// The most bytes by which the process may grow for each device, on average. The driver's compiler keeps some.
    const BYTES_EACH_MAX: u64 = 24 << 10;
    let Some(_turn) = turn() else { return };
    let mut before = used();
    for nth in 0..TIMES {
        if nth == WARM_UP {
            before = used();
        }
        let device = Device::open(Vulkan::ordinal(0).queues(2)).unwrap();
        let client = device.new_client();
        let stream = client.new_stream();
        let values = stream.create(&[1_u32; 64]).unwrap();
        // Compiling is the driver's, and slow, so only some devices do it.
        if nth % 16 == 0 {
            let kernel = client.kernel(add_one()).unwrap();
            let arguments = (update(&values), 64_u32);
            stream
                .launch(&kernel, CubeCount::single(), arguments)
                .unwrap();
        }
        stream.fill(&values, 3).unwrap();
        assert_eq!(stream.read(&values).wait().unwrap(), [3; 64]);
        drop((values, stream, client));
        assert!(device.close(PATIENCE).drained);
    }
    let after = used();
    let grown = after.0.saturating_sub(before.0) / (TIMES - WARM_UP) as u64;
    println!("{grown} bytes for each device; {} files", after.1);
    assert!(after.1 <= before.1, "{} files became {}", before.1, after.1);
    assert!(grown <= BYTES_EACH_MAX, "{grown} bytes for each device");
}

/// I12: streams are not a resource of the driver: ten thousand work.
#[test]
fn ten_thousand_streams_are_ordered_by_their_hazards_i12() {
    const STREAMS: usize = 10_000;
    let Some(_turn) = turn() else { return };
    let device = Device::open(Vulkan::ordinal(0).queues(4)).unwrap();
    let client = device.new_client();
    let kernel = client.kernel(add_one()).unwrap();
    let streams: Vec<_> = (0..STREAMS).map(|_| client.new_stream()).collect();
    let values = streams[0].create(&[0_u32; 64]).unwrap();
    for stream in &streams {
        let arguments = (update(&values), 64_u32);
        stream
            .launch(&kernel, CubeCount::single(), arguments)
            .unwrap();
    }
    assert_eq!(
        streams[1].read(&values).wait().unwrap(),
        [STREAMS as u32; 64]
    );
    drop((values, kernel, streams, client));
    assert!(device.close(PATIENCE).drained);
}

/// I4, I10: everything may be dropped while work is in flight: handles, kernels, streams, clients, the device.
#[rstest]
fn everything_is_dropped_with_work_in_flight_i4_i10(#[values(false, true)] driven: bool) {
    let Some(_turn) = turn() else { return };
    let checked = Checked::default();
    for round in 0..12 {
        let (device, driver) = match driven {
            false => (Device::open(checked.options(2)).unwrap(), None),
            true => {
                let options = DeviceOptions::default();
                let (device, driver) = Device::open_driven(checked.options(2), options).unwrap();
                (device, Some(driver))
            }
        };
        let client = device.new_client();
        let streams = [(); 3].map(|()| client.new_stream());
        let kernel = client.kernel(add_one()).unwrap();
        let values = streams[0].create(&vec![1_u32; 50_000]).unwrap();
        for stream in streams.iter().cycle().take(30) {
            let arguments = (update(&values), 50_000_u32);
            let count = CubeCount::cover(50_000, 256);
            stream.launch(&kernel, count, arguments).unwrap();
        }
        let answer = streams[1].read(&values);
        let long = streams[2].create_owned(vec![7_u8; 2 << 20]).unwrap();
        // In another order in each round; the rest is dropped at the end of the scope.
        match round % 4 {
            0 => drop((kernel, values, long)),
            1 => drop((streams, answer, client)),
            2 => drop(device),
            _ => drop(driver),
        }
    }
    assert_valid(&checked);
}

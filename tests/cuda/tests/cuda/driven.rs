//! Driven devices. No thread waits for events there, so pumps poll them.

use std::time::{Duration, Instant};

use millstream_actors::{Device, Driver};
use millstream_cuda::Cuda;
use millstream_protocol::Error;
use rstest::rstest;

use crate::program;
use crate::support::*;

fn driven(queues: usize) -> (Device, Driver) {
    Device::open_driven(Cuda::ordinal(0).queues(queues), options()).unwrap()
}

/// I5: a program computes correct results on a device whose pumps poll events.
#[rstest]
fn driven_devices_compute_correct_results_i5(
    #[values(1, 2, 3)] queues: usize,
    #[values(1, 2, 3)] seed: u64,
) {
    let gpu = gpu(seed);
    let (device, _driver) = driven(queues);
    for _ in 0..3 {
        program::run(&device).unwrap();
    }
    assert!(gpu.calls("cuEventQuery") > 0);
    assert_eq!(gpu.calls("cuEventSynchronize"), 0);
}

/// I8: a pump that finds no progress ends when its budget is used up.
#[test]
fn a_pump_of_a_held_gpu_ends_with_its_budget_i8() {
    let gpu = gpu(5);
    let (device, mut driver) = driven(1);
    let stream = device.new_client().new_stream();
    let handle = stream.create(&[1_u8; 16]).unwrap();
    stream.sync().wait().unwrap();
    gpu.hold_all();
    let mut read = stream.read(&handle);
    let start = Instant::now();
    driver.pump(Duration::from_millis(1));
    assert!(start.elapsed() < PATIENCE);
    assert!(read.try_take().is_none());
    gpu.release_all();
    assert_eq!(read.wait().unwrap(), [1; 16]);
}

/// Closes a device while the GPU holds a task. Returns the values to drop before the driver, and the driver.
fn closed_while_held(gpu: &Gpu) -> (impl Sized, Driver) {
    let (device, driver) = driven(1);
    let stream = device.new_client().new_stream();
    let handle = stream.create(&[1_u8; 16]).unwrap();
    stream.sync().wait().unwrap();
    gpu.hold_all();
    stream.fill(&handle, 2).unwrap();
    let report = device.close(Duration::ZERO);
    assert!(report.bytes_left > 0, "{report:?}");
    ((handle, stream, device), driver)
}

/// I10: later pumps free the memory that a close had no time to wait for. Until then they return that there is more to
/// do.
#[test]
fn pumps_free_the_memory_that_a_close_has_left_i10() {
    let gpu = gpu(5);
    let (_kept, mut driver) = closed_while_held(&gpu);
    assert_eq!(gpu.calls("cuMemFreeAsync"), 0);
    assert!(driver.pump(Duration::ZERO));
    gpu.release_all();
    let deadline = Instant::now() + PATIENCE;
    while driver.pump(Duration::from_millis(1)) {
        assert!(Instant::now() < deadline);
    }
    assert!(gpu.calls("cuMemFreeAsync") > 0);
}

/// I10: if the GPU breaks after the close, pumps detect it, end, and free nothing.
#[test]
fn pumps_end_when_the_gpu_breaks_after_a_close_i10() {
    let mut gpu = gpu(5);
    gpu.may_leak = true;
    let (_kept, mut driver) = closed_while_held(&gpu);
    gpu.fault(Some("cuCtxPushCurrent_v2"), 1, 700);
    let deadline = Instant::now() + PATIENCE;
    while driver.pump(Duration::ZERO) {
        assert!(Instant::now() < deadline);
    }
}

/// I5, I10: a driven device whose context can no longer be made current is lost. No request hangs, and the driver can
/// be dropped.
#[test]
fn a_driven_device_whose_context_cannot_be_made_current_is_lost_i5_i10() {
    for nth in 1..60 {
        let mut gpu = gpu(nth);
        gpu.may_leak = true;
        let (device, _driver) = driven(2);
        gpu.fault(Some("cuCtxPushCurrent_v2"), nth, 700);
        let ran = program::run(&device);
        assert!(
            !matches!(ran, Err(Error::TimedOut { .. })),
            "call {nth}: {ran:?}"
        );
    }
}

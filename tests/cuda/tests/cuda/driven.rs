//! Driven devices: nobody sleeps until something has passed, so streams say for themselves how far they are.

use std::time::{Duration, Instant};

use fake_cuda::Session;
use millstream_actors::{Device, Driver};
use millstream_cuda::Cuda;
use millstream_protocol::error::Error;
use millstream_protocol::health::Health;
use rstest::rstest;

use crate::program;
use crate::support::*;

fn driven(queues: usize) -> (Device, Driver) {
    Device::open_driven(Cuda::ordinal(0).queues(queues), options()).unwrap()
}

/// I5: a program is right whether streams write words or events are asked for; with words, an event is recorded only for
/// who waits for it on another queue.
#[rstest]
fn driven_devices_are_right_with_words_and_with_events_i5(
    #[values(true, false)] words: bool,
    #[values(1, 2, 3)] queues: usize,
    #[values(1, 2, 3)] seed: u64,
) {
    let gpu = gpu(seed);
    gpu.writes_values(words);
    let (device, driver) = driven(queues);
    for _ in 0..3 {
        program::run(&device).unwrap();
    }
    let (records, waits) = (gpu.calls("cuEventRecord"), gpu.calls("cuStreamWaitEvent"));
    assert_eq!(gpu.calls("cuStreamWriteValue64_v2") > 0, words);
    assert_eq!(gpu.calls("cuEventQuery") > 0, !words);
    assert!(
        !words || records <= waits,
        "{records} records, {waits} waits"
    );
    drop((driver, device));
    gpu.assert_clean();
}

/// I5: a GPU that breaks writes no more words; who pumps finds out all the same.
#[rstest]
fn a_driven_gpu_that_breaks_answers_everybody_i5(#[values(true, false)] words: bool) {
    for nth in 1..30 {
        let gpu: Session = gpu(nth);
        gpu.writes_values(words);
        let (device, driver) = driven(2);
        gpu.break_at(nth, 700);
        let ran = program::run(&device);
        let refused = match &ran {
            Ok(()) | Err(Error::DeviceLost { .. }) => true,
            Err(Error::Kernel(why)) => why.to_string().contains("lost"),
            Err(_) => false,
        };
        assert!(refused, "operation {nth}: {ran:?}");
        if ran.is_ok() {
            assert!(
                !matches!(device.health(), Health::Lost { .. }),
                "operation {nth}"
            );
        }
        drop((driver, device));
        let mut reports = gpu.end();
        reports.retain(|report| !report.starts_with("leak: "));
        assert!(
            reports.is_empty(),
            "operation {nth}: {}",
            reports.join("\n")
        );
    }
}

/// I8: a pump that finds nothing done ends with its budget.
#[test]
fn a_pump_of_a_held_gpu_ends_i8() {
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
    drop((handle, stream, driver, device));
    gpu.assert_clean();
}

/// A device that was closed while the GPU holds a task, and what is to be dropped before its driver.
fn closed_while_held(gpu: &Session) -> (impl Sized, Driver) {
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

/// I10: what a close has no time to wait for is freed by later pumps, which say until then that there is more to do.
#[test]
fn pumps_of_a_closed_gpu_free_what_the_close_has_left_i10() {
    let gpu = gpu(5);
    let (held, mut driver) = closed_while_held(&gpu);
    assert_eq!(gpu.calls("cuMemFreeAsync"), 0);
    assert!(driver.pump(Duration::ZERO));
    gpu.release_all();
    let give_up = Instant::now() + PATIENCE;
    while driver.pump(Duration::from_millis(1)) {
        assert!(Instant::now() < give_up);
    }
    assert!(gpu.calls("cuMemFreeAsync") > 0);
    drop((held, driver));
    gpu.assert_clean();
}

/// I10: if the GPU breaks meanwhile, pumps find out, and leave it alone.
#[test]
fn pumps_of_a_closed_gpu_that_breaks_end_i10() {
    let gpu = gpu(5);
    let (held, mut driver) = closed_while_held(&gpu);
    gpu.fault(Some("cuCtxSetCurrent"), 1, 700);
    let give_up = Instant::now() + PATIENCE;
    while driver.pump(Duration::ZERO) {
        assert!(Instant::now() < give_up);
    }
    drop((held, driver));
    let mut reports = gpu.end();
    reports.retain(|report| !report.starts_with("leak: "));
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

/// I5, I10: a driven device whose context cannot be entered any more is lost; nobody waits for it, and its driver goes.
#[test]
fn a_context_that_cannot_be_entered_is_a_loss_i5_i10() {
    for nth in 1..60 {
        let gpu = gpu(nth);
        let (device, driver) = driven(2);
        gpu.fault(Some("cuCtxSetCurrent"), nth, 700);
        let ran = program::run(&device);
        assert!(
            !matches!(ran, Err(Error::TimedOut { .. })),
            "call {nth}: {ran:?}"
        );
        drop((driver, device));
        let mut reports = gpu.end();
        reports.retain(|report| !report.starts_with("leak: "));
        assert!(reports.is_empty(), "call {nth}: {}", reports.join("\n"));
    }
}

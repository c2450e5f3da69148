//! The time axis of spans.

use std::time::{Duration, Instant};

use millstream::vulkan::Vulkan;
use millstream::{Device, DeviceOptions};

use crate::subject::{checked, unavailable, with_queues};

/// Tasks of the test.
const ROUNDS: usize = 40;

/// The distance between the clocks after a calibration, at most. The thread may be preempted between their reads.
const DEVIATION: Duration = Duration::from_millis(2);

/// Spans of all queues stand on one axis, whose time 0 is the opening, and which goes as the host's clock does.
#[test]
fn spans_of_all_queues_stand_on_the_time_axis_of_the_host() {
    if let Some(why) = unavailable() {
        println!("skipped: {why}");
        return;
    }
    let opening = checked(with_queues(2));
    assert_spans_on_the_axis_of_the_host(opening.kind);
    drop(opening.checks);
}

/// Opens a device of at least two queues, and checks its spans.
pub(crate) fn assert_spans_on_the_axis_of_the_host(kind: Vulkan) {
    let before = Instant::now();
    let device = Device::open_with(kind, DeviceOptions::default().trace(1_000)).unwrap();
    let opened = Instant::now();
    let client = device.new_client();
    let streams = [client.new_stream(), client.new_stream()];
    let values = streams[0].empty::<u32>(100_000).unwrap();
    let mut calls = Vec::new();
    for round in 0..ROUNDS {
        // Each fill waits for that of the other queue.
        let called = Instant::now();
        streams[round % 2].fill(&values, round as u32).unwrap();
        if round % 4 == 3 {
            device.sync().wait().unwrap();
        }
        if round == ROUNDS / 2 {
            // The clocks are compared again once a second has passed: the axis must not jump.
            std::thread::sleep(Duration::from_millis(1_100));
        }
        calls.push(called);
    }
    device.sync().wait().unwrap();
    let ended = Instant::now();
    let mut spans = device.trace().unwrap();
    spans.retain(|span| &*span.name == "fill");
    assert_eq!(spans.len(), ROUNDS);
    assert!(spans.iter().any(|span| span.queue != spans[0].queue));
    let ns = |from: Instant, to: Instant| (to - from).as_nanos() as u64;
    let deviation_ns = DEVIATION.as_nanos() as u64;
    for (span, called) in spans.iter().zip(&calls) {
        let earliest_ns = ns(opened, *called).saturating_sub(deviation_ns);
        assert!(
            span.start_ns >= earliest_ns,
            "{span:?} before {earliest_ns}"
        );
        assert!(span.end_ns <= ns(before, ended) + deviation_ns, "{span:?}");
    }
    for pair in spans.windows(2) {
        // Sorted by start: the order of the calls, if the axes of the queues are one.
        assert!(pair[0].end_ns <= pair[1].start_ns, "{pair:?}");
        assert_ne!(pair[0].queue, pair[1].queue, "{pair:?}");
    }
}

//! Streams: creation and queries.

use crate::raw::Gpu;

const NOT_READY: u32 = 600;
const NOT_SUPPORTED: u32 = 801;
const CAPTURE_UNSUPPORTED: u32 = 900;
const CAPTURE_INVALIDATED: u32 = 901;
const CAPTURED_EVENT: u32 = 907;
/// The modes of captures and of threads.
const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

#[test]
fn priorities_are_clamped_to_the_supported_range() {
    let gpu = Gpu::new(1);
    let mut range = [7_i32; 2];
    let [least, greatest] = range.each_mut().map(|place| &raw mut *place as u64);
    gpu.must("cuCtxGetStreamPriorityRange", &[least, greatest]);
    assert_eq!(range, [0, -5]);
    for priority in [0_i32, -5, -9, 3] {
        gpu.make("cuStreamCreateWithPriority", &[1, priority as u32 as u64]);
    }
    assert_eq!(gpu.session.stream_priorities(), [0, -5, -5, 0]);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_stream_that_synchronizes_with_the_default_stream_is_refused() {
    let gpu = Gpu::new(1);
    let mut stream = 0_u64;
    let arguments = [&raw mut stream as u64, 0];
    assert_eq!(gpu.call("cuStreamCreate", &arguments), NOT_SUPPORTED);
    gpu.assert_violation(&["not modelled: a stream that synchronizes"]);
}

#[test]
fn a_stream_query_may_find_it_incomplete_and_orders_the_host() {
    let mut answers = [0; 2];
    for seed in 0..100 {
        let gpu = Gpu::stepped(seed);
        let (block, stream) = (gpu.memory(64, 0), gpu.stream());
        gpu.must("cuStreamQuery", &[stream]);
        gpu.must("cuMemsetD8Async", &[block, 1, 64, stream]);
        let mut queries = 0;
        while gpu.call("cuStreamQuery", &[stream]) == NOT_READY {
            queries += 1;
        }
        answers[usize::from(queries > 0)] += 1;
        // The host knows that the fill is complete.
        gpu.must("cuMemFree_v2", &[block]);
        assert_eq!(gpu.violations(), [""; 0]);
    }
    assert!(answers.iter().all(|times| *times > 5), "{answers:?}");
}

/// Queries an event on a thread with this mode, while a stream is in a capture. Returns the answers of the query and of the
/// end of the capture.
fn query_beside(gpu: &Gpu, capture: u32, mode: u32, is_own_thread: bool) -> [u32; 2] {
    let (captured, event) = (gpu.stream(), gpu.event());
    gpu.must("cuStreamBeginCapture_v2", &[captured, capture.into()]);
    let context = gpu.session.current_context();
    let query = || {
        gpu.session.make_current(context);
        let mut mode = mode;
        let place = &raw mut mode as u64;
        gpu.must("cuThreadExchangeStreamCaptureMode", &[place]);
        let answer = gpu.call("cuEventQuery", &[event]);
        gpu.must("cuThreadExchangeStreamCaptureMode", &[place]);
        answer
    };
    let answer = match is_own_thread {
        true => query(),
        false => std::thread::scope(|scope| scope.spawn(query).join().unwrap()),
    };
    let mut graph = 0_u64;
    let end = gpu.call("cuStreamEndCapture", &[captured, &raw mut graph as u64]);
    [answer, end]
}

#[test]
fn a_query_that_a_capture_forbids_invalidates_it() {
    let gpu = Gpu::new(1);
    // Whether the capture forbids a query on its thread, and on another one, which has the second mode.
    for (capture, mode, forbidden) in [
        (GLOBAL, GLOBAL, [true, true]),
        (GLOBAL, THREAD_LOCAL, [true, false]),
        (GLOBAL, RELAXED, [false, false]),
        (THREAD_LOCAL, GLOBAL, [true, false]),
        (THREAD_LOCAL, RELAXED, [false, false]),
        (RELAXED, GLOBAL, [false, false]),
    ] {
        let expected = forbidden.map(|forbidden| match forbidden {
            true => [CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED],
            false => [0, 0],
        });
        let found = [true, false].map(|is_own| query_beside(&gpu, capture, mode, is_own));
        assert_eq!(found, expected, "capture {capture}, thread {mode}");
    }
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_captured_event_cannot_be_queried_and_captured_work_is_refused() {
    let gpu = Gpu::new(1);
    let (block, stream, event) = (gpu.memory(64, 0), gpu.stream(), gpu.event());
    let status = || {
        let mut status = 9_u32;
        gpu.must("cuStreamIsCapturing", &[stream, &raw mut status as u64]);
        status
    };
    assert_eq!(status(), 0);
    gpu.must("cuStreamBeginCapture_v2", &[stream, RELAXED.into()]);
    gpu.must("cuEventRecord", &[event, stream]);
    assert_eq!(status(), 1);
    assert_eq!(gpu.call("cuEventQuery", &[event]), CAPTURED_EVENT);
    let fill = [block, 1, 64, stream];
    assert_eq!(gpu.call("cuMemsetD8Async", &fill), NOT_SUPPORTED);
    let mut graph = 0_u64;
    gpu.must("cuStreamEndCapture", &[stream, &raw mut graph as u64]);
    assert_eq!(status(), 0);
    gpu.must("cuGraphDestroy", &[graph]);
    gpu.assert_violation(&["not modelled", "in a capture"]);
}

//! Invalidated captures: each rule is violated once.

use crate::captures::{GLOBAL, RELAXED, THREAD_LOCAL, begin, end, exchange, status};
use crate::raw::Gpu;

const BYTES: u64 = 64;
const INVALID_VALUE: u32 = 1;
const UNSUPPORTED: u32 = 900;
const INVALIDATED: u32 = 901;
const MERGE: u32 = 902;
const UNJOINED: u32 = 904;
const ISOLATION: u32 = 905;
const CAPTURED_EVENT: u32 = 907;

/// Begins a capture in this mode and makes an unsafe call, on another thread if `elsewhere`. Returns the results of the
/// call and of the end of the capture, and the reports.
fn unsafe_call(mode: u64, own: u64, elsewhere: bool) -> (u32, u32, Vec<String>) {
    let gpu = Gpu::new(1);
    let stream = begin(&gpu, mode);
    let context = gpu.make("cuCtxGetCurrent", &[]);
    let call = || {
        gpu.must("cuCtxSetCurrent", &[context]);
        exchange(&gpu, own);
        let mut address = 0_u64;
        let answer = gpu.call("cuMemAlloc_v2", &[&raw mut address as u64, BYTES]);
        exchange(&gpu, GLOBAL);
        answer
    };
    let answer = match elsewhere {
        true => std::thread::scope(|scope| scope.spawn(call).join().unwrap()),
        false => call(),
    };
    let (ended, _) = end(&gpu, stream);
    (answer, ended, gpu.violations())
}

#[test]
fn a_captured_stream_that_was_not_joined_again_is_found() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(BYTES, 0);
    let (stream, other) = (begin(&gpu, RELAXED), gpu.stream());
    gpu.must("cuMemsetD8Async", &[block, 1, 32, stream]);
    gpu.order(stream, other);
    gpu.must("cuMemsetD8Async", &[block + 32, 1, 32, other]);
    assert_eq!(end(&gpu, stream), (UNJOINED, 0));
    assert_eq!((status(&gpu, stream), status(&gpu, other)), (0, 0));
    gpu.assert_violation(&["capture invalidated: ", "not joined again"]);
}

#[test]
fn a_query_on_another_thread_invalidates_a_global_capture() {
    let gpu = Gpu::new(1);
    let (event, before) = (gpu.event(), gpu.stream());
    gpu.must("cuEventRecord", &[event, before]);
    let stream = begin(&gpu, GLOBAL);
    let context = gpu.make("cuCtxGetCurrent", &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            gpu.must("cuCtxSetCurrent", &[context]);
            assert_eq!(gpu.call("cuEventQuery", &[event]), UNSUPPORTED);
        });
    });
    assert_eq!(status(&gpu, stream), 2);
    assert_eq!(gpu.call("cuMemsetD8Async", &[0, 1, 0, stream]), INVALIDATED);
    assert_eq!(end(&gpu, stream), (INVALIDATED, 0));
    gpu.assert_violation(&["capture invalidated: `cuEventQuery`", "Global"]);
}

#[test]
fn a_query_of_a_captured_stream_or_event_invalidates_the_capture() {
    for (call, of_event) in [
        ("cuStreamSynchronize", false),
        ("cuStreamQuery", false),
        ("cuEventSynchronize", true),
        ("cuEventQuery", true),
    ] {
        let gpu = Gpu::new(1);
        let (stream, event) = (begin(&gpu, RELAXED), gpu.event());
        gpu.must("cuEventRecord", &[event, stream]);
        let answer = gpu.call(call, &[if of_event { event } else { stream }]);
        let code = if of_event {
            CAPTURED_EVENT
        } else {
            UNSUPPORTED
        };
        assert_eq!(
            (answer, end(&gpu, stream)),
            (code, (INVALIDATED, 0)),
            "{call}"
        );
        gpu.assert_violation(&["capture invalidated: ", call]);
    }
}

#[test]
fn edges_across_the_boundary_of_a_capture_are_refused() {
    let gpu = Gpu::new(1);
    let (event, outside) = (gpu.event(), gpu.stream());
    gpu.must("cuEventRecord", &[event, outside]);
    let stream = begin(&gpu, RELAXED);
    assert_eq!(
        gpu.call("cuStreamWaitEvent", &[stream, event, 0]),
        ISOLATION
    );
    assert_eq!(end(&gpu, stream), (INVALIDATED, 0));
    // An edge out of a capture that has ended.
    gpu.must("cuStreamBeginCapture_v2", &[stream, RELAXED]);
    gpu.must("cuEventRecord", &[event, stream]);
    assert_eq!(end(&gpu, stream).0, 0);
    assert_eq!(
        gpu.call("cuStreamWaitEvent", &[outside, event, 0]),
        CAPTURED_EVENT
    );
    // An edge out of an invalidated capture.
    let (broken, within) = (begin(&gpu, RELAXED), gpu.event());
    gpu.must("cuEventRecord", &[within, broken]);
    assert_eq!(gpu.call("cuStreamQuery", &[broken]), UNSUPPORTED);
    let waits = gpu.call("cuStreamWaitEvent", &[outside, within, 0]);
    assert_eq!(waits, INVALID_VALUE);
    assert_eq!(end(&gpu, broken), (INVALIDATED, 0));
    // The event may be recorded again.
    gpu.must("cuEventRecord", &[event, outside]);
    gpu.must("cuEventSynchronize", &[event]);
    let reports = gpu.violations();
    let words = [
        "recorded outside of its capture",
        "a capture, which has ended",
        "are not executed",
    ];
    let found = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.contains(word));
    assert!(found && reports.len() == 3, "{reports:?}");
}

#[test]
fn two_captures_are_not_merged() {
    let gpu = Gpu::new(1);
    let (one, other, event) = (begin(&gpu, RELAXED), begin(&gpu, RELAXED), gpu.event());
    gpu.must("cuEventRecord", &[event, one]);
    assert_eq!(gpu.call("cuStreamWaitEvent", &[other, event, 0]), MERGE);
    assert_eq!(
        (end(&gpu, one), end(&gpu, other)),
        ((INVALIDATED, 0), (INVALIDATED, 0))
    );
    gpu.assert_violation(&["would merge two captures"]);
}

#[test]
fn operations_that_graphs_do_not_support_invalidate_the_capture() {
    let gpu = Gpu::new(1);
    let pool = gpu.pool(0);
    let (block, pinned) = (gpu.memory(BYTES, 0), gpu.pinned(8));
    let pageable = [0_u8; 8];
    let mut made = 0_u64;
    let place = &raw mut made as u64;
    let invalidates = |name: &str, arguments: &dyn Fn(u64) -> Vec<u64>| {
        let stream = begin(&gpu, RELAXED);
        assert_eq!(gpu.call(name, &arguments(stream)), UNSUPPORTED, "{name}");
        assert_eq!(end(&gpu, stream), (INVALIDATED, 0), "{name}");
    };
    invalidates("cuMemAllocFromPoolAsync", &|stream| {
        vec![place, BYTES, pool, stream]
    });
    invalidates("cuStreamWriteValue64_v2", &|stream| {
        vec![stream, pinned, 1, 0]
    });
    invalidates("cuMemcpyHtoDAsync_v2", &|stream| {
        vec![block, pageable.as_ptr() as u64, 8, stream]
    });
    invalidates("cuStreamDestroy_v2", &|stream| vec![stream]);
    let reports = gpu.violations();
    assert_eq!(reports.len(), 4, "{reports:?}");
    assert!(
        reports
            .iter()
            .all(|report| report.starts_with("capture invalidated: ")),
        "{reports:?}"
    );
}

#[test]
fn unsafe_calls_invalidate_the_captures_that_forbid_them() {
    // Mode of the capture, mode of the thread, whether it is another thread than that of the capture, and whether the
    // call is forbidden.
    let cases = [
        (GLOBAL, GLOBAL, false, true),
        (GLOBAL, GLOBAL, true, true),
        (GLOBAL, THREAD_LOCAL, true, false),
        (GLOBAL, THREAD_LOCAL, false, true),
        (GLOBAL, RELAXED, true, false),
        (GLOBAL, RELAXED, false, false),
        (THREAD_LOCAL, GLOBAL, false, true),
        (THREAD_LOCAL, GLOBAL, true, false),
        (THREAD_LOCAL, RELAXED, false, false),
        (RELAXED, GLOBAL, false, false),
        (RELAXED, GLOBAL, true, false),
    ];
    for (mode, own, elsewhere, forbidden) in cases {
        let case = (mode, own, elsewhere);
        let (answer, ended, reports) = unsafe_call(mode, own, elsewhere);
        match forbidden {
            true => {
                assert_eq!((answer, ended), (UNSUPPORTED, INVALIDATED), "{case:?}");
                let found = matches!(&reports[..], [one] if one.contains("`cuMemAlloc_v2`") && one.contains("is not safe"));
                assert!(found, "{case:?}: {reports:?}");
            }
            false => assert_eq!((answer, ended, reports.len()), (0, 0, 0), "{case:?}"),
        }
    }
}

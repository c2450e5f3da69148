//! Captures: what they take, and what breaks them.

use crate::kernels::{Kernels, launch};
use crate::raw::Gpu;

const BYTES: u64 = 64;
const GLOBAL: u64 = 0;
const THREAD_LOCAL: u64 = 1;
const RELAXED: u64 = 2;

const ILLEGAL_STATE: u32 = 401;
const UNSUPPORTED: u32 = 900;
const INVALIDATED: u32 = 901;
const MERGE: u32 = 902;
const UNMATCHED: u32 = 903;
const UNJOINED: u32 = 904;
const ISOLATION: u32 = 905;
const CAPTURED_EVENT: u32 = 907;
const WRONG_THREAD: u32 = 908;

fn begin(gpu: &Gpu, mode: u64) -> u64 {
    let stream = gpu.stream();
    gpu.must("cuStreamBeginCapture_v2", &[stream, mode]);
    stream
}

/// Ends a capture: what is answered, and the graph.
fn end(gpu: &Gpu, stream: u64) -> (u32, u64) {
    let mut graph = 7_u64;
    let answer = gpu.call("cuStreamEndCapture", &[stream, &raw mut graph as u64]);
    (answer, graph)
}

/// None, active, or broken.
fn status(gpu: &Gpu, stream: u64) -> u32 {
    let mut status = 7_u32;
    gpu.must("cuStreamIsCapturing", &[stream, &raw mut status as u64]);
    status
}

fn exchange(gpu: &Gpu, mode: u64) -> u32 {
    let mut mode = mode as u32;
    gpu.must("cuThreadExchangeStreamCaptureMode", &[&raw mut mode as u64]);
    mode
}

#[test]
fn nothing_is_executed_and_all_of_it_at_each_launch() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, one, stream) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 1), gpu.stream());
    let (graph, executable) = gpu.captured(stream, || {
        assert_eq!(status(&gpu, stream), 1);
        assert_eq!(launch(&gpu, kernels.add, stream, &[block, one]), 0);
        assert_eq!(launch(&gpu, kernels.add, stream, &[block, one]), 0);
    });
    assert_eq!((status(&gpu, stream), gpu.byte(block, stream)), (0, 0));
    for launches in 1..4 {
        gpu.must("cuGraphLaunch", &[executable, stream]);
        assert_eq!(gpu.byte(block, stream), 2 * launches);
    }
    assert_eq!(
        gpu.session.launched().len(),
        2,
        "{:?}",
        gpu.session.launched()
    );
    gpu.must("cuGraphExecDestroy", &[executable]);
    gpu.must("cuGraphDestroy", &[graph]);
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn copies_and_fills_are_captured_as_well() {
    for seed in 0..20 {
        let gpu = Gpu::new(seed);
        let (block, other, stream) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 0), gpu.stream());
        let (from, to) = (gpu.pinned(BYTES), gpu.pinned(BYTES));
        let (_, executable) = gpu.captured(stream, || {
            gpu.must("cuMemcpyHtoDAsync_v2", &[block, from, BYTES, stream]);
            gpu.must("cuMemsetD8Async", &[block, 9, 1, stream]);
            gpu.must("cuMemcpyDtoDAsync_v2", &[other, block, BYTES, stream]);
            gpu.must("cuMemcpyDtoHAsync_v2", &[to, other, BYTES, stream]);
        });
        // The bytes are those of the launch, not of the capture.
        // SAFETY: pinned memory of the test, which nothing uses now.
        unsafe { (from as *mut u8).write_bytes(5, BYTES as usize) };
        gpu.must("cuGraphLaunch", &[executable, stream]);
        gpu.must("cuStreamSynchronize", &[stream]);
        // SAFETY: as above; the copy to it is over.
        let copied = unsafe { *(to as *const [u8; BYTES as usize]) };
        assert_eq!(
            (copied[0], copied[1..].iter().all(|byte| *byte == 5)),
            (9, true)
        );
        assert_eq!(gpu.wrong(), [""; 0]);
    }
}

#[test]
fn streams_that_wait_for_a_capture_are_taken_in_and_joined_again() {
    for seed in 0..50 {
        let gpu = Gpu::new(seed);
        let (block, stream, other) = (gpu.memory(BYTES, 0), gpu.stream(), gpu.stream());
        let (_, executable) = gpu.captured(stream, || {
            gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
            gpu.order(stream, other);
            assert_eq!(status(&gpu, other), 1);
            gpu.must("cuMemsetD8Async", &[block, 2, 32, other]);
            gpu.must("cuMemsetD8Async", &[block + 32, 3, 32, stream]);
            gpu.order(other, stream);
            gpu.must("cuMemcpyDtoDAsync_v2", &[block, block + 32, 1, stream]);
        });
        assert_eq!(status(&gpu, other), 0);
        gpu.must("cuGraphLaunch", &[executable, stream]);
        let bytes = [0, 1, 32].map(|at| gpu.byte(block + at, stream));
        assert_eq!(bytes, [3, 2, 3], "seed {seed}");
        assert_eq!(gpu.wrong(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_stream_that_was_taken_in_and_not_joined_is_found() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(BYTES, 0);
    let (stream, other) = (begin(&gpu, RELAXED), gpu.stream());
    gpu.must("cuMemsetD8Async", &[block, 1, 32, stream]);
    gpu.order(stream, other);
    gpu.must("cuMemsetD8Async", &[block + 32, 1, 32, other]);
    assert_eq!(end(&gpu, stream), (UNJOINED, 0));
    assert_eq!((status(&gpu, stream), status(&gpu, other)), (0, 0));
    gpu.assert_wrong(&["capture broken: ", "not joined again"]);
}

#[test]
fn a_capture_ends_where_it_began() {
    let gpu = Gpu::new(1);
    let idle = gpu.stream();
    assert_eq!(end(&gpu, idle), (ILLEGAL_STATE, 0));
    let (stream, other) = (begin(&gpu, THREAD_LOCAL), gpu.stream());
    assert_eq!(
        gpu.call("cuStreamBeginCapture_v2", &[stream, RELAXED]),
        ILLEGAL_STATE
    );
    gpu.order(stream, other);
    assert_eq!(end(&gpu, other), (UNMATCHED, 0));
    let context = gpu.make("cuCtxGetCurrent", &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            gpu.must("cuCtxSetCurrent", &[context]);
            assert_eq!(end(&gpu, stream), (WRONG_THREAD, 0));
        });
    });
    let (answer, graph) = end(&gpu, stream);
    assert_eq!((answer, graph != 0), (0, true));
    let reports = gpu.wrong();
    assert!(
        reports
            .iter()
            .all(|report| report.starts_with("wrong capture: ")),
        "{reports:?}"
    );
    assert_eq!(reports.len(), 4, "{reports:?}");
}

/// A capture of this mode, a call of this thread, and what both come to.
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
    (answer, ended, gpu.wrong())
}

#[test]
fn calls_that_are_not_safe_break_the_captures_that_forbid_them() {
    // Mode of the capture, mode of the thread, another thread than that of the capture: forbidden.
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
                let said = matches!(&reports[..], [one] if one.contains("`cuMemAlloc_v2`") && one.contains("is not safe"));
                assert!(said, "{case:?}: {reports:?}");
            }
            false => assert_eq!((answer, ended, reports.len()), (0, 0, 0), "{case:?}"),
        }
    }
}

#[test]
fn a_query_of_another_thread_breaks_a_global_capture() {
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
    gpu.assert_wrong(&["capture broken: `cuEventQuery`", "Global"]);
}

#[test]
fn a_threads_mode_is_exchanged() {
    let gpu = Gpu::new(1);
    let modes = [
        exchange(&gpu, RELAXED),
        exchange(&gpu, THREAD_LOCAL),
        exchange(&gpu, GLOBAL),
    ];
    assert_eq!(modes.map(u64::from), [GLOBAL, RELAXED, THREAD_LOCAL]);
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn what_was_captured_is_never_over_and_to_ask_breaks_the_capture() {
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
        gpu.assert_wrong(&["capture broken: ", call]);
    }
}

#[test]
fn no_edge_leads_into_a_capture_or_out_of_it() {
    let gpu = Gpu::new(1);
    let (event, outside) = (gpu.event(), gpu.stream());
    gpu.must("cuEventRecord", &[event, outside]);
    let stream = begin(&gpu, RELAXED);
    assert_eq!(
        gpu.call("cuStreamWaitEvent", &[stream, event, 0]),
        ISOLATION
    );
    assert_eq!(end(&gpu, stream), (INVALIDATED, 0));
    // Out of one that is over.
    gpu.must("cuStreamBeginCapture_v2", &[stream, RELAXED]);
    gpu.must("cuEventRecord", &[event, stream]);
    assert_eq!(end(&gpu, stream).0, 0);
    assert_eq!(
        gpu.call("cuStreamWaitEvent", &[outside, event, 0]),
        CAPTURED_EVENT
    );
    // An event may be recorded anew.
    gpu.must("cuEventRecord", &[event, outside]);
    gpu.must("cuEventSynchronize", &[event]);
    let reports = gpu.wrong();
    let words = [
        "recorded outside of its capture",
        "a capture, which is over",
    ];
    let said = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.contains(word));
    assert!(said && reports.len() == 2, "{reports:?}");
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
    gpu.assert_wrong(&["would merge two captures"]);
}

#[test]
fn what_a_graph_cannot_hold_breaks_the_capture() {
    let gpu = Gpu::new(1);
    let pool = gpu.pool(0);
    let (block, pinned) = (gpu.memory(BYTES, 0), gpu.pinned(8));
    let pageable = [0_u8; 8];
    let mut made = 0_u64;
    let place = &raw mut made as u64;
    let breaks = |name: &str, arguments: &dyn Fn(u64) -> Vec<u64>| {
        let stream = begin(&gpu, RELAXED);
        assert_eq!(gpu.call(name, &arguments(stream)), UNSUPPORTED, "{name}");
        assert_eq!(end(&gpu, stream), (INVALIDATED, 0), "{name}");
    };
    breaks("cuMemAllocFromPoolAsync", &|stream| {
        vec![place, BYTES, pool, stream]
    });
    breaks("cuStreamWriteValue64_v2", &|stream| {
        vec![stream, pinned, 1, 0]
    });
    breaks("cuMemcpyHtoDAsync_v2", &|stream| {
        vec![block, pageable.as_ptr() as u64, 8, stream]
    });
    breaks("cuStreamDestroy_v2", &|stream| vec![stream]);
    let reports = gpu.wrong();
    assert_eq!(reports.len(), 4, "{reports:?}");
    assert!(
        reports
            .iter()
            .all(|report| report.starts_with("capture broken: ")),
        "{reports:?}"
    );
}

#[test]
fn a_capture_tells_its_graph_and_what_comes_next() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(BYTES, 0);
    let stream = begin(&gpu, RELAXED);
    let info = || {
        let (mut status, mut told) = (7_u32, [0_u64; 5]);
        let [id, graph, nodes, edges, count] = told.each_mut().map(|place| &raw mut *place as u64);
        let arguments = [
            stream,
            &raw mut status as u64,
            id,
            graph,
            nodes,
            edges,
            count,
        ];
        gpu.must("cuStreamGetCaptureInfo_v3", &arguments);
        if told[4] == 0 {
            return (status, told[0], told[1], vec![]);
        }
        // SAFETY: the driver's lists, which stay until the stream is given something.
        let next = unsafe { std::slice::from_raw_parts(told[2] as *const u64, told[4] as usize) };
        (status, told[0], told[1], next.to_vec())
    };
    let (status, id, graph, next) = info();
    assert_eq!((status, next), (1, vec![]));
    gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
    let (_, same_id, same_graph, next) = info();
    assert_eq!((same_id, same_graph, next.len()), (id, graph, 1));
    let mut kind = 7_u32;
    gpu.must("cuGraphNodeGetType", &[next[0], &raw mut kind as u64]);
    assert_eq!((kind, end(&gpu, stream)), (2, (0, graph)));
    assert_eq!(info().0, 0);
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn an_end_that_is_refused_has_ended_the_capture() {
    let gpu = Gpu::new(1);
    let stream = begin(&gpu, RELAXED);
    gpu.session.fault(Some("cuStreamEndCapture"), 1, 2);
    assert_eq!((end(&gpu, stream), status(&gpu, stream)), ((2, 0), 0));
    gpu.must("cuStreamDestroy_v2", &[stream]);
    gpu.must("cuDevicePrimaryCtxRelease_v2", &[0]);
    gpu.session.assert_clean();
}

#[test]
fn a_capture_that_is_never_ended_is_a_leak() {
    let gpu = Gpu::new(1);
    begin(&gpu, RELAXED);
    let reports = gpu.session.end();
    assert!(
        reports.contains(&"leak: 1 captures were never ended".to_owned()),
        "{reports:?}"
    );
}

//! Captures: supported operations, and their end.

use crate::kernels::{Kernels, launch};
use crate::raw::Gpu;

const BYTES: u64 = 64;
pub(crate) const GLOBAL: u64 = 0;
pub(crate) const THREAD_LOCAL: u64 = 1;
pub(crate) const RELAXED: u64 = 2;
const ILLEGAL_STATE: u32 = 401;
const UNMATCHED: u32 = 903;
const WRONG_THREAD: u32 = 908;

pub(crate) fn begin(gpu: &Gpu, mode: u64) -> u64 {
    let stream = gpu.stream();
    gpu.must("cuStreamBeginCapture_v2", &[stream, mode]);
    stream
}

/// Ends a capture. Returns the return value and the graph.
pub(crate) fn end(gpu: &Gpu, stream: u64) -> (u32, u64) {
    let mut graph = 7_u64;
    let answer = gpu.call("cuStreamEndCapture", &[stream, &raw mut graph as u64]);
    (answer, graph)
}

/// Returns the capture status: 0 none, 1 active, 2 invalidated.
pub(crate) fn status(gpu: &Gpu, stream: u64) -> u32 {
    let mut status = 7_u32;
    gpu.must("cuStreamIsCapturing", &[stream, &raw mut status as u64]);
    status
}

pub(crate) fn exchange(gpu: &Gpu, mode: u64) -> u32 {
    let mut mode = mode as u32;
    gpu.must("cuThreadExchangeStreamCaptureMode", &[&raw mut mode as u64]);
    mode
}

#[test]
fn captured_launches_run_at_each_launch_of_the_graph() {
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
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn copies_and_fills_are_captured() {
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
        // The launch of the graph reads the bytes, not the capture.
        // SAFETY: pinned memory that no operation uses now.
        unsafe { (from as *mut u8).write_bytes(5, BYTES as usize) };
        gpu.must("cuGraphLaunch", &[executable, stream]);
        gpu.must("cuStreamSynchronize", &[stream]);
        // SAFETY: as above; the copy to it is complete.
        let copied = unsafe { *(to as *const [u8; BYTES as usize]) };
        assert_eq!(
            (copied[0], copied[1..].iter().all(|byte| *byte == 5)),
            (9, true)
        );
        assert_eq!(gpu.violations(), [""; 0]);
    }
}

#[test]
fn streams_that_wait_for_a_captured_event_join_the_capture() {
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
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_capture_must_end_in_its_stream_and_thread() {
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
    let reports = gpu.violations();
    assert!(
        reports
            .iter()
            .all(|report| report.starts_with("invalid capture: ")),
        "{reports:?}"
    );
    assert_eq!(reports.len(), 4, "{reports:?}");
}

#[test]
fn the_capture_mode_of_a_thread_is_exchanged() {
    let gpu = Gpu::new(1);
    let modes = [
        exchange(&gpu, RELAXED),
        exchange(&gpu, THREAD_LOCAL),
        exchange(&gpu, GLOBAL),
    ];
    assert_eq!(modes.map(u64::from), [GLOBAL, RELAXED, THREAD_LOCAL]);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_capture_query_returns_the_graph_and_the_next_dependencies() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(BYTES, 0);
    let stream = begin(&gpu, RELAXED);
    let info = || {
        let (mut status, mut fields) = (7_u32, [0_u64; 5]);
        let [id, graph, nodes, edges, count] =
            fields.each_mut().map(|place| &raw mut *place as u64);
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
        if fields[4] == 0 {
            return (status, fields[0], fields[1], vec![]);
        }
        // SAFETY: the driver's list, which is valid until the next operation of the stream.
        let next =
            unsafe { std::slice::from_raw_parts(fields[2] as *const u64, fields[4] as usize) };
        (status, fields[0], fields[1], next.to_vec())
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
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn an_end_with_an_injected_fault_still_ends_the_capture() {
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

//! Streams: creation and queries.

use crate::raw::Gpu;

const INVALID_HANDLE: u32 = 400;
const NOT_READY: u32 = 600;
const NOT_SUPPORTED: u32 = 801;

#[test]
fn priorities_are_clamped_to_the_supported_range() {
    let gpu = Gpu::new(1);
    let mut range = [7_i32; 2];
    let [least, greatest] = range.each_mut().map(|place| &raw mut *place as u64);
    gpu.must("cuCtxGetStreamPriorityRange", &[least, greatest]);
    assert_eq!(range, [0, -5]);
    for (encoding, kept) in [(0, 0), (-5, -5), (-9, -5), (3, 0)] {
        let stream = gpu.make("cuStreamCreateWithPriority", &[1, encoding as u32 as u64]);
        let mut priority = 7_i32;
        gpu.must("cuStreamGetPriority", &[stream, &raw mut priority as u64]);
        assert_eq!(priority, kept, "of {encoding}");
    }
    assert_eq!(gpu.session.stream_priorities(), [0, -5, -5, 0]);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn context_device_flags_and_id_of_a_stream_can_be_queried() {
    let gpu = Gpu::new(1);
    let context = gpu.make("cuCtxGetCurrent", &[]);
    let stream = gpu.make("cuStreamCreate", &[1]);
    let (mut of, mut flags, mut id, mut device) = (0_u64, 0_u32, 0_u64, 7_i32);
    gpu.must("cuStreamGetCtx", &[stream, &raw mut of as u64]);
    gpu.must("cuStreamGetFlags", &[stream, &raw mut flags as u64]);
    gpu.must("cuStreamGetId", &[stream, &raw mut id as u64]);
    gpu.must("cuCtxGetDevice", &[&raw mut device as u64]);
    assert_eq!((of, flags, device), (context, 1, 0));
    let other = gpu.stream();
    let mut other_id = id;
    gpu.must("cuStreamGetId", &[other, &raw mut other_id as u64]);
    assert_ne!(id, other_id);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(
                gpu.make("cuCtxGetCurrent", &[]),
                0,
                "no context on this thread"
            );
        });
    });
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_created_context_is_destroyed_after_its_stream() {
    let gpu = Gpu::new(1);
    let primary = gpu.make("cuCtxGetCurrent", &[]);
    let context = gpu.make("cuCtxCreate_v4", &[0, 0, 0]);
    assert_eq!(gpu.make("cuCtxGetCurrent", &[]), context);
    let (stream, mut of) = (gpu.stream(), 0_u64);
    gpu.must("cuCtxSetCurrent", &[primary]);
    gpu.must("cuStreamGetCtx", &[stream, &raw mut of as u64]);
    assert_eq!(of, context);
    gpu.must("cuCtxSetCurrent", &[context]);
    gpu.must("cuStreamDestroy_v2", &[stream]);
    gpu.must("cuCtxDestroy_v2", &[context]);
    assert_eq!(
        gpu.make("cuCtxGetCurrent", &[]),
        primary,
        "the previous context is current again"
    );
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn objects_left_in_a_destroyed_context_are_reported() {
    let gpu = Gpu::new(1);
    let context = gpu.make("cuCtxCreate_v4", &[0, 0, 0]);
    let (block, stream) = (gpu.memory(64, 0), gpu.stream());
    gpu.must("cuCtxDestroy_v2", &[context]);
    let reports = gpu.violations();
    let words = ["1 streams in it", "1 blocks of memory in it"];
    let found = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.ends_with(word));
    assert!(
        found && reports.len() == 2,
        "{reports:?} of {block:#x}, {stream:#x}"
    );
}

#[test]
fn queries_of_a_destroyed_stream_are_refused() {
    let gpu = Gpu::new(1);
    let stream = gpu.stream();
    gpu.must("cuStreamDestroy_v2", &[stream]);
    let mut answer = 0_u64;
    let place = &raw mut answer as u64;
    for name in [
        "cuStreamGetCtx",
        "cuStreamGetFlags",
        "cuStreamGetPriority",
        "cuStreamGetId",
    ] {
        assert_eq!(gpu.call(name, &[stream, place]), INVALID_HANDLE, "{name}");
    }
    assert_eq!(gpu.call("cuStreamQuery", &[stream]), INVALID_HANDLE);
    assert_eq!(gpu.violations().len(), 5);
}

#[test]
fn a_stream_that_synchronizes_with_the_default_stream_is_refused() {
    let gpu = Gpu::new(1);
    let mut stream = 0_u64;
    assert_eq!(
        gpu.call("cuStreamCreate", &[&raw mut stream as u64, 0]),
        NOT_SUPPORTED
    );
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

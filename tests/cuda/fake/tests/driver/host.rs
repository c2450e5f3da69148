//! Host functions in streams, and refused calls.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
const NOT_PERMITTED: u32 = 800;
const NOT_SUPPORTED: u32 = 801;

extern "C" fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The argument of `read`: a pinned byte, and where to store its value.
struct Read {
    from: u64,
    to: AtomicU64,
}

extern "C" fn read(read: &Read) {
    // SAFETY: pinned memory; all copies before this function are complete.
    let byte = unsafe { *(read.from as *const u8) };
    read.to.store(byte.into(), Ordering::Relaxed);
}

#[test]
fn a_host_function_is_called_once_in_stream_order() {
    for seed in 0..40 {
        let gpu = if seed % 2 == 0 {
            Gpu::new(seed)
        } else {
            Gpu::stepped(seed)
        };
        let (block, pinned, stream) = (gpu.memory(64, 0), gpu.pinned(64), gpu.stream());
        let (reads, counter) = (
            Read {
                from: pinned,
                to: AtomicU64::new(0),
            },
            AtomicU64::new(0),
        );
        gpu.must("cuMemsetD8Async", &[block, 5, 64, stream]);
        gpu.must("cuMemcpyDtoHAsync_v2", &[pinned, block, 64, stream]);
        let call = |function: usize, data: u64| {
            gpu.must("cuLaunchHostFunc", &[stream, function as u64, data]);
        };
        call(read as *const () as usize, &raw const reads as u64);
        call(count as *const () as usize, &raw const counter as u64);
        gpu.must("cuMemsetD8Async", &[block, 6, 64, stream]);
        gpu.must("cuStreamSynchronize", &[stream]);
        assert_eq!(reads.to.load(Ordering::Relaxed), 5, "seed {seed}");
        assert_eq!(counter.load(Ordering::Relaxed), 1, "seed {seed}");
        assert_eq!(gpu.byte(block, stream), 6);
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_session_ends_after_the_host_functions_of_its_streams() {
    for seed in 0..20 {
        let gpu = Gpu::stepped(seed);
        let (stream, counter) = (gpu.stream(), AtomicU64::new(0));
        let arguments = [stream, count as *const () as u64, &raw const counter as u64];
        gpu.must("cuLaunchHostFunc", &arguments);
        gpu.must("cuStreamDestroy_v2", &[stream]);
        assert_eq!(gpu.violations(), [""; 0]);
        assert_eq!(counter.load(Ordering::Relaxed), 1);
    }
}

/// The argument of a host function that calls the driver.
struct Query<'a> {
    gpu: &'a Gpu,
    stream: u64,
    answer: AtomicU32,
}

extern "C" fn query(query: &Query<'_>) {
    let answer = query.gpu.call("cuStreamQuery", &[query.stream]);
    query.answer.store(answer, Ordering::Relaxed);
}

#[test]
fn a_host_function_that_calls_the_driver_gets_an_error_and_does_not_deadlock() {
    let gpu = Gpu::new(1);
    let stream = gpu.stream();
    let argument = Query {
        gpu: &gpu,
        stream,
        answer: AtomicU32::new(0),
    };
    gpu.must(
        "cuLaunchHostFunc",
        &[
            stream,
            query as *const () as u64,
            &raw const argument as u64,
        ],
    );
    gpu.must("cuStreamSynchronize", &[stream]);
    assert_eq!(argument.answer.load(Ordering::Relaxed), NOT_PERMITTED);
    gpu.assert_violation(&["invalid call: cuStreamQuery in a host function"]);
}

extern "C" fn lock(mutex: &Mutex<u32>) {
    *mutex.lock().unwrap() += 1;
}

#[test]
fn a_host_function_may_wait_for_a_lock_that_a_driver_caller_holds() {
    for seed in 0..20 {
        let gpu = Gpu::new(seed);
        let (stream, mutex) = (gpu.stream(), Mutex::new(0));
        gpu.must(
            "cuLaunchHostFunc",
            &[stream, lock as *const () as u64, &raw const mutex as u64],
        );
        let held = mutex.lock().unwrap();
        (0..20).for_each(|_| _ = gpu.event());
        drop(held);
        gpu.must("cuStreamSynchronize", &[stream]);
        assert_eq!(*mutex.lock().unwrap(), 1);
        assert_eq!(gpu.violations(), [""; 0]);
    }
}

#[test]
fn a_null_host_function_is_refused() {
    let gpu = Gpu::new(1);
    let stream = gpu.stream();
    assert_eq!(gpu.call("cuLaunchHostFunc", &[stream, 0, 0]), INVALID_VALUE);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn calls_that_wait_for_everything_are_refused() {
    let gpu = Gpu::new(1);
    let calls = [
        "cuCtxSynchronize",
        "cuMemcpyHtoD_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyDtoD_v2",
        "cuMemsetD8_v2",
        "cuMemsetD32_v2",
    ];
    for call in calls {
        assert_eq!(gpu.call(call, &[0, 0, 0]), NOT_SUPPORTED, "{call}");
    }
    let reports = gpu.violations();
    assert_eq!(reports.len(), calls.len());
    assert!(
        reports
            .iter()
            .all(|report| report.starts_with("legacy call: ")),
        "{reports:?}"
    );
}

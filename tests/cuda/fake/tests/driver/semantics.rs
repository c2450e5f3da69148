//! The behaviour of the fake for valid calls.

use cuda::Session;

use crate::kernels::{Kernels, launch};
use crate::raw::Gpu;

const BYTES: u64 = 64;
const OUT_OF_MEMORY: u32 = 2;
const NOT_READY: u32 = 600;
const ILLEGAL_ADDRESS: u32 = 700;

#[test]
fn an_event_query_may_find_it_incomplete() {
    let mut answers = [0; 2];
    for seed in 0..100 {
        let gpu = Gpu::stepped(seed);
        let (block, stream, event) = (gpu.memory(BYTES, 0), gpu.stream(), gpu.event());
        assert_eq!(
            gpu.call("cuEventQuery", &[event]),
            0,
            "an event without a record is complete"
        );
        gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
        gpu.must("cuEventRecord", &[event, stream]);
        answers[usize::from(gpu.call("cuEventQuery", &[event]) == NOT_READY)] += 1;
        gpu.must("cuEventSynchronize", &[event]);
        assert_eq!(gpu.call("cuEventQuery", &[event]), 0);
        assert_eq!(gpu.violations(), [""; 0]);
    }
    assert!(answers.iter().all(|times| *times > 5), "{answers:?}");
}

#[test]
fn a_stepped_session_repeats_the_run_of_its_seed() {
    let run = |seed| {
        let gpu = Gpu::stepped(seed);
        let (block, one, other) = (gpu.memory(BYTES, 0), gpu.stream(), gpu.stream());
        let mut seen = Vec::new();
        for round in 1..20 {
            gpu.must("cuMemsetD8Async", &[block, round, BYTES, one]);
            seen.push(gpu.byte(block, other));
        }
        seen
    };
    let runs: Vec<_> = (0..10).map(run).collect();
    assert_eq!(runs, (0..10).map(run).collect::<Vec<_>>());
    assert!(
        runs.iter().any(|seen| *seen != runs[0]),
        "other seeds give other runs"
    );
}

#[test]
fn new_memory_has_a_pattern_and_addresses_are_not_reused() {
    let gpu = Gpu::new(1);
    let stream = gpu.stream();
    let first = gpu.make("cuMemAlloc_v2", &[BYTES]);
    assert_ne!(gpu.byte(first, stream), 0);
    gpu.must("cuMemFree_v2", &[first]);
    let second = gpu.make("cuMemAlloc_v2", &[BYTES]);
    assert!(second > first);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_held_stream_stops_and_other_streams_continue() {
    let gpu = Gpu::new(1);
    let (block, held, other, event) = (
        gpu.memory(BYTES, 0),
        gpu.stream(),
        gpu.stream(),
        gpu.event(),
    );
    gpu.session.hold(held, true);
    gpu.must("cuMemsetD8Async", &[block, 1, 32, held]);
    gpu.must("cuEventRecord", &[event, held]);
    gpu.must("cuMemsetD8Async", &[block + 32, 2, 32, other]);
    gpu.must("cuStreamSynchronize", &[other]);
    assert_eq!(gpu.call("cuEventQuery", &[event]), NOT_READY);
    gpu.session.hold(held, false);
    gpu.must("cuEventSynchronize", &[event]);
    assert_eq!((gpu.byte(block, held), gpu.byte(block + 63, other)), (1, 2));
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn an_injected_fault_applies_once_and_a_releasing_call_still_releases() {
    let gpu = Gpu::new(1);
    let stream = gpu.stream();
    gpu.session.fault(Some("cuEventCreate"), 2, 2);
    let first = gpu.event();
    let mut made = 0_u64;
    assert_eq!(gpu.call("cuEventCreate", &[&raw mut made as u64, 3]), 2);
    let second = gpu.event();
    gpu.session.fault(None, 1, 999);
    assert_eq!(gpu.call("cuEventDestroy_v2", &[first]), 999);
    assert_eq!(
        (
            gpu.session.faults_injected(),
            gpu.session.calls("cuEventCreate")
        ),
        (2, 3)
    );
    gpu.must("cuEventDestroy_v2", &[second]);
    gpu.must("cuStreamDestroy_v2", &[stream]);
    gpu.must("cuDevicePrimaryCtxRelease_v2", &[0]);
    gpu.session.assert_clean();
}

#[test]
fn a_broken_gpu_returns_the_same_code_from_every_call() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    gpu.session.break_at(2, ILLEGAL_ADDRESS);
    gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
    gpu.must("cuMemsetD8Async", &[block, 2, BYTES, stream]);
    for (name, argument) in [
        ("cuStreamSynchronize", stream),
        ("cuMemFree_v2", block),
        ("cuStreamDestroy_v2", stream),
    ] {
        assert_eq!(gpu.call(name, &[argument]), ILLEGAL_ADDRESS, "{name}");
    }
    // A destroyed context frees everything, so nothing is a leak.
    gpu.session.assert_clean();
}

#[test]
fn an_inert_fake_sees_no_gpu() {
    let inert = Session::inert().unwrap_or_else(|error| panic!("{error}"));
    // Calls of an earlier session, if another test had one.
    let before = inert.calls_total();
    assert_eq!(inert.call("cuInit", &[0]), 100);
    assert_eq!(inert.calls_total(), before);
}

#[test]
fn a_held_kernel_does_not_start_and_earlier_operations_run() {
    let gpu = Gpu::new(1);
    let (kernels, block) = (Kernels::load(&gpu), gpu.memory(BYTES, 0));
    let (stream, other, event) = (gpu.stream(), gpu.stream(), gpu.event());
    gpu.session.hold_kernel("set", true);
    gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
    gpu.must("cuEventRecord", &[event, stream]);
    assert_eq!(launch(&gpu, kernels.set, stream, &[block, 7]), 0);
    gpu.must("cuEventSynchronize", &[event]);
    // Other streams also continue, ordered after the event.
    gpu.must("cuStreamWaitEvent", &[other, event, 0]);
    assert_eq!(gpu.byte(block + 8, other), 1);
    while gpu.session.streams_at_kernel("set") == 0 {
        std::thread::yield_now();
    }
    assert_eq!(gpu.session.kernels_run("set"), 0);
    gpu.session.hold_kernel("set", false);
    assert_eq!(gpu.byte(block, stream), 7);
    assert_eq!(gpu.session.kernels_run("set"), 1);
    gpu.must("cuModuleUnload", &[kernels.module]);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn memory_freed_earlier_in_a_stream_can_be_allocated_again() {
    let gpu = Gpu::new(1);
    gpu.session.set_memory_bytes(2 * BYTES);
    let (stream, pool) = (gpu.stream(), gpu.pool(0));
    gpu.session.hold(stream, true);
    let allocate = [2 * BYTES, pool, stream];
    let first = gpu.make("cuMemAllocFromPoolAsync", &allocate);
    let mut none = 0_u64;
    let full = [&raw mut none as u64, 2 * BYTES, pool, stream];
    assert_eq!(gpu.call("cuMemAllocFromPoolAsync", &full), OUT_OF_MEMORY);
    gpu.must("cuMemFreeAsync", &[first, stream]);
    let second = gpu.make("cuMemAllocFromPoolAsync", &allocate);
    gpu.session.hold(stream, false);
    gpu.must("cuMemFreeAsync", &[second, stream]);
    gpu.must("cuStreamSynchronize", &[stream]);
    gpu.must("cuMemPoolDestroy", &[pool]);
    assert_eq!(gpu.violations(), [""; 0]);
}

/// A library that is left where the loader looks first is not used. This test runs itself with such a library path.
#[test]
fn the_library_of_this_build_is_used_whatever_the_path_has_first() {
    const INNER: &str = "FAKE_CUDA_WITH_A_STALE_LIBRARY";
    if std::env::var_os(INNER).is_some() {
        Gpu::new(1).session.release_all();
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("stale");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libcuda.so"), "an older build").unwrap();
    let name = "semantics::the_library_of_this_build_is_used_whatever_the_path_has_first";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact"]).env(INNER, "1");
    let ran = command.env("LD_LIBRARY_PATH", folder).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
}

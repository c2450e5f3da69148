//! The checker finds each kind of mistake with every seed, and the report identifies it.

use crate::raw::Gpu;

const BYTES: u64 = 64;

#[test]
fn a_missing_wait_is_found_with_every_seed_and_changes_the_result_with_some() {
    let mut outcomes = [0; 2];
    for seed in 0..100 {
        let gpu = Gpu::new(seed);
        let (from, to) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 7));
        let (writer, reader) = (gpu.stream(), gpu.stream());
        gpu.must("cuMemsetD8Async", &[from, 1, BYTES, writer]);
        gpu.must("cuMemcpyDtoDAsync_v2", &[to, from, BYTES, reader]);
        outcomes[usize::from(gpu.byte(to, reader))] += 1;
        gpu.assert_violation(&["race: ", "`cuMemsetD8Async`", "`cuMemcpyDtoDAsync_v2`"]);
    }
    assert!(
        outcomes.iter().all(|times| *times > 5),
        "both orders must occur: {outcomes:?}"
    );
}

#[test]
fn a_wait_for_an_event_orders_with_every_seed() {
    for seed in 0..100 {
        let gpu = Gpu::new(seed);
        let (from, to) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 7));
        let (writer, reader, event) = (gpu.stream(), gpu.stream(), gpu.event());
        gpu.must("cuMemsetD8Async", &[from, 1, BYTES, writer]);
        gpu.must("cuEventRecord", &[event, writer]);
        gpu.must("cuStreamWaitEvent", &[reader, event, 0]);
        // A later record of the event does not affect the wait.
        gpu.must("cuEventRecord", &[event, reader]);
        gpu.must("cuEventDestroy_v2", &[event]);
        gpu.must("cuMemcpyDtoDAsync_v2", &[to, from, BYTES, reader]);
        assert_eq!(gpu.byte(to, reader), 1, "seed {seed}");
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn an_event_recorded_before_the_write_does_not_order_it() {
    let gpu = Gpu::new(1);
    let (from, to) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 7));
    let (writer, reader, event) = (gpu.stream(), gpu.stream(), gpu.event());
    gpu.must("cuEventRecord", &[event, writer]);
    gpu.must("cuMemsetD8Async", &[from, 1, BYTES, writer]);
    gpu.must("cuStreamWaitEvent", &[reader, event, 0]);
    gpu.must("cuMemcpyDtoDAsync_v2", &[to, from, BYTES, reader]);
    gpu.assert_violation(&["race: "]);
}

#[test]
fn a_free_in_another_stream_races_with_a_use() {
    let gpu = Gpu::new(1);
    let pool = gpu.pool(0);
    let (one, other) = (gpu.stream(), gpu.stream());
    let block = gpu.make("cuMemAllocFromPoolAsync", &[BYTES, pool, one]);
    gpu.must("cuStreamSynchronize", &[one]);
    gpu.must("cuMemsetD8Async", &[block, 1, BYTES, one]);
    gpu.must("cuStreamSynchronize", &[other]);
    gpu.session.hold(other, true);
    gpu.must("cuMemFreeAsync", &[block, other]);
    // Executes the fill first. Otherwise it would be a use after free.
    while gpu.session.executed() < 2 {
        std::thread::yield_now();
    }
    gpu.session.hold(other, false);
    gpu.assert_violation(&["race: `cuMemFreeAsync`", "`cuMemsetD8Async`"]);
}

#[test]
fn a_use_after_free_is_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    gpu.must("cuMemFree_v2", &[block]);
    assert_eq!(gpu.call("cuMemsetD8Async", &[block, 1, BYTES, stream]), 1);
    gpu.assert_violation(&[
        "use after free: `cuMemsetD8Async`",
        "allocated by `cuMemAlloc_v2`",
        "freed by `cuMemFree_v2`",
    ]);
}

#[test]
fn a_free_during_a_use_is_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
    // The fill may have run already, but the host does not know that.
    gpu.must("cuMemFree_v2", &[block]);
    let reports = gpu.violations();
    let found = reports
        .iter()
        .any(|report| report.starts_with("race: ") || report.starts_with("use after"));
    assert!(found, "{reports:?}");
}

#[test]
fn a_block_is_freed_once_and_by_the_matching_function() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    assert_eq!(gpu.call("cuMemFree_v2", &[block + 8]), 1);
    assert_eq!(gpu.call("cuMemFreeAsync", &[block, stream]), 1);
    gpu.must("cuMemFree_v2", &[block]);
    assert_eq!(gpu.call("cuMemFree_v2", &[block]), 1);
    gpu.assert_violations(&["invalid free: ", "invalid free: ", "double free: "]);
}

#[test]
fn a_copy_out_of_bounds_is_refused() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let beyond = [block + 1, 1, BYTES, stream];
    assert_eq!(gpu.call("cuMemsetD8Async", &beyond), 1);
    gpu.assert_violation(&[
        "out of bounds: `cuMemsetD8Async`",
        "64 bytes at offset 1 of the 64",
    ]);
}

#[test]
fn pinned_bytes_that_change_before_their_copy_are_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let pinned = gpu.make("cuMemHostAlloc", &[BYTES, 1]);
    gpu.session.hold(stream, true);
    gpu.must("cuMemcpyHtoDAsync_v2", &[block, pinned, BYTES, stream]);
    // SAFETY: the block has this many bytes, and only the queued copy uses it as well.
    unsafe { (pinned as *mut u8).write(1) };
    gpu.session.hold(stream, false);
    gpu.must("cuStreamSynchronize", &[stream]);
    gpu.assert_violation(&["race: the pinned bytes", "were changed after the call"]);
}

#[test]
fn pinned_bytes_may_change_before_their_copy_if_an_earlier_copy_writes_them() {
    for seed in 0..20 {
        let gpu = Gpu::new(seed);
        let (from, to, stream) = (gpu.memory(BYTES, 5), gpu.memory(BYTES, 0), gpu.stream());
        let pinned = gpu.make("cuMemHostAlloc", &[BYTES, 1]);
        gpu.must("cuMemcpyDtoHAsync_v2", &[pinned, from, BYTES, stream]);
        gpu.must("cuMemcpyHtoDAsync_v2", &[to, pinned, BYTES, stream]);
        assert_eq!(gpu.byte(to, stream), 5);
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_free_of_pinned_memory_before_its_copy_is_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let pinned = gpu.make("cuMemHostAlloc", &[BYTES, 1]);
    gpu.session.hold(stream, true);
    gpu.must("cuMemcpyDtoHAsync_v2", &[pinned, block, BYTES, stream]);
    gpu.must_wait_for(stream, "cuMemFreeHost", &[pinned]);
    let reports = gpu.violations();
    assert!(
        reports[0].starts_with("freed while in use: `cuMemFreeHost`"),
        "{reports:?}"
    );
}

#[test]
fn destroyed_handles_are_refused() {
    let gpu = Gpu::new(1);
    let (stream, event) = (gpu.stream(), gpu.event());
    gpu.must("cuEventDestroy_v2", &[event]);
    assert_eq!(gpu.call("cuEventRecord", &[event, stream]), 400);
    gpu.must("cuStreamDestroy_v2", &[stream]);
    assert_eq!(gpu.call("cuStreamSynchronize", &[stream]), 400);
    assert_eq!(gpu.violations().len(), 2);
}

#[test]
fn a_call_without_a_current_context_is_reported() {
    let gpu = Gpu::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(gpu.call("cuMemAlloc_v2", &[0, BYTES]), 201));
    });
    gpu.assert_violation(&["no context: cuMemAlloc_v2 was called on thread"]);
}

#[test]
fn resources_left_at_the_end_are_leaks() {
    let gpu = Gpu::new(1);
    gpu.memory(BYTES, 0);
    gpu.make("cuMemHostAlloc", &[BYTES, 1]);
    gpu.stream();
    gpu.event();
    let reports = gpu.session.end();
    let leaks = [
        "64 bytes of GPU memory",
        "64 bytes of pinned memory",
        "1 streams",
        "1 events",
        "1 retains",
    ];
    for leak in leaks {
        let found = reports
            .iter()
            .filter(|report| report.contains(leak))
            .count();
        assert_eq!(found, 1, "{leak}: {reports:?}");
    }
    assert_eq!(reports.len(), leaks.len(), "{reports:?}");
}

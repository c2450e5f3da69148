//! Each mistake is found, whatever the seed, and said so that one sees what it was.

use crate::raw::Gpu;

const BYTES: u64 = 64;

#[test]
fn a_missing_wait_is_found_for_every_seed_and_does_harm_for_some() {
    let mut outcomes = [0; 2];
    for seed in 0..100 {
        let gpu = Gpu::new(seed);
        let (from, to) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 7));
        let (writer, reader) = (gpu.stream(), gpu.stream());
        gpu.must("cuMemsetD8Async", &[from, 1, BYTES, writer]);
        gpu.must("cuMemcpyDtoDAsync_v2", &[to, from, BYTES, reader]);
        outcomes[usize::from(gpu.byte(to, reader))] += 1;
        gpu.assert_wrong(&["race: ", "`cuMemsetD8Async`", "`cuMemcpyDtoDAsync_v2`"]);
    }
    assert!(
        outcomes.iter().all(|times| *times > 5),
        "both orders happen: {outcomes:?}"
    );
}

#[test]
fn a_wait_for_an_event_orders_for_every_seed() {
    for seed in 0..100 {
        let gpu = Gpu::new(seed);
        let (from, to) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 7));
        let (writer, reader, event) = (gpu.stream(), gpu.stream(), gpu.event());
        gpu.must("cuMemsetD8Async", &[from, 1, BYTES, writer]);
        gpu.must("cuEventRecord", &[event, writer]);
        gpu.must("cuStreamWaitEvent", &[reader, event, 0]);
        // What it remembers later is nobody's business any more.
        gpu.must("cuEventRecord", &[event, reader]);
        gpu.must("cuEventDestroy_v2", &[event]);
        gpu.must("cuMemcpyDtoDAsync_v2", &[to, from, BYTES, reader]);
        assert_eq!(gpu.byte(to, reader), 1, "seed {seed}");
        assert_eq!(gpu.wrong(), [""; 0], "seed {seed}");
    }
}

#[test]
fn an_event_that_was_recorded_too_early_orders_too_little() {
    let gpu = Gpu::new(1);
    let (from, to) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 7));
    let (writer, reader, event) = (gpu.stream(), gpu.stream(), gpu.event());
    gpu.must("cuEventRecord", &[event, writer]);
    gpu.must("cuMemsetD8Async", &[from, 1, BYTES, writer]);
    gpu.must("cuStreamWaitEvent", &[reader, event, 0]);
    gpu.must("cuMemcpyDtoDAsync_v2", &[to, from, BYTES, reader]);
    gpu.assert_wrong(&["race: "]);
}

#[test]
fn parts_of_a_block_that_are_apart_do_not_race() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(BYTES, 0);
    let (one, other) = (gpu.stream(), gpu.stream());
    gpu.must("cuMemsetD8Async", &[block, 1, 32, one]);
    gpu.must("cuMemsetD8Async", &[block + 32, 2, 32, other]);
    gpu.must("cuStreamSynchronize", &[one]);
    assert_eq!(gpu.wrong(), [""; 0]);
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
    // What it races with was executed first, or it would be a use after the end.
    while gpu.session.executed() < 2 {
        std::thread::yield_now();
    }
    gpu.session.hold(other, false);
    gpu.assert_wrong(&["race: `cuMemFreeAsync`", "`cuMemsetD8Async`"]);
}

#[test]
fn a_use_after_the_end_is_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    gpu.must("cuMemFree_v2", &[block]);
    assert_eq!(gpu.call("cuMemsetD8Async", &[block, 1, BYTES, stream]), 1);
    gpu.assert_wrong(&[
        "use after the end: `cuMemsetD8Async`",
        "made by `cuMemAlloc_v2`",
        "freed by `cuMemFree_v2`",
    ]);
}

#[test]
fn a_free_while_it_is_used_is_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
    // It may have run already: the host does not know.
    gpu.must("cuMemFree_v2", &[block]);
    let reports = gpu.wrong();
    let found = reports
        .iter()
        .any(|report| report.starts_with("race: ") || report.starts_with("use after"));
    assert!(found, "{reports:?}");
}

#[test]
fn a_block_is_freed_once_and_as_it_was_made() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    assert_eq!(gpu.call("cuMemFree_v2", &[block + 8]), 1);
    assert_eq!(gpu.call("cuMemFreeAsync", &[block, stream]), 1);
    gpu.must("cuMemFree_v2", &[block]);
    assert_eq!(gpu.call("cuMemFree_v2", &[block]), 1);
    let reports = gpu.wrong();
    let starts = ["wrong free: ", "wrong free: ", "double free: "];
    let said = reports
        .iter()
        .zip(starts)
        .all(|(report, start)| report.starts_with(start));
    assert!(said && reports.len() == 3, "{reports:?}");
}

#[test]
fn a_copy_out_of_bounds_is_refused() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    assert_eq!(
        gpu.call("cuMemsetD8Async", &[block + 1, 1, BYTES, stream]),
        1
    );
    gpu.assert_wrong(&[
        "out of bounds: `cuMemsetD8Async`",
        "64 bytes at 1 of the 64",
    ]);
}

#[test]
fn pinned_bytes_that_change_before_they_are_copied_are_found() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let pinned = gpu.make("cuMemHostAlloc", &[BYTES, 1]);
    gpu.session.hold(stream, true);
    gpu.must("cuMemcpyHtoDAsync_v2", &[block, pinned, BYTES, stream]);
    // SAFETY: it is of this many bytes, and ours, but for the copy.
    unsafe { (pinned as *mut u8).write(1) };
    gpu.session.hold(stream, false);
    gpu.must("cuStreamSynchronize", &[stream]);
    gpu.assert_wrong(&["race: the pinned bytes", "were changed after its call"]);
}

#[test]
fn pinned_bytes_that_an_earlier_copy_writes_may_change_before_they_are_copied() {
    for seed in 0..20 {
        let gpu = Gpu::new(seed);
        let (from, to, stream) = (gpu.memory(BYTES, 5), gpu.memory(BYTES, 0), gpu.stream());
        let pinned = gpu.make("cuMemHostAlloc", &[BYTES, 1]);
        gpu.must("cuMemcpyDtoHAsync_v2", &[pinned, from, BYTES, stream]);
        gpu.must("cuMemcpyHtoDAsync_v2", &[to, pinned, BYTES, stream]);
        assert_eq!(gpu.byte(to, stream), 5);
        assert_eq!(gpu.wrong(), [""; 0], "seed {seed}");
    }
}

#[test]
fn pinned_memory_is_not_freed_before_it_is_copied() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let pinned = gpu.make("cuMemHostAlloc", &[BYTES, 1]);
    gpu.session.hold(stream, true);
    gpu.must("cuMemcpyDtoHAsync_v2", &[pinned, block, BYTES, stream]);
    gpu.must("cuMemFreeHost", &[pinned]);
    gpu.session.hold(stream, false);
    let reports = gpu.wrong();
    assert!(
        reports[0].starts_with("freed while in use: `cuMemFreeHost`"),
        "{reports:?}"
    );
}

#[test]
fn handles_that_were_destroyed_are_known() {
    let gpu = Gpu::new(1);
    let (stream, event) = (gpu.stream(), gpu.event());
    gpu.must("cuEventDestroy_v2", &[event]);
    assert_eq!(gpu.call("cuEventRecord", &[event, stream]), 400);
    gpu.must("cuStreamDestroy_v2", &[stream]);
    assert_eq!(gpu.call("cuStreamSynchronize", &[stream]), 400);
    assert_eq!(gpu.wrong().len(), 2);
}

#[test]
fn a_thread_without_a_context_is_told_so() {
    let gpu = Gpu::new(1);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(gpu.call("cuMemAlloc_v2", &[0, BYTES]), 201));
    });
    gpu.assert_wrong(&["no context: cuMemAlloc_v2 was called on thread"]);
}

#[test]
fn what_is_left_at_the_end_is_a_leak() {
    let gpu = Gpu::new(1);
    gpu.memory(BYTES, 0);
    gpu.make("cuMemHostAlloc", &[BYTES, 1]);
    gpu.stream();
    gpu.event();
    let reports = gpu.session.end();
    let leaks = [
        "64 bytes of memory of the GPU",
        "64 bytes of pinned memory",
        "1 streams",
        "1 events",
        "1 retains",
    ];
    for leak in leaks {
        let said = reports
            .iter()
            .filter(|report| report.contains(leak))
            .count();
        assert_eq!(said, 1, "{leak}: {reports:?}");
    }
    assert_eq!(reports.len(), leaks.len(), "{reports:?}");
}

//! Collectives by NCCL that fail: every member's output carries the failure, and nothing hangs (I5, I7, I10).

use millstream::{Error, Reason, write};
use millstream_cluster::{ClusterError, Reduction};
use rstest::rstest;

use crate::{Rig, create, inputs, read, refs, texts};

/// I7: an error of the library fails all parts with its text, and the next call works.
#[rstest]
#[case(
    "ncclCommInitAll",
    1,
    2,
    "NCCL's `ncclCommInitAll` failed: unhandled system error (2)"
)]
#[case(
    "ncclGroupStart",
    1,
    3,
    "NCCL's `ncclGroupStart` failed: internal error (3)"
)]
#[case(
    "ncclAllReduce",
    1,
    4,
    "NCCL's `ncclAllReduce` failed: invalid argument (4)"
)]
#[case(
    "ncclAllReduce",
    3,
    5,
    "NCCL's `ncclAllReduce` failed: invalid usage (5)"
)]
#[case(
    "ncclGroupEnd",
    1,
    1,
    "NCCL's `ncclGroupEnd` failed: unhandled cuda error (1)"
)]
// After the collective was submitted.
#[case(
    "launched",
    1,
    1,
    "NCCL's `ncclGroupEnd` failed: unhandled cuda error (1)"
)]
#[case(
    "ncclGroupEnd",
    1,
    77,
    "NCCL's `ncclGroupEnd` failed: unknown result code (77)"
)]
fn an_error_of_the_library_fails_all_parts_i7(
    #[case] call: &str,
    #[case] nth: u64,
    #[case] code: u32,
    #[case] why: &str,
    #[values(false, true)] first: bool,
) {
    let rig = Rig::new(7, 3);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 40]; 3]);
    let created = call == "ncclCommInitAll";
    if !first && !created {
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
        assert_eq!(read(&group, &buffers), vec![vec![3; 40]; 3]);
    }
    rig.nccl.fail(call, nth, code);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let text = format!(
        "`all_reduce` failed: the device refused it, {why}; so these did not run: `all_reduce`"
    );
    assert_eq!(texts(&group, &buffers), vec![text; 3]);
    for (member, buffer) in buffers.iter().enumerate() {
        group.stream(member).fill(buffer, 2).unwrap();
    }
    group
        .all_reduce(Reduction::Product, &refs(&buffers))
        .unwrap();
    assert_eq!(read(&group, &buffers), vec![vec![8; 40]; 3]);
    drop((buffers, group));
    rig.close();
}

/// I5, I7: an error after the launch, for which the work on all GPUs would wait for ever, ends it.
#[rstest]
fn an_asynchronous_error_fails_all_parts_i5_i7(#[values(1, 2, 3)] seed: u64) {
    let rig = Rig::new(seed, 3);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 40]; 3]);
    rig.nccl.hang();
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    while rig.nccl.fail_hanging(6) == 0 {
        std::thread::yield_now();
    }
    let text = "`all_reduce` failed: the device refused it, a collective of NCCL failed after its launch: remote process exited or there was a network error (6); so these did not run: `all_reduce`";
    assert_eq!(texts(&group, &buffers), vec![text; 3]);
    assert_eq!(rig.nccl.calls("ncclCommAbort"), 3);
    group.stream(1).fill(&buffers[1], 5).unwrap();
    group.broadcast(1, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![vec![5; 40]; 3]);
    assert_eq!(rig.nccl.calls("ncclCommInitAll"), 2);
    drop((buffers, group));
    rig.close();
}

/// I5: a collective of another group that waits behind one that stands still runs once that one has failed.
#[rstest]
fn a_collective_behind_one_that_stands_still_runs_i5(#[values(1, 2, 3)] seed: u64) {
    let rig = Rig::new(seed, 3);
    let (all, two) = (rig.fleet.group(), rig.fleet.group_of(&[1, 2]).unwrap());
    let stuck = create(&all, &vec![vec![1_u32; 40]; 3]);
    let behind = create(&two, &vec![vec![4_u32; 40]; 2]);
    rig.nccl.hang();
    all.all_reduce(Reduction::Sum, &refs(&stuck)).unwrap();
    while rig.nccl.fail_hanging(0) == 0 {
        std::thread::yield_now();
    }
    two.all_reduce(Reduction::Sum, &refs(&behind)).unwrap();
    while rig.nccl.calls("launched") < 2 {
        std::thread::yield_now();
    }
    let answers = [0, 1].map(|member| two.stream(member).read(&behind[member]));
    rig.nccl.fail_hanging(6);
    for answer in answers {
        assert_eq!(answer.wait().unwrap(), [8; 40]);
    }
    for text in texts(&all, &stuck) {
        assert!(text.contains("failed after its launch"), "{text}");
    }
    drop((stuck, behind, all, two));
    rig.close();
}

/// I7: the driver refuses what the collective needs beside the library.
#[rstest]
#[case("cuEventCreate", 1)]
#[case("cuStreamCreateWithPriority", 1)]
#[case("cuStreamCreateWithPriority", 3)]
fn a_refusal_of_the_driver_fails_all_parts_i7(#[case] call: &str, #[case] nth: u64) {
    let rig = Rig::new(8, 3);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 40]; 3]);
    read(&group, &buffers);
    // The library creates six events for itself.
    let nth = if call == "cuEventCreate" {
        nth + 6
    } else {
        nth
    };
    rig.gpu.fault(Some(call), nth, 1);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let text = format!(
        "`all_reduce` failed: the device refused it, the driver call `{call}` failed: CUDA_ERROR_INVALID_VALUE (1); so these did not run: `all_reduce`"
    );
    assert_eq!(texts(&group, &buffers), vec![text; 3]);
    for (member, buffer) in buffers.iter().enumerate() {
        group.stream(member).fill(buffer, 2).unwrap();
    }
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![vec![6; 40]; 3]);
    drop((buffers, group));
    rig.close();
}

/// I7: a part that cannot begin fails the call before the library hears of it.
#[test]
fn a_poisoned_input_fails_all_parts_i7() {
    let rig = Rig::new(9, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &inputs(2, 300));
    let broken = group
        .stream(0)
        .external("broken", (write(&buffers[0]),), |task| {
            task.unwrap().fail(Reason::Refused("no".to_owned()));
        });
    broken.unwrap();
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let why = "`broken` failed: the device refused it, no; so these did not run: `all_reduce`";
    assert_eq!(texts(&group, &buffers)[1], why);
    assert_eq!(rig.nccl.calls("ncclGroupStart"), 0);
    drop((buffers, group));
    rig.close();
}

/// I5, I7: GPUs that are lost at any operation end the calls for all, and no answer is missing. The fake loses all GPUs
/// at once.
#[test]
fn a_lost_gpu_ends_the_calls_i5() {
    for nth in 1..60 {
        let rig = Rig::new(nth, 2);
        let group = rig.fleet.group();
        let buffers = create(&group, &vec![vec![1_u32; 30]; 2]);
        read(&group, &buffers);
        rig.gpu.break_at(nth, 700);
        for _ in 0..4 {
            let called = group.all_reduce(Reduction::Sum, &refs(&buffers));
            assert!(
                matches!(called, Ok(()) | Err(ClusterError::Refused { .. })),
                "{called:?}"
            );
        }
        for (member, buffer) in buffers.iter().enumerate() {
            match group.stream(member).read(buffer).wait() {
                Ok(values) => assert_eq!(values, [16; 30]),
                Err(Error::Failed(failure)) => {
                    let reason = &failure.root().reason;
                    // The library meets the loss in its own calls, too.
                    let by_library =
                        matches!(reason, Reason::Refused(why) if why.contains("cuda error"));
                    assert!(by_library || *reason == Reason::Lost, "{failure}");
                }
                Err(error) => assert!(matches!(error, Error::DeviceLost { .. }), "{error}"),
            }
        }
        let Rig { fleet, nccl, .. } = rig;
        drop((buffers, group, fleet));
        nccl.assert_clean();
    }
}

/// I10: a group that is dropped with a collective in flight leaves it to its thread, which then destroys the
/// communicators; a dropped fleet waits for that.
#[rstest]
fn a_dropped_group_leaves_its_calls_in_flight_i10(
    #[values(1, 2, 3)] seed: u64,
    #[values(false, true)] fleet_first: bool,
) {
    let rig = Rig::new(seed, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 3000]; 2]);
    // Creates the streams.
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    read(&group, &buffers);
    let streams = [0, 1].map(|member| group.stream(member).client().new_stream());
    rig.gpu.hold_all();
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    while rig.nccl.calls("ncclGroupEnd") < 2 {
        std::thread::yield_now();
    }
    let answers = [0, 1].map(|member| streams[member].read(&buffers[member]));
    let group = fleet_first.then_some(group);
    rig.gpu.release_all();
    for answer in answers {
        assert_eq!(answer.wait().unwrap(), [4; 3000]);
    }
    drop((buffers, streams));
    let Rig { fleet, nccl, gpu } = rig;
    drop(fleet);
    nccl.assert_clean();
    // The streams of a group keep the contexts of its devices.
    drop(group);
    gpu.assert_clean();
}

/// I2, I4: a part ends only when no work uses its memory any more, also if the driver does not answer whether it has ended.
#[rstest]
fn a_refused_question_does_not_end_the_parts_i2(
    #[values(1, 2, 3)] seed: u64,
    #[values(false, true)] by_nccl: bool,
) {
    let rig = Rig::new(seed, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 3000]; 2]);
    // Creates the streams.
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    read(&group, &buffers);
    rig.gpu.hold_all();
    rig.gpu.fault(Some("cuEventQuery"), 1, 1);
    if by_nccl {
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    } else {
        rig.fleet.copy(&buffers[0], &buffers[1]).unwrap();
    }
    while rig.gpu.faults_injected() == 0 {
        std::thread::yield_now();
    }
    let streams = [0, 1].map(|member| group.stream(member).client().new_stream());
    for (stream, buffer) in streams.iter().zip(&buffers) {
        stream.fill(buffer, 9).unwrap();
    }
    rig.gpu.release_all();
    assert_eq!(read(&group, &buffers), vec![vec![9; 3000]; 2]);
    drop((buffers, streams, group));
    rig.close();
}

//! Collectives by NCCL that fail: every member's output carries the failure, and nothing hangs (I5, I7, I10).

use millstream::{Error, Handle, Reason, write};
use millstream_cluster::{ClusterError, Group, Reduction};
use rstest::rstest;

use crate::{Rig, create, read, refs, texts};

/// Fills the buffers of all members, so that they have no failure, and asserts that their product is right.
#[track_caller]
fn assert_next_call_works(group: &Group, buffers: &[Handle<u32>]) {
    for (member, buffer) in buffers.iter().enumerate() {
        group.stream(member).fill(buffer, 2).unwrap();
    }
    group
        .all_reduce(Reduction::Product, &refs(buffers))
        .unwrap();
    let product = 2_u32.pow(buffers.len() as u32);
    assert_eq!(read(group, buffers), vec![vec![product; 40]; buffers.len()]);
}

/// Asserts that the all-reduce of all members has failed for this reason.
#[track_caller]
fn assert_refused(group: &Group, buffers: &[Handle<u32>], why: &str) {
    let text = format!(
        "`all_reduce` failed: the device refused it, {why}; so these did not run: `all_reduce`"
    );
    assert_eq!(texts(group, buffers), vec![text; buffers.len()]);
}

/// I7: an error of the library fails all parts with its text, and the next call works.
#[rstest]
#[case("ncclCommInitAll", 1, "unhandled system error (2)")]
#[case("ncclGroupStart", 1, "internal error (3)")]
#[case("ncclAllReduce", 1, "invalid argument (4)")]
#[case("ncclAllReduce", 3, "invalid usage (5)")]
#[case("ncclGroupEnd", 1, "unhandled cuda error (1)")]
// After the collective was submitted.
#[case("launched", 1, "unhandled cuda error (1)")]
#[case("ncclGroupEnd", 1, "unknown result code (77)")]
fn an_error_of_the_library_fails_all_parts_i7(
    #[case] call: &str,
    #[case] nth: u64,
    #[case] why: &str,
    #[values(false, true)] first: bool,
) {
    let rig = Rig::new(7, 3);
    let (group, buffers) = rig.ones(40);
    if !first && call != "ncclCommInitAll" {
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
        assert_eq!(read(&group, &buffers), vec![vec![3; 40]; 3]);
    }
    let code = why[why.rfind('(').unwrap() + 1..why.len() - 1].parse();
    rig.nccl.fail(call, nth, code.unwrap());
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let name = call.replace("launched", "ncclGroupEnd");
    assert_refused(&group, &buffers, &format!("NCCL's `{name}` failed: {why}"));
    assert_next_call_works(&group, &buffers);
    rig.close((buffers, group));
}

/// I5, I7: an error after the launch, for which the work on all GPUs would wait for ever, ends it.
#[rstest]
fn an_asynchronous_error_fails_all_parts_i5_i7(#[values(1, 2, 3)] seed: u64) {
    let rig = Rig::new(seed, 3);
    let (group, buffers) = rig.ones(40);
    rig.nccl.hang();
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    while rig.nccl.fail_hanging(6) == 0 {
        std::thread::yield_now();
    }
    let why = "a collective of NCCL failed after its launch: remote process exited or there was a network error (6)";
    assert_refused(&group, &buffers, why);
    assert_eq!(rig.nccl.calls("ncclCommAbort"), 3);
    group.stream(1).fill(&buffers[1], 5).unwrap();
    group.broadcast(1, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![vec![5; 40]; 3]);
    assert_eq!(rig.nccl.calls("ncclCommInitAll"), 2);
    rig.close((buffers, group));
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
    rig.close((stuck, behind, all, two));
}

/// I7: the driver refuses what the collective needs beside the library.
#[rstest]
#[case("cuEventCreate", 1)]
#[case("cuStreamCreateWithPriority", 1)]
#[case("cuStreamCreateWithPriority", 3)]
fn a_refusal_of_the_driver_fails_all_parts_i7(#[case] call: &str, #[case] nth: u64) {
    let rig = Rig::new(8, 3);
    let (group, buffers) = rig.ones(40);
    read(&group, &buffers);
    // The library creates six events for itself.
    let nth = if call == "cuEventCreate" {
        nth + 6
    } else {
        nth
    };
    rig.gpu.fault(Some(call), nth, 1);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let why = format!("the driver call `{call}` failed: CUDA_ERROR_INVALID_VALUE (1)");
    assert_refused(&group, &buffers, &why);
    assert_next_call_works(&group, &buffers);
    rig.close((buffers, group));
}

/// Calls of two members: an all-reduce by NCCL, or a copy from the first to the second one and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Nccl,
    Copies,
}

impl By {
    fn call(self, rig: &Rig, group: &Group, buffers: &[Handle<u32>]) -> Result<(), ClusterError> {
        match self {
            Self::Nccl => group.all_reduce(Reduction::Sum, &refs(buffers)),
            Self::Copies => {
                let there = rig.fleet.copy(&buffers[0], &buffers[1]);
                there.and(rig.fleet.copy(&buffers[1], &buffers[0]))
            }
        }
    }
}

/// I7: a part that cannot begin fails the call before the library or the driver hears of it.
#[rstest]
#[case(By::Nccl, "all_reduce")]
#[case(By::Copies, "copy")]
fn a_poisoned_input_fails_all_parts_i7(#[case] by: By, #[case] name: &str) {
    let rig = Rig::new(9, 2);
    let (group, buffers) = rig.ones(300);
    let broken = group
        .stream(0)
        .external("broken", (write(&buffers[0]),), |task| {
            task.unwrap().fail(Reason::Refused("no".to_owned()));
        });
    broken.unwrap();
    by.call(&rig, &group, &buffers).unwrap();
    let why = format!("`broken` failed: the device refused it, no; so these did not run: `{name}`");
    assert_eq!(texts(&group, &buffers)[1], why);
    assert_eq!(rig.nccl.calls("ncclGroupStart"), 0);
    assert_eq!(rig.gpu.calls("cuMemcpyPeerAsync"), 0);
    rig.close((buffers, group));
}

/// I5, I7: GPUs that are lost at any operation end the calls for all, and no answer is missing. The fake loses all GPUs
/// at once.
#[rstest]
#[case(By::Nccl, 60, 32)]
#[case(By::Copies, 24, 1)]
fn a_lost_gpu_ends_the_calls_i5(#[case] by: By, #[case] operations: u64, #[case] result: u32) {
    for nth in 1..operations {
        let rig = Rig::new(nth, 2);
        let group = rig.fleet.group();
        let buffers = create(&group, &[vec![1; 30], vec![3; 30]]);
        read(&group, &buffers);
        rig.gpu.break_at(nth, 700);
        for _ in 0..4 {
            let called = by.call(&rig, &group, &buffers);
            assert!(
                matches!(called, Ok(()) | Err(ClusterError::Refused { .. })),
                "{called:?}"
            );
        }
        for (member, buffer) in buffers.iter().enumerate() {
            match group.stream(member).read(buffer).wait() {
                Ok(values) => assert_eq!(values, [result; 30]),
                Err(Error::Failed(failure)) => {
                    let reason = &failure.root().reason;
                    // The library meets the loss in its own calls, too.
                    let by_library = by == By::Nccl
                        && matches!(reason, Reason::Refused(why) if why.contains("cuda error"));
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
    let (group, buffers) = rig.ones(3000);
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
    #[values(By::Nccl, By::Copies)] by: By,
) {
    let rig = Rig::new(seed, 2);
    let (group, buffers) = rig.ones(3000);
    // Creates the streams.
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    read(&group, &buffers);
    rig.gpu.hold_all();
    rig.gpu.fault(Some("cuEventQuery"), 1, 1);
    by.call(&rig, &group, &buffers).unwrap();
    while rig.gpu.faults_injected() == 0 {
        std::thread::yield_now();
    }
    let streams = [0, 1].map(|member| group.stream(member).client().new_stream());
    for (stream, buffer) in streams.iter().zip(&buffers) {
        stream.fill(buffer, 9).unwrap();
    }
    rig.gpu.release_all();
    assert_eq!(read(&group, &buffers), vec![vec![9; 3000]; 2]);
    rig.close((buffers, streams, group));
}

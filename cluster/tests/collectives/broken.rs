//! Parts that cannot run: every member's output carries the failure, and nothing hangs (I5, I6, I7, I10).

use std::time::Duration;

use millstream::sim::{Call, Faults, Sim};
use millstream::{CancelToken, Cpu, CubeCount, Device, Error, Handle, Kernel, Reason, update};
use millstream_cluster::{ClusterError, Fleet, Group, Reduction};
use rstest::rstest;

use crate::{Kind, Rig, hold, ones, read, refs, sim};

/// Poisons a buffer of member 0.
fn poison(fleet: &Fleet, group: &Group, buffer: &Handle<u32>) {
    let kernel = Kernel::new("boom")
        .updates::<u32>("v")
        .native(|_, _| panic!("boom"));
    let kernel = fleet.devices()[0].new_client().kernel(kernel).unwrap();
    let launched = group
        .stream(0)
        .launch(&kernel, CubeCount::single(), (update(buffer),));
    launched.unwrap();
}

fn texts(group: &Group, buffers: &[Handle<u32>]) -> Vec<String> {
    let read = |(member, buffer)| group.stream(member).read(buffer).wait();
    let errors = buffers.iter().enumerate().map(read);
    errors
        .map(|outcome| outcome.unwrap_err().to_string())
        .collect()
}

/// I7: a poisoned input poisons the outputs of all members, with the root, and an overwrite heals each.
#[rstest]
#[case(Kind::Cpu)]
#[case(Kind::Sim)]
#[case(Kind::Mixed)]
fn poison_reaches_every_member(#[case] kind: Kind) {
    let rig = Rig::new(kind, 3);
    let (group, buffers) = rig.ones(4);
    poison(&rig.fleet, &group, &buffers[0]);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let text = "`boom` failed: panicked with \"boom\"; so these did not run: `all_reduce`";
    assert_eq!(texts(&group, &buffers), vec![text; 3]);
    // A broadcast of clean data heals.
    group.stream(1).fill(&buffers[1], 5).unwrap();
    group.broadcast(1, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![vec![5; 4]; 3]);
}

/// I6, I7: a call that is withdrawn on one device fails on all; a send that has not begun fails its receive.
#[rstest]
fn a_cancelled_call_fails_for_all_members(#[values(false, true)] is_transfer: bool) {
    let rig = Rig::new(Kind::Mixed, 2);
    let (group, buffers) = rig.ones(4);
    let guard = rig.hold(0, &buffers[0]);
    let token = CancelToken::new();
    let bound = group.with_cancel(&token);
    match is_transfer {
        true => {
            bound.send(1, &buffers[0]).unwrap();
            group.receive(0, &buffers[1]).unwrap();
        }
        false => bound.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap(),
    }
    // The part of member 1 has begun, and waits for that of member 0.
    token.cancel();
    drop(guard);
    let poisoned = if is_transfer { 1..2 } else { 0..2 };
    for (member, buffer) in buffers
        .iter()
        .enumerate()
        .filter(|(at, _)| poisoned.contains(at))
    {
        let error = group.stream(member).read(buffer).wait().unwrap_err();
        assert_eq!(error.failure().unwrap().root().reason, Reason::Cancelled);
    }
}

/// I7: a part whose data is ready after the call has failed fails, too.
#[test]
fn a_part_that_arrives_after_the_failure_fails() {
    let rig = Rig::new(Kind::Cpu, 2);
    let (group, buffers) = rig.ones(4);
    let guard = rig.hold(1, &buffers[1]);
    poison(&rig.fleet, &group, &buffers[0]);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    // The failure of member 0 is known, and member 1 has not begun.
    assert!(group.stream(0).read(&buffers[0]).wait().is_err());
    drop(guard);
    let text = "`boom` failed: panicked with \"boom\"; so these did not run: `all_reduce`";
    assert_eq!(texts(&group, &buffers), [text; 2]);
}

/// I5: a device that is lost in the middle of a call fails it for the others, at each of its calls. Each answer is the
/// value of before or after the call, or a failure.
#[rstest]
fn a_lost_device_ends_the_calls_of_the_others(#[values(0, 1)] lost: usize) {
    for nth in 1..14 {
        let devices = [0, 1].map(|index| {
            let faults = match index == lost {
                true => Faults::none().lost_from(nth),
                false => Faults::none(),
            };
            sim(Sim::seed(3).faults(faults))
        });
        let fleet = Fleet::new(devices).unwrap();
        let group = fleet.group();
        let created = [0, 1].map(|member| group.stream(member).create(&[1_u32; 4]));
        let [Ok(a), Ok(b)] = created else {
            continue;
        };
        let buffers = [a, b];
        for _ in 0..3 {
            // A device that is known to be lost refuses its part.
            let called = group.all_reduce(Reduction::Sum, &refs(&buffers));
            assert!(
                matches!(called, Ok(()) | Err(ClusterError::Refused { .. })),
                "{called:?}"
            );
        }
        let mut answer = group.stream(1 - lost).read(&buffers[1 - lost]);
        match answer.wait_timeout(Duration::from_secs(60)) {
            Ok(values) => {
                assert!([[1; 4], [2; 4], [4; 4], [8; 4]].contains(&values.try_into().unwrap()));
            }
            Err(Error::Failed(failure)) => assert_eq!(failure.root().reason, Reason::Lost),
            Err(other) => panic!("{other}"),
        }
        // The others go on with what does not need the lost device.
        let stream = group.stream(1 - lost);
        stream.fill(&buffers[1 - lost], 9).unwrap();
        assert_eq!(stream.read(&buffers[1 - lost]).wait().unwrap(), [9; 4]);
    }
}

/// I6: a device that refuses the resources of its part fails the call for the others.
#[test]
fn a_refused_part_fails_the_call() {
    let refusing = Sim::seed(5).faults(Faults::none().nth(Call::Resources, 1));
    let fleet = Fleet::new([sim(refusing), sim(Sim::seed(6))]).unwrap();
    let (group, buffers) = ones(&fleet, 4);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let texts = texts(&group, &buffers);
    assert!(
        texts.iter().all(|text| text.contains("refused")),
        "{texts:?}"
    );
    group.stream(0).fill(&buffers[0], 2).unwrap();
    group.broadcast(0, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![vec![2; 4]; 2]);
}

/// I5, I10: a device that is closed refuses its part, and the outputs of the others carry that.
#[test]
fn a_closed_device_fails_the_call_for_the_others() {
    let rig = Rig::new(Kind::Cpu, 2);
    let (group, buffers) = rig.ones(4);
    rig.fleet.devices()[1].close(Duration::from_secs(60));
    let error = group
        .all_reduce(Reduction::Sum, &refs(&buffers))
        .unwrap_err();
    assert!(
        matches!(error, ClusterError::Refused { member: 1, .. }),
        "{error}"
    );
    let error = group.stream(0).read(&buffers[0]).wait().unwrap_err();
    assert_eq!(error.failure().unwrap().root().reason, Reason::Closed);
}

/// I10: devices close while a call waits for a part, in either order, and no thread stays.
#[rstest]
fn a_close_with_a_call_in_flight_ends(#[values(0, 1)] first: usize) {
    let devices = [0, 1].map(|_| Device::open(Cpu::default()).unwrap());
    let fleet = Fleet::new(devices).unwrap();
    let (group, buffers) = ones(&fleet, 4);
    let guard = hold(&fleet, 0, &buffers[0]);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    fleet.devices()[first].close(Duration::from_millis(20));
    drop(guard);
    fleet.devices()[1 - first].close(Duration::from_secs(60));
    let read = group.stream(0).read(&buffers[0]).wait();
    assert!(matches!(read, Err(Error::Closed)), "{read:?}");
}

/// I10: a fleet that is dropped before its groups does not wait for a member that never calls, nor for two that send and
/// receive the same bytes, and so wait for each other.
#[rstest]
fn a_dropped_fleet_ends_transfers_that_wait(#[values(false, true)] for_each_other: bool) {
    let devices = [0, 1].map(|_| Device::open(Cpu::default()).unwrap());
    let fleet = Fleet::new(devices).unwrap();
    let (group, buffers) = ones(&fleet, 4);
    if for_each_other {
        for (member, buffer) in buffers.iter().enumerate() {
            group.send(1 - member, buffer).unwrap();
            group.receive(1 - member, buffer).unwrap();
        }
    } else {
        group.receive(1, &buffers[0]).unwrap();
        group.send(0, &buffers[1]).unwrap();
        group.receive(1, &buffers[0]).unwrap();
    }
    let answer = group.stream(0).read(&buffers[0]);
    drop(fleet);
    let error = answer.wait().unwrap_err();
    let is_closed = match error.failure() {
        Some(failure) => failure.root().reason == Reason::Closed,
        None => matches!(error, Error::Closed),
    };
    assert!(is_closed, "{error}");
    assert!(group.send(0, &buffers[1]).is_err());
}

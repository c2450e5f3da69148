//! Calls that move bytes from GPU to GPU by copies of the driver.

use millstream_cluster::{Fleet, Reduction};
use rstest::rstest;

use crate::{Rig, create, inputs, open, read, refs, session, zeros};

/// The calls by which data would pass through memory of the host.
const TO_HOST: &str = "cuMemcpyDtoHAsync_v2";

/// I1, I2: a copy, or a send and its receive, is ordered after the tasks before it and before those after it, on both
/// devices, and its bytes do not go through the host.
#[rstest]
fn a_copy_is_ordered_on_both_devices_i1_i2(
    #[values(true, false)] peers: bool,
    #[values(false, true)] is_transfer: bool,
    #[values(1, 2, 3)] seed: u64,
) {
    let rig = Rig::new(seed, 2);
    rig.gpu.set_peers(peers);
    let group = rig.fleet.group();
    let buffers = zeros::<u32>(&group, 5000);
    for round in 1..4_u32 {
        group.stream(0).fill(&buffers[0], round).unwrap();
        if is_transfer {
            group.receive(0, &buffers[1]).unwrap();
            group.send(1, &buffers[0]).unwrap();
        } else {
            rig.fleet.copy(&buffers[0], &buffers[1]).unwrap();
        }
        group.stream(0).fill(&buffers[0], 77).unwrap();
        let before = rig.gpu.calls(TO_HOST);
        let read = group.stream(1).read(&buffers[1]).wait().unwrap();
        assert_eq!(read, vec![round; 5000]);
        // Only the read.
        assert_eq!(rig.gpu.calls(TO_HOST), before + 1);
        group.stream(1).fill(&buffers[1], 78).unwrap();
    }
    assert_eq!(rig.gpu.calls("cuMemcpyPeerAsync"), 3);
    // Once for each pair of devices.
    assert_eq!(rig.gpu.calls("cuMemPoolSetAccess"), u64::from(peers));
    rig.close((buffers, group));
}

/// One buffer reaches all others, and all buffers reach all, also with another device on the same GPU.
#[rstest]
fn broadcasts_and_gathers_move_by_copies(
    #[values(&[0, 1, 2], &[0, 0], &[1, 0, 1])] ordinals: &[usize],
    #[values(0, 1, 900)] len: usize,
) {
    let gpu = session(len as u64, 3);
    let fleet = Fleet::new(ordinals.iter().map(|ordinal| open(*ordinal))).unwrap();
    let rig = Rig::of(fleet, gpu).without_nccl();
    let group = rig.fleet.group();
    let members = ordinals.len();
    let values = inputs(members, len);
    for root in 0..members {
        let buffers = create(&group, &values);
        group.broadcast(root, &refs(&buffers)).unwrap();
        assert_eq!(read(&group, &buffers), vec![values[root].clone(); members]);
    }
    let (from, to) = (create(&group, &values), zeros::<u32>(&group, len * members));
    let reads = rig.gpu.calls(TO_HOST);
    group.all_gather(&refs(&from), &refs(&to)).unwrap();
    assert_eq!(read(&group, &to), vec![values.concat(); members]);
    if len > 0 {
        assert_eq!(rig.gpu.calls(TO_HOST), reads + members as u64);
    }
    rig.close((from, to, group));
}

/// With a member on another backend, and for reductions without a library, bytes go through the host.
#[test]
fn other_calls_go_through_the_host() {
    let rig = Rig::with_cpu(5, 2);
    let group = rig.fleet.group();
    let values = inputs(3, 40);
    let buffers = create(&group, &values);
    rig.fleet.copy(&buffers[0], &buffers[2]).unwrap();
    rig.fleet.copy(&buffers[2], &buffers[1]).unwrap();
    assert_eq!(read(&group, &buffers), vec![values[0].clone(); 3]);
    group.broadcast(1, &refs(&buffers)).unwrap();
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    let sums: Vec<_> = values[0].iter().map(|value| value * 3).collect();
    assert_eq!(read(&group, &buffers), vec![sums; 3]);
    // The two GPUs of this fleet copy between them nevertheless.
    assert_eq!(rig.gpu.calls("cuMemcpyPeerAsync"), 0);
    rig.fleet.copy(&buffers[0], &buffers[1]).unwrap();
    group.stream(1).read(&buffers[1]).wait().unwrap();
    assert_eq!(rig.gpu.calls("cuMemcpyPeerAsync"), 1);
    rig.close((buffers, group));
}

/// I7: a call of the driver that is refused fails all parts with its text, and the next call works. Copies that were
/// submitted before it complete before their parts end.
#[rstest]
#[case("cuMemcpyPeerAsync", 1, false)]
#[case("cuMemcpyPeerAsync", 2, false)]
#[case("cuMemcpyPeerAsync", 6, false)]
#[case("cuMemcpyDtoDAsync_v2", 2, false)]
// The thread waits for the copies instead.
#[case("cuEventCreate", 1, true)]
fn a_refused_copy_fails_all_parts_i7(#[case] call: &str, #[case] nth: u64, #[case] passes: bool) {
    let rig = Rig::new(6, 3).without_nccl();
    let group = rig.fleet.group();
    let values = inputs(3, 900);
    let (from, to) = (create(&group, &values), zeros::<u32>(&group, 2700));
    read(&group, &to);
    rig.gpu.fault(Some(call), nth, 1);
    group.all_gather(&refs(&from), &refs(&to)).unwrap();
    for (member, target) in to.iter().enumerate() {
        let answer = group.stream(member).read(target).wait();
        match passes {
            true => assert_eq!(answer.unwrap(), values.concat()),
            false => {
                let text = answer.unwrap_err().to_string();
                let name = call.trim_end_matches("_v2");
                let why = format!(
                    "`all_gather` failed: the device refused it, the driver call `{name}` failed: CUDA_ERROR_INVALID_VALUE (1); so these did not run: `all_gather`"
                );
                assert_eq!(text, why);
            }
        }
    }
    assert_eq!(rig.gpu.faults_injected(), 1);
    // After the copies that were submitted before the refusal, or the fake reports a race.
    for (member, target) in to.iter().enumerate() {
        group.stream(member).fill(target, 9).unwrap();
    }
    assert_eq!(read(&group, &to), vec![vec![9; 2700]; 3]);
    assert_eq!(read(&group, &from), values);
    group.all_gather(&refs(&from), &refs(&to)).unwrap();
    assert_eq!(read(&group, &to), vec![values.concat(); 3]);
    rig.close((from, to, group));
}

/// I10: a group that is dropped while its call is in flight leaves the call to its thread, and a dropped fleet waits for
/// that thread.
#[rstest]
fn a_dropped_group_leaves_its_calls_in_flight_i10(#[values(1, 2, 3, 4, 5)] seed: u64) {
    let rig = Rig::new(seed, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &inputs(2, 4000));
    let answer = {
        group.send(1, &buffers[0]).unwrap();
        group.receive(0, &buffers[1]).unwrap();
        let answer = group.stream(1).read(&buffers[1]);
        drop(group);
        answer
    };
    assert_eq!(answer.wait().unwrap(), inputs(2, 4000)[0]);
    rig.close(buffers);
}

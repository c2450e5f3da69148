//! Collectives among other tasks and among each other: their order is that of the data (I1, I2).

use millstream::DeviceOptions;
use millstream_cluster_programs::calls::{Program, World};
use proptest::prelude::*;
use rstest::rstest;

use crate::{Kind, Rig, create, interleave, read};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// I1, I2: kernels on any stream and all calls of overlapping groups take effect in the order of the calls. The
    /// checker of the simulator sees no access without order.
    #[test]
    fn programs_take_effect_in_the_order_of_the_calls(
        kind in prop_oneof![Just(Kind::Cpu), Just(Kind::Sim), Just(Kind::Mixed)],
        devices in 1..6_usize,
        len in prop_oneof![0..4_usize, Just(702), 100..3_000_usize],
        steps in 1..40_usize,
        seed: u64,
    ) {
        let rig = Rig::seeded(kind, devices, seed >> 8);
        let program = Program::draw(seed, (devices, 1), len, steps);
        program.check(&World::of_fleet(&rig.fleet, &program), || {});
    }
}

/// Threads call collectives of overlapping groups on the same data, as fast as they can, on devices whose mailboxes hold one
/// message: so a thread often waits between the parts of a call. No call waits for another in a circle, and each is
/// done as a whole: all members hold the same values at the end.
#[rstest]
#[case(Kind::Cpu)]
#[case(Kind::Sim)]
fn threads_that_interleave_collectives_do_not_deadlock(#[case] kind: Kind) {
    const CALLS: usize = 300;
    let options = DeviceOptions::default().mailbox_capacity(1);
    let rig = Rig::with_options(kind, 3, 7, &options);
    interleave(&rig.fleet, CALLS);
}

/// Sends and receives meet in their order, whichever is called first, and a send that waits holds no receive back.
#[rstest]
#[case(Kind::Cpu)]
#[case(Kind::Mixed)]
fn sends_meet_their_receives(#[case] kind: Kind) {
    let rig = Rig::new(kind, 2);
    let group = rig.fleet.group();
    let sent = create(&group, &[vec![1_u32, 2], vec![3, 4]]);
    let more = create(&group, &[vec![5_u32, 6], vec![7, 8]]);
    let got = create(&group, &vec![vec![0_u32; 2]; 2]);
    let got_more = create(&group, &vec![vec![0_u32; 2]; 2]);
    // Both send first, as programs do that exchange halos.
    for member in 0..2 {
        group.send(1 - member, &sent[member]).unwrap();
        group.send(1 - member, &more[member]).unwrap();
    }
    for member in 0..2 {
        group.receive(1 - member, &got[member]).unwrap();
        group.receive(1 - member, &got_more[member]).unwrap();
    }
    assert_eq!(read(&group, &got), [vec![3, 4], vec![1, 2]]);
    assert_eq!(read(&group, &got_more), [vec![7, 8], vec![5, 6]]);
    // The receive first, and then a pair of different lengths.
    group.receive(0, &got[1]).unwrap();
    group.send(1, &more[0]).unwrap();
    assert_eq!(group.stream(1).read(&got[1]).wait().unwrap(), [5, 6]);
    group.receive(0, &got[1]).unwrap();
    let short = sent[0].slice(..1).unwrap();
    let error = group.send(1, &short).unwrap_err().to_string();
    assert!(
        error.starts_with("the send of 4 bytes at cluster/tests/collectives/order.rs")
            && error.contains("meets the receive of 8 bytes at cluster/tests"),
        "{error}"
    );
    let failure = group.stream(1).read(&got[1]).wait().unwrap_err();
    assert!(
        failure.to_string().contains("meets the receive"),
        "{failure}"
    );
}

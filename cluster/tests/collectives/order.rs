//! Collectives among other tasks and among each other: their order is that of the data (I1, I2).

use millstream::{CubeCount, Device, DeviceOptions, Kernel, update};
use millstream_cluster::Reduction;
use proptest::prelude::*;
use rstest::rstest;

use crate::random::{Setting, programs};
use crate::{Kind, Rig, create, interleave, read, refs};

const DEVICES: usize = 3;
const GROUPS: [&[usize]; 4] = [&[0, 1, 2], &[2, 0], &[1, 2], &[0, 1, 2]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// I1, I2: kernels on any stream and collectives of overlapping groups take effect in the order of the calls. The
    /// checker of the simulator sees no access without order.
    #[test]
    fn programs_take_effect_in_the_order_of_the_calls(
        program in programs(DEVICES, GROUPS.len()),
        len in prop_oneof![Just(6_usize), Just(702)],
        kind in prop_oneof![Just(Kind::Sim), Just(Kind::Mixed)],
        seed: u32,
    ) {
        let rig = Rig::seeded(kind, DEVICES, u64::from(seed));
        let step = Kernel::new("step")
            .updates::<u32>("values")
            .scalar::<u32>("n")
            .native(|_, args| {
                let n = args.scalar::<u32>(0);
                for value in args.chunk::<u32>(0) {
                    *value = value.wrapping_mul(3).wrapping_add(n);
                }
            });
        let clients = rig.fleet.devices().iter().map(Device::new_client);
        let kernels: Vec<_> = clients.map(|client| client.kernel(step.clone()).unwrap()).collect();
        let setting = Setting {
            fleet: &rig.fleet,
            groups: &GROUPS,
            len,
            submit: &|device, stream, values, n| {
                let count = CubeCount::cover(len, len);
                stream.launch(&kernels[device], count, (update(values), n)).unwrap();
            },
            compute: |value, n| value.wrapping_mul(3).wrapping_add(n),
        };
        setting.check(&program)?;
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

/// I12: a thousand collectives in flight, behind a task that has not ended.
#[rstest]
#[case(Kind::Cpu)]
#[case(Kind::Mixed)]
fn a_thousand_collectives_in_flight_are_done(#[case] kind: Kind) {
    let rig = Rig::new(kind, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 16]; 2]);
    let (opened, gate) = std::sync::mpsc::channel::<()>();
    // While this function runs, nothing that touches the first buffer begins.
    group
        .stream(0)
        .host("gate", update(&buffers[0]), move || {
            let _ = gate.recv();
        })
        .map_err(|returned| returned.error)
        .unwrap();
    for _ in 0..1_000 {
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    }
    drop(opened);
    let doubled = (0..1_000).fold(1_u32, |value, _| value.wrapping_mul(2));
    assert_eq!(read(&group, &buffers), vec![vec![doubled; 16]; 2]);
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

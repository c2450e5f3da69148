//! Collectives among other tasks and among each other: their order is that of the data (I1, I2).

use millstream::{CubeCount, DeviceOptions, Handle, Kernel, KernelHandle, Stream, update};
use millstream_cluster::{Fleet, Group, Reduction};
use proptest::prelude::*;
use rstest::rstest;

use crate::{Kind, Rig, create, interleave, read, refs};

/// A kernel `v = v * 3 + n` on each device.
fn steps(fleet: &Fleet) -> Vec<KernelHandle> {
    let kernel = || {
        Kernel::new("step")
            .updates::<u32>("values")
            .scalar::<u32>("n")
            .native(|_, args| {
                let n = args.scalar::<u32>(0);
                for value in args.chunk::<u32>(0) {
                    *value = value.wrapping_mul(3).wrapping_add(n);
                }
            })
    };
    let devices = fleet.devices().iter();
    devices
        .map(|device| device.new_client().kernel(kernel()).unwrap())
        .collect()
}

fn step(stream: &Stream, kernel: &KernelHandle, values: &Handle<u32>, n: u32) {
    stream
        .launch(
            kernel,
            CubeCount::cover(values.len(), values.len().max(1)),
            (update(values), n),
        )
        .unwrap();
}

/// A task of a random program. Numbers are taken modulo what exists.
#[derive(Clone, Debug)]
enum Op {
    Step {
        device: usize,
        stream: usize,
        buffer: usize,
        n: u32,
    },
    AllReduce {
        group: usize,
        buffer: usize,
    },
    Broadcast {
        group: usize,
        root: usize,
        buffer: usize,
    },
    Copy {
        from: (usize, usize),
        to: (usize, usize),
    },
}

const DEVICES: usize = 3;
const BUFFERS: usize = 2;
const GROUPS: [&[usize]; 4] = [&[0, 1, 2], &[2, 0], &[1, 2], &[0, 1, 2]];

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..DEVICES, 0..BUFFERS);
    prop_oneof![
        3 => (0..DEVICES, 0..3_usize, 0..BUFFERS, any::<u32>())
            .prop_map(|(device, stream, buffer, n)| Op::Step { device, stream, buffer, n }),
        2 => (0..GROUPS.len(), 0..BUFFERS).prop_map(|(group, buffer)| Op::AllReduce { group, buffer }),
        1 => (0..GROUPS.len(), 0..DEVICES, 0..BUFFERS)
            .prop_map(|(group, root, buffer)| Op::Broadcast { group, root, buffer }),
        1 => (place(), place()).prop_map(|(from, to)| Op::Copy { from, to }),
    ]
}

/// Runs a program on arrays, in its order.
fn expected(program: &[Op], len: usize) -> Vec<Vec<Vec<u32>>> {
    let mut memory = vec![vec![vec![1_u32; len]; BUFFERS]; DEVICES];
    for op in program {
        match op {
            Op::Step {
                device, buffer, n, ..
            } => {
                for value in &mut memory[*device][*buffer] {
                    *value = value.wrapping_mul(3).wrapping_add(*n);
                }
            }
            Op::AllReduce { group, buffer } => {
                let members = GROUPS[*group];
                let mut sum = vec![0_u32; len];
                for member in members {
                    let values = &memory[*member][*buffer];
                    sum.iter_mut()
                        .zip(values)
                        .for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
                }
                members
                    .iter()
                    .for_each(|member| memory[*member][*buffer] = sum.clone());
            }
            Op::Broadcast {
                group,
                root,
                buffer,
            } => {
                let members = GROUPS[*group];
                let source = memory[members[root % members.len()]][*buffer].clone();
                members
                    .iter()
                    .for_each(|member| memory[*member][*buffer] = source.clone());
            }
            Op::Copy { from, to } => memory[to.0][to.1] = memory[from.0][from.1].clone(),
        }
    }
    memory
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// I1, I2: kernels on any stream and collectives of overlapping groups take effect in the order of the calls. The
    /// checker of the simulator sees no access without order.
    #[test]
    fn programs_take_effect_in_the_order_of_the_calls(
        program in prop::collection::vec(op(), 1..40),
        len in prop_oneof![Just(1_usize), Just(700)],
        kind in prop_oneof![Just(Kind::Sim), Just(Kind::Mixed)],
        seed: u32,
    ) {
        let rig = Rig::seeded(kind, DEVICES, u64::from(seed));
        let groups: Vec<Group> =
            GROUPS.iter().map(|members| rig.fleet.group_of(members).unwrap()).collect();
        let kernels = steps(&rig.fleet);
        let clients = rig.fleet.devices().iter().map(millstream::Device::new_client);
        let streams: Vec<Vec<Stream>> =
            clients.map(|client| (0..3).map(|_| client.new_stream()).collect()).collect();
        let buffers: Vec<Vec<Handle<u32>>> = streams
            .iter()
            .map(|streams| (0..BUFFERS).map(|_| streams[0].create(&vec![1_u32; len]).unwrap()).collect())
            .collect();
        let of = |members: &[usize], buffer: usize| -> Vec<&Handle<u32>> {
            members.iter().map(|member| &buffers[*member][buffer]).collect()
        };
        for op in &program {
            match op {
                Op::Step { device, stream, buffer, n } =>
                    step(&streams[*device][*stream], &kernels[*device], &buffers[*device][*buffer], *n),
                Op::AllReduce { group, buffer } =>
                    groups[*group].all_reduce(Reduction::Sum, &of(GROUPS[*group], *buffer)).unwrap(),
                Op::Broadcast { group, root, buffer } => {
                    let members = GROUPS[*group];
                    groups[*group].broadcast(root % members.len(), &of(members, *buffer)).unwrap();
                }
                Op::Copy { from, to } if from == to => {}
                Op::Copy { from, to } =>
                    rig.fleet.copy(&buffers[from.0][from.1], &buffers[to.0][to.1]).unwrap(),
            }
        }
        let read = |(streams, buffers): (&Vec<Stream>, &Vec<Handle<u32>>)| -> Vec<Vec<u32>> {
            buffers.iter().map(|buffer| streams[1].read(buffer).wait().unwrap()).collect()
        };
        let found: Vec<_> = streams.iter().zip(&buffers).map(read).collect();
        prop_assert_eq!(found, expected(&program, len));
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

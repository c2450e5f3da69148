//! Random programs of fills, copies and collectives of overlapping groups take effect in the order of the calls.

use millstream::{Device, DeviceOptions, Handle, Stream};
use millstream_cluster::{Fleet, Group, Reduction};
use proptest::prelude::*;
use rstest::rstest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Rig, create, interleave, open, options, read, refs, session};

/// A task of a random program. Numbers are taken modulo what exists.
#[derive(Clone, Debug)]
enum Op {
    Fill {
        place: (usize, usize),
        stream: usize,
        value: u32,
    },
    AllReduce {
        group: usize,
        buffer: usize,
    },
    Scatter {
        group: usize,
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
    Send {
        from: (usize, usize),
        to: (usize, usize),
    },
}

/// The last device is a second one on the last GPU, so that groups with it are not served by NCCL.
const ORDINALS: [usize; 4] = [0, 1, 2, 2];
const BUFFERS: usize = 2;
const GROUPS: [&[usize]; 5] = [&[0, 1, 2], &[2, 0], &[1, 2], &[3, 1, 2], &[2, 1, 0]];
/// A multiple of the sizes of groups, so that buffers can be divided.
const LEN: usize = 600;

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..ORDINALS.len(), 0..BUFFERS);
    let group = || 0..GROUPS.len();
    prop_oneof![
        3 => (place(), 0..2_usize, any::<u32>())
            .prop_map(|(place, stream, value)| Op::Fill { place, stream, value }),
        3 => (group(), 0..BUFFERS).prop_map(|(group, buffer)| Op::AllReduce { group, buffer }),
        1 => group().prop_map(|group| Op::Scatter { group }),
        1 => (group(), 0..3_usize, 0..BUFFERS)
            .prop_map(|(group, root, buffer)| Op::Broadcast { group, root, buffer }),
        1 => (place(), place()).prop_map(|(from, to)| Op::Copy { from, to }),
        1 => (place(), place()).prop_map(|(from, to)| Op::Send { from, to }),
    ]
}

type Memory = Vec<Vec<Vec<u32>>>;

fn sum(memory: &Memory, members: &[usize], buffer: usize) -> Vec<u32> {
    let mut sum = vec![0_u32; LEN];
    for member in members {
        let values = memory[*member][buffer].iter();
        sum.iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    sum
}

/// Runs a program on arrays, in its order.
fn expected(program: &[Op]) -> Memory {
    let mut memory = vec![vec![vec![1_u32; LEN]; BUFFERS]; ORDINALS.len()];
    for op in program {
        match op {
            Op::Fill { place, value, .. } => memory[place.0][place.1] = vec![*value; LEN],
            Op::AllReduce { group, buffer } => {
                let sum = sum(&memory, GROUPS[*group], *buffer);
                for member in GROUPS[*group] {
                    memory[*member][*buffer] = sum.clone();
                }
            }
            Op::Scatter { group } => {
                let members = GROUPS[*group];
                let (sum, part) = (sum(&memory, members, 0), LEN / members.len());
                for (at, member) in members.iter().enumerate() {
                    let part = at * part..(at + 1) * part;
                    memory[*member][1][..part.len()].copy_from_slice(&sum[part]);
                }
            }
            Op::Broadcast {
                group,
                root,
                buffer,
            } => {
                let members = GROUPS[*group];
                let source = memory[members[root % members.len()]][*buffer].clone();
                for member in members {
                    memory[*member][*buffer] = source.clone();
                }
            }
            Op::Copy { from, to } | Op::Send { from, to } => {
                memory[to.0][to.1] = memory[from.0][from.1].clone();
            }
        }
    }
    memory
}

fn run(
    fleet: &Fleet,
    groups: &[Group],
    streams: &[Vec<Stream>],
    buffers: &[Vec<Handle<u32>>],
    op: &Op,
) {
    let of = |members: &[usize], buffer: usize| -> Vec<&Handle<u32>> {
        members
            .iter()
            .map(|member| &buffers[*member][buffer])
            .collect()
    };
    let at = |place: &(usize, usize)| &buffers[place.0][place.1];
    match op {
        Op::Fill {
            place,
            stream,
            value,
        } => {
            streams[place.0][*stream].fill(at(place), *value).unwrap();
        }
        Op::AllReduce { group, buffer } => {
            let buffers = of(GROUPS[*group], *buffer);
            groups[*group].all_reduce(Reduction::Sum, &buffers).unwrap();
        }
        Op::Scatter { group } => {
            let members = GROUPS[*group];
            let part = LEN / members.len();
            let parts: Vec<_> = members
                .iter()
                .map(|member| buffers[*member][1].slice(..part).unwrap())
                .collect();
            let inputs = of(members, 0);
            groups[*group]
                .reduce_scatter(Reduction::Sum, &inputs, &refs(&parts))
                .unwrap();
        }
        Op::Broadcast {
            group,
            root,
            buffer,
        } => {
            let members = GROUPS[*group];
            groups[*group]
                .broadcast(root % members.len(), &of(members, *buffer))
                .unwrap();
        }
        Op::Copy { from, to } | Op::Send { from, to } if from == to => {}
        Op::Copy { from, to } => fleet.copy(at(from), at(to)).unwrap(),
        Op::Send { from, to } => {
            let all = &groups[GROUPS.len()];
            all.receive(from.0, at(to)).unwrap();
            all.send(to.0, at(from)).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// I1, I2: by the values, and by the checkers of the fakes.
    #[test]
    fn programs_take_effect_in_the_order_of_the_calls(
        program in prop::collection::vec(op(), 1..30),
        seed: u32,
        peers: bool,
    ) {
        let gpu = session(u64::from(seed), 3);
        gpu.set_peers(peers);
        let fleet = Fleet::new(ORDINALS.map(open)).unwrap();
        let rig = Rig::of(fleet, gpu);
        let groups: Vec<Group> = GROUPS
            .iter()
            .map(|members| rig.fleet.group_of(members).unwrap())
            .chain([rig.fleet.group()])
            .collect();
        let clients = rig.fleet.devices().iter().map(Device::new_client);
        let streams: Vec<Vec<Stream>> =
            clients.map(|client| (0..2).map(|_| client.new_stream()).collect()).collect();
        let buffers: Vec<Vec<Handle<u32>>> = streams
            .iter()
            .map(|streams| {
                (0..BUFFERS).map(|_| streams[0].create(&[1_u32; LEN]).unwrap()).collect()
            })
            .collect();
        for op in &program {
            run(&rig.fleet, &groups, &streams, &buffers, op);
        }
        let read = |(streams, buffers): (&Vec<Stream>, &Vec<Handle<u32>>)| -> Vec<Vec<u32>> {
            buffers.iter().map(|buffer| streams[1].read(buffer).wait().unwrap()).collect()
        };
        let found: Memory = streams.iter().zip(&buffers).map(read).collect();
        prop_assert_eq!(found, expected(&program));
        drop((streams, buffers, groups));
        rig.close();
    }
}

/// Threads call collectives of overlapping groups on the same data, on devices whose mailboxes hold one message.
#[rstest]
fn threads_that_interleave_collectives_do_not_deadlock(#[values(1, 2, 3)] seed: u64) {
    const CALLS: usize = 40;
    let gpu = session(seed, 3);
    let one_message = options().mailbox_capacity(1);
    let open = |ordinal| {
        let gpu = millstream::cuda::Cuda::ordinal(ordinal);
        Device::open_with(gpu, DeviceOptions::clone(&one_message)).unwrap()
    };
    let rig = Rig::of(Fleet::new((0..3).map(open)).unwrap(), gpu);
    interleave(&rig.fleet, CALLS);
    rig.close();
}

/// A driven device takes part while its owner pumps it.
#[test]
fn a_driven_device_takes_part() {
    let gpu = session(4, 2);
    let (device, mut driver) =
        Device::open_driven(millstream::cuda::Cuda::ordinal(0), options()).unwrap();
    let rig = Rig::of(Fleet::new([device, open(1)]).unwrap(), gpu);
    let group = rig.fleet.group();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (driver, is_over) = (&mut driver, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                driver.pump(Duration::from_millis(1));
            }
        });
        let buffers = create(&group, &vec![vec![2_u32; 90]; 2]);
        for _ in 0..5 {
            group
                .all_reduce(Reduction::Product, &refs(&buffers))
                .unwrap();
            rig.fleet.copy(&buffers[1], &buffers[0]).unwrap();
        }
        let product = (0..5).fold(2_u32, |value, _| value.wrapping_mul(value));
        assert_eq!(read(&group, &buffers), vec![vec![product; 90]; 2]);
        drop(buffers);
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(rig.nccl.calls("ncclAllReduce"), 10);
    drop((group, driver));
    rig.close();
}

//! What each collective computes.

use std::ops::Range;

use millstream::{Cpu, Device, Reason, bf16, f16, update, write};
use millstream_cluster::{Fleet, Group, Reducible, Reduction};
use millstream_mpi::{MpiError, World};

use crate::Rank;

/// The values of a rank: different on each.
fn values(rank: usize, len: usize) -> Vec<u32> {
    (0..len)
        .map(|index| (index * 7 + rank * 1_000 + 1) as u32)
        .collect()
}

pub(crate) fn every_collective(world: World) {
    let rank = Rank::new(world);
    let (own, size) = (rank.rank, rank.size);
    for len in [0, 1, 5, 3_000] {
        let all: Vec<Vec<u32>> = (0..size).map(|rank| values(rank, len)).collect();
        for (reduction, combine) in [
            (Reduction::Sum, u32::wrapping_add as fn(u32, u32) -> u32),
            (Reduction::Product, u32::wrapping_mul),
            (Reduction::Min, u32::min),
            (Reduction::Max, u32::max),
        ] {
            let combined: Vec<u32> = (0..len)
                .map(|index| {
                    all.iter()
                        .map(|values| values[index])
                        .reduce(combine)
                        .unwrap()
                })
                .collect();
            let buffer = rank.create(&all[own]);
            rank.group.all_reduce(reduction, &[&buffer]).unwrap();
            assert_eq!(rank.read(&buffer), combined, "{reduction:?} of {len}");

            // Each part has other values.
            let of_part = |part: usize, value: u32| value.wrapping_mul(part as u32 * 2 + 1);
            let parts: Vec<u32> = (0..size)
                .flat_map(|part| all[own].iter().map(move |value| of_part(part, *value)))
                .collect();
            let combined: Vec<u32> = (0..len)
                .map(|index| {
                    all.iter()
                        .map(|values| of_part(own, values[index]))
                        .reduce(combine)
                        .unwrap()
                })
                .collect();
            let (from, to) = (rank.create(&parts), rank.create(&vec![0_u32; len]));
            rank.group
                .reduce_scatter(reduction, &[&from], &[&to])
                .unwrap();
            assert_eq!(rank.read(&to), combined, "{reduction:?} of {len}");
        }
        let (from, to) = (
            rank.create(&all[own]),
            rank.create(&vec![0_u32; len * size]),
        );
        rank.group.all_gather(&[&from], &[&to]).unwrap();
        assert_eq!(rank.read(&to), all.concat());
        for (root, expected) in all.iter().enumerate() {
            let buffer = rank.create(&all[own]);
            rank.group.broadcast(root, &[&buffer]).unwrap();
            assert_eq!(rank.read(&buffer), *expected);
        }
    }
}

fn type_of<T: Reducible + PartialEq + std::fmt::Debug>(rank: &Rank, of: impl Fn(u8) -> T) {
    let values = [[3, 1], [5, 2], [2, 7]].map(|values: [u8; 2]| values.map(&of));
    for (reduction, expected) in [
        (Reduction::Sum, [10, 10]),
        (Reduction::Product, [30, 14]),
        (Reduction::Min, [2, 1]),
        (Reduction::Max, [5, 7]),
    ] {
        // A call whose bytes travel with the comparison, and one whose bytes follow.
        for repeats in [1, 1_000] {
            let buffer = rank.create(&values[rank.rank].repeat(repeats));
            rank.group.all_reduce(reduction, &[&buffer]).unwrap();
            assert_eq!(rank.read(&buffer), expected.map(&of).repeat(repeats));
        }
    }
}

pub(crate) fn every_type(world: World) {
    let rank = Rank::new(world);
    type_of(&rank, |value| value);
    type_of(&rank, |value| value as i8);
    type_of(&rank, u16::from);
    type_of(&rank, i16::from);
    type_of(&rank, u32::from);
    type_of(&rank, i32::from);
    type_of(&rank, u64::from);
    type_of(&rank, i64::from);
    type_of(&rank, f32::from);
    type_of(&rank, f64::from);
    type_of(&rank, |value| f16::from_f32(f32::from(value)));
    type_of(&rank, |value| bf16::from_f32(f32::from(value)));
    wraps(&rank, [u8::MAX, 1, 7], 7);
    wraps(&rank, [i8::MAX, 1, 1], i8::MIN + 1);
    wraps(&rank, [u16::MAX, 1, 7], 7);
    wraps(&rank, [i16::MIN, -1, 0], i16::MAX);
    wraps(&rank, [u32::MAX, 1, 7], 7);
    wraps(&rank, [i64::MIN, -1, 0], i64::MAX);
    // A NaN gives way to a number.
    let own = if rank.rank == 1 {
        f32::NAN
    } else {
        rank.rank as f32
    };
    for len in [1, 1_000] {
        let buffer = rank.create(&vec![own; len]);
        rank.group.all_reduce(Reduction::Min, &[&buffer]).unwrap();
        assert_eq!(rank.read(&buffer), vec![0.0; len]);
    }
}

/// Sums of integers wrap in each element of a buffer, whatever vector code the library has.
fn wraps<T: Reducible + PartialEq + std::fmt::Debug>(rank: &Rank, values: [T; 3], sum: T) {
    for len in [1, 100, 3_000] {
        let buffer = rank.create(&vec![values[rank.rank]; len]);
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        assert_eq!(rank.read(&buffer), vec![sum; len]);
    }
}

/// 16 MiB: the library divides it.
pub(crate) fn a_large_buffer(world: World) {
    let rank = Rank::new(world);
    let buffer = rank.create(&vec![rank.rank as f32 + 1.0; 4 << 20]);
    for _ in 0..3 {
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    }
    // 1 + 2 + 3 + 4, then four times, twice.
    assert!(rank.read(&buffer).iter().all(|value| *value == 160.0));
}

/// Three devices on each rank, of which the collectives combine those of a rank first: small calls and larger ones.
pub(crate) fn several_devices(world: World) {
    const DEVICES: usize = 3;
    let open = |_| Device::open(Cpu::default()).unwrap();
    let fleet = Fleet::new((0..DEVICES).map(open)).unwrap();
    let group = world.group_of(&fleet, &[0, 1, 2]).unwrap();
    let (members, first) = (group.len(), group.local_ranks().start);
    assert_eq!(
        (members, first),
        (DEVICES * world.size(), DEVICES * world.rank())
    );
    for len in [0, 2, 3_000] {
        let value = |member: usize, index: usize| (member * 1_000 + index % 100) as u32;
        let values = |member: usize| {
            (0..len)
                .map(|index| value(member, index))
                .collect::<Vec<_>>()
        };
        let create = |member: usize| {
            group
                .stream(member)
                .create(&values(first + member))
                .unwrap()
        };
        let empty = |member: usize, len: usize| group.stream(member).empty::<u32>(len).unwrap();
        let read = |member: usize, handle| group.stream(member).read(handle).wait().unwrap();
        let parts: Vec<_> = (0..DEVICES).map(create).collect();
        let wholes: Vec<_> = (0..DEVICES)
            .map(|member| empty(member, len * members))
            .collect();
        let scattered: Vec<_> = (0..DEVICES).map(|member| empty(member, len)).collect();
        let [parts_of, wholes_of, scattered_of] =
            [&parts, &wholes, &scattered].map(|handles| handles.iter().collect::<Vec<_>>());
        group.all_gather(&parts_of, &wholes_of).unwrap();
        let everything: Vec<u32> = (0..members).flat_map(values).collect();
        group
            .reduce_scatter(Reduction::Sum, &wholes_of, &scattered_of)
            .unwrap();
        group.all_reduce(Reduction::Max, &parts_of).unwrap();
        for member in 0..DEVICES {
            assert_eq!(read(member, &wholes[member]), everything);
            let sums = values(first + member)
                .into_iter()
                .map(|value| value * members as u32);
            assert_eq!(read(member, &scattered[member]), sums.collect::<Vec<_>>());
            assert_eq!(read(member, &parts[member]), values(members - 1));
        }
        for root in 0..members {
            (0..DEVICES).for_each(|member| {
                group
                    .stream(member)
                    .fill(&parts[member], (first + member) as u32)
                    .unwrap();
            });
            group.broadcast(root, &parts_of).unwrap();
            for (member, part) in parts.iter().enumerate() {
                assert_eq!(read(member, part), vec![root as u32; len]);
            }
        }
        transfers_between_all_devices(&group, len);
    }
    let error = world.group_of(&fleet, &[0; 101]).unwrap_err();
    assert!(
        matches!(error, MpiError::Devices { devices: 101 }),
        "{error}"
    );
}

/// Each member sends twice to each, of its own rank and of others. The transfers between two members keep their order,
/// with calls in other orders on each rank.
fn transfers_between_all_devices(group: &Group, len: usize) {
    let own = group.local_ranks();
    let at = |member: usize| group.stream(member - own.start);
    let everyone = 0..group.len();
    let pairs = |from: Range<usize>, to: Range<usize>| {
        from.flat_map(move |from| to.clone().map(move |to| (from, to)))
    };
    let message = |from: usize, to: usize, number: usize| {
        vec![(from * 10_000 + to * 100 + number) as u32; len + number]
    };
    let receive = || {
        let received = pairs(everyone.clone(), own.clone()).map(|(from, to)| {
            let buffers = [0, 1].map(|number| at(to).empty::<u32>(len + number).unwrap());
            for buffer in &buffers {
                group.receive(from, buffer).unwrap();
            }
            (from, to, buffers)
        });
        received.collect::<Vec<_>>()
    };
    let send = || {
        for (from, to) in pairs(own.clone(), everyone.clone()) {
            for number in [0, 1] {
                let data = at(from).create(&message(from, to, number)).unwrap();
                group.send(to, &data).unwrap();
            }
        }
    };
    let received = if own.start == 0 {
        send();
        receive()
    } else {
        let received = receive();
        send();
        received
    };
    for (from, to, buffers) in received {
        for (number, buffer) in buffers.iter().enumerate() {
            assert_eq!(
                at(to).read(buffer).wait().unwrap(),
                message(from, to, number)
            );
        }
    }
}

/// Calls of a byte less than travels with the comparison, of all of it, and of one more, also if the part of a rank fails.
/// In groups of up to 16 ranks the bytes travel so, and in larger ones they do not.
pub(crate) fn sizes_at_the_limit(world: World) {
    const LIMIT: usize = 1 << 10;
    let rank = Rank::new(world);
    let (own, size) = (rank.rank, rank.size);
    let bytes = |rank: usize, len: usize| -> Vec<u8> {
        (0..len).map(|index| (index * 7 + rank * 3) as u8).collect()
    };
    let sum = |len: usize| -> Vec<u8> {
        let add = |sum: Vec<u8>, rank: usize| {
            let values = bytes(rank, len).into_iter();
            sum.into_iter()
                .zip(values)
                .map(|(a, b)| a.wrapping_add(b))
                .collect()
        };
        (0..size).fold(vec![0; len], add)
    };
    for len in [LIMIT - 1, LIMIT, LIMIT + 1] {
        let buffer = rank.create(&bytes(own, len));
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        assert_eq!(rank.read(&buffer), sum(len));

        let (from, to) = (
            rank.create(&bytes(own, len)),
            rank.create(&vec![0_u8; len * size]),
        );
        rank.group.all_gather(&[&from], &[&to]).unwrap();
        let all: Vec<u8> = (0..size).flat_map(|rank| bytes(rank, len)).collect();
        assert_eq!(rank.read(&to), all);

        let root = size - 1;
        let buffer = rank.create(&bytes(own, len));
        rank.group.broadcast(root, &[&buffer]).unwrap();
        assert_eq!(rank.read(&buffer), bytes(root, len));
    }
    for len in [LIMIT / size, LIMIT / size + 1] {
        let (from, to) = (
            rank.create(&bytes(own, len * size)),
            rank.create(&vec![0_u8; len]),
        );
        rank.group
            .reduce_scatter(Reduction::Sum, &[&from], &[&to])
            .unwrap();
        assert_eq!(rank.read(&to), sum(len * size)[own * len..(own + 1) * len]);
    }
    for len in [0, LIMIT, LIMIT + 1] {
        for failed in [0, size - 1] {
            let buffer = rank.create(&bytes(own, len));
            if own == failed {
                let broken = rank.stream().external("broken", (write(&buffer),), |task| {
                    task.unwrap().fail(Reason::Refused("no".to_owned()));
                });
                broken.unwrap();
            }
            rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
            let client = rank.fleet.devices()[0].new_client();
            let read = client.new_stream().read(&buffer).wait();
            match (len, read) {
                // There is nothing to poison.
                (0, _) => {}
                (_, Err(error)) if own == failed => {
                    assert!(error.to_string().contains("no"), "{error}");
                }
                (_, Err(error)) => {
                    assert!(
                        error.to_string().contains(&format!("rank {failed}")),
                        "{error}"
                    );
                }
                (_, Ok(_)) => panic!("{len} bytes were reduced without those of rank {failed}"),
            }
            rank.stream().fill(&buffer, 1).unwrap();
            rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
            assert_eq!(rank.read(&buffer), vec![size as u8; len]);
        }
    }
}

/// Ten thousand small calls that end one another.
pub(crate) fn ten_thousand(world: World) {
    let rank = Rank::new(world);
    let buffer = rank.create(&[1_u64; 16]);
    let client = rank.fleet.devices()[0].new_client();
    let guard = client.new_stream().get_resource::<Cpu>((update(&buffer),));
    let guard = guard.wait().unwrap();
    for _ in 0..10_000 {
        rank.group.all_reduce(Reduction::Max, &[&buffer]).unwrap();
    }
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    drop(guard);
    assert_eq!(rank.read(&buffer), vec![rank.size as u64; 16]);
}

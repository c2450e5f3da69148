//! What the calls compute.

use millstream::{Cpu, Device, Reason, bf16, f16, update, write};
use millstream_cluster::{Fleet, Reducible, Reduction};
use millstream_cluster_programs::calls::{Program, World as Groups};
use millstream_mpi::{MpiError, World};

use crate::Rank;

/// Random programs over groups of some ranks, with small calls and larger ones (I1, I2).
pub(crate) fn programs(world: World) {
    programs_of_devices(&world, 1, &[1, 5, 300, 3_000].repeat(3), 60);
}

/// The same with three devices on each rank, of which the collectives combine those of a rank first.
pub(crate) fn programs_of_several_devices(world: World) {
    programs_of_devices(&world, 3, &[1, 5, 300, 3_000].repeat(3), 60);
}

/// Runs a program of some steps for each number of elements.
fn programs_of_devices(world: &World, devices: usize, lens: &[usize], steps: usize) {
    let open = |_| Device::open(Cpu::default()).unwrap();
    let fleet = Fleet::new((0..devices).map(open)).unwrap();
    let listed: Vec<usize> = (0..devices).collect();
    for (seed, len) in (0..).zip(lens) {
        let program = Program::draw(seed, (world.size(), devices), *len, steps);
        let group = |ranks: &Vec<usize>| match ranks.contains(&world.rank()) {
            true => vec![world.group_of_ranks(ranks, &fleet, &listed).unwrap()],
            false => Vec::new(),
        };
        let groups = Groups {
            groups: program.groups.iter().map(group).collect(),
            fleet: None,
            fills: false,
        };
        program.check(&groups, || {});
    }
    let error = world.group_of(&fleet, &[0; 101]).unwrap_err();
    assert!(
        matches!(error, MpiError::Devices { devices: 101 }),
        "{error}"
    );
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

/// Calls of a little less than travels with the comparison, of all of it, and of a little more, also if the part of a rank
/// fails. In groups of up to 16 ranks the bytes travel so, and in larger ones they do not.
pub(crate) fn sizes_at_the_limit(world: World) {
    const LIMIT: usize = 1 << 10;
    let (size, whole) = (world.size(), LIMIT / size_of::<u32>());
    let lens = [
        whole - 1,
        whole,
        whole + 1,
        whole * size,
        (whole + 1) * size,
    ];
    programs_of_devices(&world, 1, &lens, 30);
    let rank = Rank::new(world);
    let own = rank.rank;
    for len in [0, LIMIT, LIMIT + 1] {
        for failed in [0, size - 1] {
            let buffer = rank.create(&vec![own as u8; len]);
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

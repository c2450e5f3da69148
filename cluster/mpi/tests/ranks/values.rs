//! What each collective computes.

use millstream::{bf16, f16};
use millstream_cluster::{Reducible, Reduction};
use millstream_mpi::World;

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

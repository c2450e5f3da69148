//! What each collective computes, for any number of members, length and type.

use millstream::{bf16, f16};
use millstream_cluster::{Reducible, Reduction};
use proptest::prelude::*;
use rstest::rstest;

use crate::{Kind, Rig, create, read, refs, zeros};

/// The inputs of some members, by a simple generator.
fn inputs(members: usize, len: usize, seed: u64) -> Vec<Vec<i32>> {
    let value = |member: usize, index: usize| {
        let mixed =
            (seed ^ (member as u64) << 32 ^ index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 40) as i32 - (1 << 23)
    };
    (0..members)
        .map(|member| (0..len).map(|index| value(member, index)).collect())
        .collect()
}

fn combine(reduction: Reduction, a: i32, b: i32) -> i32 {
    match reduction {
        Reduction::Sum => a.wrapping_add(b),
        Reduction::Product => a.wrapping_mul(b),
        Reduction::Min => a.min(b),
        Reduction::Max => a.max(b),
    }
}

fn combined(reduction: Reduction, inputs: &[Vec<i32>]) -> Vec<i32> {
    let columns = 0..inputs[0].len();
    columns
        .map(|index| {
            let values = inputs.iter().map(|values| values[index]);
            values.reduce(|a, b| combine(reduction, a, b)).unwrap()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn collectives_compute_what_they_say(
        kind in prop_oneof![Just(Kind::Cpu), Just(Kind::Sim), Just(Kind::Mixed)],
        members in 1..6_usize,
        len in prop_oneof![0..5_usize, 100..3_000_usize],
        reduction in prop_oneof![
            Just(Reduction::Sum), Just(Reduction::Product), Just(Reduction::Min), Just(Reduction::Max)
        ],
        seed: u64,
    ) {
        computes_what_it_says(&Rig::seeded(kind, members, seed >> 8), len, reduction, seed)?;
    }
}

/// Checks all collectives of a fleet, with parts of `len` elements.
fn computes_what_it_says(
    rig: &Rig,
    len: usize,
    reduction: Reduction,
    seed: u64,
) -> Result<(), TestCaseError> {
    let group = rig.fleet.group();
    let members = group.len();
    let (parts, wholes) = (
        inputs(members, len, seed),
        inputs(members, len * members, seed + 1),
    );

    let buffers = create(&group, &parts);
    group.all_reduce(reduction, &refs(&buffers)).unwrap();
    prop_assert_eq!(
        read(&group, &buffers),
        vec![combined(reduction, &parts); members]
    );

    let (from, to) = (create(&group, &wholes), zeros::<i32>(&group, len));
    group
        .reduce_scatter(reduction, &refs(&from), &refs(&to))
        .unwrap();
    let whole = combined(reduction, &wholes);
    let expected = (0..members).map(|member| whole[member * len..(member + 1) * len].to_vec());
    prop_assert_eq!(read(&group, &to), expected.collect::<Vec<_>>());

    let (from, to) = (create(&group, &parts), zeros::<i32>(&group, len * members));
    group.all_gather(&refs(&from), &refs(&to)).unwrap();
    prop_assert_eq!(read(&group, &to), vec![parts.concat(); members]);

    let root = seed as usize % members;
    let buffers = create(&group, &parts);
    group.broadcast(root, &refs(&buffers)).unwrap();
    prop_assert_eq!(read(&group, &buffers), vec![parts[root].clone(); members]);

    let (from, to) = (root, (seed >> 3) as usize % members);
    let (source, target) = (create(&group, &parts), zeros::<i32>(&group, len));
    rig.fleet.copy(&source[from], &target[to]).unwrap();
    prop_assert_eq!(read(&group, &target)[to].clone(), parts[from].clone());
    Ok(())
}

/// Calls whose bytes the caller moves at the end of its call if it steps in: it does once it is expected to wait.
#[test]
fn calls_of_half_a_mebibyte_compute_what_they_say() {
    let rig = Rig::new(Kind::Cpu, 2);
    for seed in 0..3 {
        computes_what_it_says(&rig, (128 << 10) + 3, Reduction::Sum, seed).unwrap();
    }
}

/// Every element type is combined in the order of the members.
fn types_of<T: Reducible + PartialEq + std::fmt::Debug>(of: impl Fn(u8) -> T) {
    let rig = Rig::new(Kind::Mixed, 3);
    let group = rig.fleet.group();
    let values = [[3, 1], [5, 2], [2, 7]].map(|values| values.map(&of).to_vec());
    for (reduction, expected) in [
        (Reduction::Sum, [10, 10]),
        (Reduction::Product, [30, 14]),
        (Reduction::Min, [2, 1]),
        (Reduction::Max, [5, 7]),
    ] {
        let buffers = create(&group, &values);
        group.all_reduce(reduction, &refs(&buffers)).unwrap();
        assert_eq!(read(&group, &buffers), vec![expected.map(&of).to_vec(); 3]);
    }
}

#[test]
fn every_element_type_is_reduced() {
    types_of(|value| value);
    types_of(|value| value as i8);
    types_of(u16::from);
    types_of(i16::from);
    types_of(u32::from);
    types_of(i32::from);
    types_of(u64::from);
    types_of(i64::from);
    types_of(f32::from);
    types_of(f64::from);
    types_of(|value| f16::from_f32(f32::from(value)));
    types_of(|value| bf16::from_f32(f32::from(value)));
}

/// A NaN is ignored if the other value is a number, and integers wrap.
#[rstest]
#[case(Reduction::Min, [1.0, f32::NAN], [f32::NAN, 2.0], [1.0, 2.0])]
#[case(Reduction::Max, [f32::NAN, -1.0], [-0.5, f32::NAN], [-0.5, -1.0])]
fn not_a_number_gives_way(
    #[case] reduction: Reduction,
    #[case] a: [f32; 2],
    #[case] b: [f32; 2],
    #[case] expected: [f32; 2],
) {
    let rig = Rig::new(Kind::Cpu, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &[a.to_vec(), b.to_vec()]);
    group.all_reduce(reduction, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![expected.to_vec(); 2]);
}

/// Views of buffers take part as whole buffers do.
#[test]
fn views_take_part() {
    let rig = Rig::new(Kind::Mixed, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &[vec![1_u16, 2, 3, 4, 5], vec![10, 20, 30, 40, 50]]);
    let views = [
        buffers[0].slice(1..4).unwrap(),
        buffers[1].slice(2..).unwrap(),
    ];
    group.all_reduce(Reduction::Sum, &refs(&views)).unwrap();
    assert_eq!(
        read(&group, &buffers),
        [vec![1, 32, 43, 54, 5], vec![10, 20, 32, 43, 54]]
    );
}

//! What reductions compute, for each type. The random programs (`order`) have the other calls.

use millstream::{bf16, f16};
use millstream_cluster::{Reducible, Reduction};
use rstest::rstest;

use crate::{Kind, Rig, create, read, refs};

/// Calls whose bytes the caller moves at the end of its call if it steps in: it does once it is expected to wait.
#[test]
fn calls_of_half_a_mebibyte_compute_what_they_say() {
    const LEN: usize = (128 << 10) + 3;
    let rig = Rig::new(Kind::Cpu, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &[(0..LEN as u32).collect(), vec![7; LEN]]);
    for call in 0..12_u32 {
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
        let expected: Vec<u32> = (0..LEN as u32).map(|value| (value + 7) << call).collect();
        assert!(
            read(&group, &buffers) == [expected.clone(), expected],
            "call {call}"
        );
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

//! What the calls compute, for any number of ranks, and the lists of groups.

use millstream::DeviceOptions;
use millstream::sim::Sim;
use millstream_cluster_programs::calls::{Program, World};
use millstream_cluster_sim::{Machine, SimCluster};
use proptest::prelude::*;

use crate::Rig;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// I1 to I3: random programs over groups of some ranks take effect in the order of the calls, and no access lacks its
    /// order.
    #[test]
    fn programs_take_effect_in_the_order_of_the_calls(
        ranks in 1..8_usize,
        len in prop_oneof![0..4_usize, 200..600_usize],
        ranks_per_host in 1..4_usize,
        steps in 1..40_usize,
        seed: u64,
    ) {
        let machine = Machine { ranks_per_host, ..Machine::default() };
        let mut rig = Rig::new(ranks, &machine);
        let program = Program::draw(seed, (ranks, 1), len, steps);
        let lists = program.groups.iter();
        let world = World {
            groups: lists.map(|list| rig.cluster.group_of(list).unwrap()).collect(),
            fleet: None,
            fills: false,
        };
        program.check(&world, || _ = rig.cluster.settle().unwrap());
    }
}

#[test]
fn lists_of_ranks_are_checked() {
    let options = DeviceOptions::default();
    let open = |ranks| {
        SimCluster::open(ranks, &Machine::default(), &options, |rank| {
            Sim::seed(rank as u64)
        })
    };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let error = open(0).unwrap_err();
    assert_eq!(
        text(&error),
        "a group needs at least one member; name the devices that belong to it"
    );
    let cluster = open(3).unwrap();
    let refused = |ranks: &[usize]| text(&cluster.group_of(ranks).unwrap_err());
    assert_eq!(refused(&[]), text(&error));
    assert_eq!(
        refused(&[0, 2, 0]),
        "rank 0 is listed twice; a rank is one member of a group"
    );
    assert_eq!(
        refused(&[1, 3]),
        "rank 3 does not exist, the cluster has 3 ranks, counted from 0"
    );
}

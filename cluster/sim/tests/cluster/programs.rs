//! Both programs on simulated ranks: the results of one device.

use std::sync::Arc;

use millstream::sim::{Checks, Sim};
use millstream::{Cpu, Device};
use millstream_cluster::Fleet;
use millstream_cluster_sim::Machine;
use rstest::rstest;

use crate::Rig;
use crate::digits::Training;
use crate::digits::model::{Images, Order, rate};
use crate::reaction::{Domain, Reaction, Tasks};

const DOMAIN: Domain = Domain {
    rows: 70,
    columns: 40,
};
const STEPS: usize = 12;

fn bits(cells: &[f32]) -> Vec<u32> {
    cells.iter().map(|cell| cell.to_bits()).collect()
}

/// The strips of every number of ranks are those of one device, bit for bit.
#[rstest]
fn reaction_has_the_bits_of_one_device(#[values(1, 2, 7, 64)] ranks: usize) {
    let mut rig = Rig::new(ranks, &Machine::default());
    let groups = rig.cluster.group().unwrap();
    let reactions = groups.iter().map(|group| {
        let mut reaction = Reaction::new(group, DOMAIN).unwrap();
        reaction.submit(Tasks::Step, STEPS).unwrap();
        reaction
    });
    let reactions: Vec<_> = reactions.collect();
    let strips: Vec<_> = reactions
        .iter()
        .flat_map(Reaction::strips)
        .cloned()
        .collect();
    let found = rig.read(&groups, &strips).concat();

    let alone = Fleet::new([Device::open(Cpu::default()).unwrap()]).unwrap();
    let group = alone.group();
    let mut reaction = Reaction::new(&group, DOMAIN).unwrap();
    reaction.submit(Tasks::Step, STEPS).unwrap();
    let strip = reaction.strips().next().unwrap();
    let expected = group.stream(0).read(strip).wait().unwrap();
    assert!(
        expected.iter().any(|cell| (0.01..0.4).contains(cell)),
        "nothing happens"
    );
    assert_eq!(bits(&found), bits(&expected));
}

/// The losses are those of one device, but for the order of their sums: on 16 ranks with 4 images each.
#[test]
fn digits_has_the_losses_of_one_device() {
    const BATCH: usize = 64;
    let (images, tests) = Images::load();
    let images = Arc::new(images);
    let mut order = Order::new(images.len());
    let batches: Vec<Vec<usize>> = order.shuffle(BATCH).map(<[_]>::to_vec).take(4).collect();

    let sim = |rank: usize| Sim::seed(rank as u64).checks(Checks::Off);
    let mut rig = Rig::with(16, &Machine::default(), sim);
    let groups = rig.cluster.group().unwrap().into_iter();
    let groups = groups.zip(rig.cluster.group().unwrap());
    let all: Vec<_> = groups
        .map(|(first, last)| Training::new([first, last], BATCH, images.clone(), &tests).unwrap())
        .collect();
    let mut losses = Vec::new();
    for batch in &batches {
        losses.push(
            all.iter()
                .map(|part| part.step(batch, rate(0)).unwrap())
                .collect::<Vec<_>>(),
        );
    }
    rig.cluster.settle().unwrap();

    let alone = Fleet::new([Device::open(Cpu::default()).unwrap()]).unwrap();
    let groups = [alone.group(), alone.group()];
    let training = Training::new(groups, BATCH, images, &tests).unwrap();
    let mut last = f32::INFINITY;
    for (batch, losses) in batches.iter().zip(losses) {
        let expected = training.step(batch, rate(0)).unwrap().wait().unwrap()[0];
        for loss in losses {
            let loss = loss.wait().unwrap()[0];
            assert!(
                (loss - expected).abs() <= 1e-5 * expected,
                "{loss} {expected}"
            );
        }
        assert!(expected < last, "it learns");
        last = expected;
    }
}

//! The programs of the examples: the results of one device.

use millstream::{Cpu, Device};
use millstream_cluster::Fleet;
use millstream_mpi::World;

use crate::Rank;
use crate::digits::Training;
use crate::digits::model::{Images, Order, rate};
use crate::reaction::{Domain, Reaction, Tasks};

/// The same bits as on one device, with strips of unequal heights.
pub(crate) fn reaction_and_diffusion(world: World) {
    let domain = Domain {
        rows: 40,
        columns: 32,
    };
    let rank = Rank::new(world);
    let mut over_ranks = Reaction::new(&rank.group, domain).unwrap();
    over_ranks.submit(Tasks::Step, 30).unwrap();
    let Some(found) = over_ranks.gather().unwrap() else {
        assert_ne!(rank.rank, 0);
        return;
    };
    let alone = Fleet::new([Device::open(Cpu::default()).unwrap()]).unwrap();
    let mut expected = Reaction::new(&alone.group(), domain).unwrap();
    expected.submit(Tasks::Step, 30).unwrap();
    assert_eq!(expected.gather().unwrap().unwrap(), found);
}

/// The losses of one device that learns the whole batches, but for the order of their sums.
pub(crate) fn digits(world: World) {
    const BATCH: usize = 64;
    const STEPS: usize = 8;
    let rank = Rank::new(world);
    let second = rank.world.group(&rank.fleet, 0).unwrap();
    let alone = Fleet::new([Device::open(Cpu::default()).unwrap()]).unwrap();
    let losses = [[rank.group.clone(), second], [alone.group(), alone.group()]].map(|groups| {
        let (images, tests) = Images::load();
        let mut order = Order::new(images.len());
        let training = Training::new(groups, BATCH, images, &tests).unwrap();
        let steps = order.shuffle(BATCH).take(STEPS);
        let losses = steps.map(|batch| training.step(batch, rate(0)).unwrap());
        let losses: Vec<_> = losses.collect();
        losses
            .into_iter()
            .map(|loss| loss.wait().unwrap()[0])
            .collect::<Vec<f32>>()
    });
    let [found, expected] = losses;
    for (found, expected) in found.iter().zip(&expected) {
        assert!(
            (found - expected).abs() <= 1e-5 * expected,
            "{found} {expected}"
        );
    }
    assert!(
        expected[STEPS - 1] < 0.7 * expected[0],
        "it learns: {expected:?}"
    );
}

//! Random programs of fills, copies and collectives of overlapping groups take effect in the order of the calls.

use millstream::{Device, DeviceOptions};
use millstream_cluster::{Fleet, Reduction};
use millstream_cluster_programs::calls::{Program, World};
use proptest::prelude::*;
use rstest::rstest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Rig, create, interleave, open, options, read, refs, session};

/// The last device is a second one on the last GPU, so that groups with both are not served by NCCL.
const ORDINALS: [usize; 4] = [0, 1, 2, 2];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// I1, I2: by the values, and by the checkers of the fakes.
    #[test]
    fn programs_take_effect_in_the_order_of_the_calls(
        devices in 2..=ORDINALS.len(),
        len in prop_oneof![Just(1_usize), Just(600)],
        steps in 1..40_usize,
        seed: u64,
        peers: bool,
    ) {
        let gpu = session(seed >> 8, 3);
        gpu.set_peers(peers);
        let rig = Rig::of(Fleet::new(ORDINALS.into_iter().take(devices).map(open)).unwrap(), gpu);
        let program = Program::draw(seed, (devices, 1), len, steps);
        let world = World { fills: true, ..World::of_fleet(&rig.fleet, &program) };
        program.check(&world, || {});
        drop(world);
        rig.close(());
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
    rig.close(());
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
    rig.close((group, driver));
}

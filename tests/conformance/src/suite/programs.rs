//! Random programs on real devices (I1, I2, I6, I7).
//!
//! A program of one thread on many streams is compared with a sequential oracle. Programs of many threads share buffers
//! by updates that commute, and have their own buffers, whose contents must be those of a run alone.

use crate::program::{ELEMENTS, RandomProgram, STEPS, infallible_kernels};
use crate::support::*;
use millstream::{DeviceOptions, Strategy};
use millstream_testkit::{Program, add};

/// The number of programs for each device.
const PROGRAMS: u64 = 50;

pub(crate) fn program_on_many_streams_computes_the_same_as_on_one(on: On) {
    let rig = on.open_with(DeviceOptions::default().max_tasks(8));
    for seed in 1..=PROGRAMS {
        let client = rig.client();
        RandomProgram::new(on, &client, seed).run().unwrap();
    }
    rig.device.drain();
    assert_eq!(rig.device.memory_usage().unwrap().device.live_slices, 0);
}

/// Few tasks in flight and batches of one task give the same results, with turns of either strategy.
pub(crate) fn programs_compute_the_same_with_small_limits(on: On) {
    for strategy in [Strategy::Interleave, Strategy::Sequential] {
        let options = DeviceOptions::default()
            .max_tasks(1)
            .max_in_flight(2)
            .mailbox_capacity(4)
            .max_held(16)
            .flush_every(3)
            .strategy(strategy);
        let rig = on.open_with(options);
        for seed in 100..100 + PROGRAMS / 2 {
            let client = rig.client();
            RandomProgram::new(on, &client, seed).run().unwrap();
        }
    }
}

/// Every thread has its own streams and buffers, and all threads add to shared buffers.
pub(crate) fn threads_that_share_buffers_lose_no_update_and_keep_their_own_data(on: On) {
    let (rig, client, owner) = on.start();
    let kernels = infallible_kernels(&client);
    let aligned = on.abilities().view_alignment.div_ceil(size_of::<u32>());
    let shared = [(); 3].map(|()| owner.put(&[0_u32; ELEMENTS]));
    let (shared_ref, kernels) = (&shared, &kernels);
    let sums = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| {
            let client = rig.client();
            scope.spawn(move || {
                let mut added = vec![vec![0_u32; ELEMENTS]; shared_ref.len()];
                let mut own = RandomProgram::new(on, &client, 1000 + thread);
                for step in 0..8 * STEPS {
                    own.step().unwrap();
                    let (stream, buffer) = (own.stream(), own.dice.below(shared_ref.len()));
                    let start = aligned * own.dice.below(ELEMENTS / aligned);
                    let end = start + 1 + own.dice.below(ELEMENTS - start);
                    let view = shared_ref[buffer].slice(start..end).unwrap();
                    let n = step as u32;
                    let cubes = Program::cubes(&mut own.dice);
                    add(&stream, kernels, &view, n, cubes).unwrap();
                    for sum in &mut added[buffer][start..end] {
                        *sum = sum.wrapping_add(n);
                    }
                }
                own.finish().unwrap();
                added
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    for (index, buffer) in shared.iter().enumerate() {
        let expected: Vec<u32> = (0..ELEMENTS)
            .map(|element| sums.iter().map(|added| added[index][element]).sum())
            .collect();
        assert_eq!(owner.get(buffer), expected);
    }
}

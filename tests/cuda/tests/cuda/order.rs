//! Order between queues: events order conflicting tasks, whichever stream the GPU executes first.

use millstream_client::arguments::{CubeCount, update};
use rstest::rstest;

use crate::program;
use crate::support::*;

/// I2: for fifty execution orders of the GPU there is no race, and all results are correct.
#[test]
fn hazards_between_queues_are_ordered_for_fifty_seeds_i2() {
    for seed in 0..50 {
        let gpu = gpu(seed);
        let device = open(2);
        program::run(&device).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(
            gpu.calls("cuStreamWaitEvent") > 0,
            "the program has no hazard between queues"
        );
    }
}

/// I1: eight threads each update a buffer of their own and a shared one; no update is lost.
#[rstest]
fn concurrent_updates_of_a_shared_buffer_are_all_applied_i1(#[values(11, 12, 13, 14)] seed: u64) {
    const THREADS: u32 = 8;
    const ROUNDS: u32 = 20;
    let _gpu = gpu(seed);
    let device = open(4);
    let client = device.new_client();
    let sum = client.kernel(sum()).unwrap();
    let first = client.new_stream();
    let (ones, shared) = (
        first.create(&[1_u32; 300]).unwrap(),
        first.create(&[0_u32]).unwrap(),
    );
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let stream = client.new_stream();
                let own = stream.create(&[0_u32]).unwrap();
                for _ in 0..ROUNDS {
                    for target in [&own, &shared] {
                        let arguments = (
                            millstream_client::arguments::read(&ones),
                            update(target),
                            300_u32,
                        );
                        stream
                            .launch(&sum, CubeCount::cover(300, 256), arguments)
                            .unwrap();
                    }
                }
                assert_eq!(stream.read(&own).wait().unwrap(), [300 * ROUNDS]);
            });
        }
    });
    assert_eq!(
        first.read(&shared).wait().unwrap(),
        [300 * ROUNDS * THREADS]
    );
}

/// I4: memory that is freed and reserved again at once is not accessed by its former users any more.
#[rstest]
fn memory_is_reused_only_after_its_users_have_completed_i4(
    #[values(21, 22, 23, 24, 25)] seed: u64,
) {
    let _gpu = gpu(seed);
    let device = open(2);
    let client = device.new_client();
    let streams = [client.new_stream(), client.new_stream()];
    let mut answers = Vec::new();
    for round in 0..60_u32 {
        let [writer, reader] = match round % 2 {
            0 => [&streams[0], &streams[1]],
            _ => [&streams[1], &streams[0]],
        };
        // Both buffers are dropped while the GPU may still use them, and the next round may get their memory.
        let buffer = writer.create(&vec![round; 4000]).unwrap();
        let copy = reader.empty::<u32>(4000).unwrap();
        reader.copy(&buffer, &copy).unwrap();
        answers.push((round, reader.read(&copy)));
    }
    for (round, mut answer) in answers {
        assert_eq!(answer.wait_timeout(PATIENCE).unwrap(), [round; 4000]);
    }
}

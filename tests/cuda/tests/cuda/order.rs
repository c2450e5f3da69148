//! Order between queues: what conflicts is ordered by events, whatever the GPU does first.

use millstream_client::arguments::{CubeCount, update};
use rstest::rstest;

use crate::program;
use crate::support::*;

/// I2: over fifty orders of the GPU nothing races, and everything is right.
#[test]
fn hazards_between_queues_are_ordered_for_fifty_seeds_i2() {
    for seed in 0..50 {
        let gpu = gpu(seed);
        let device = open(2);
        program::run(&device).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(
            gpu.calls("cuStreamWaitEvent") > 0,
            "it has hazards between queues"
        );
        drop(device);
        let reports = gpu.end();
        assert!(reports.is_empty(), "seed {seed}: {}", reports.join("\n"));
    }
}

/// I1: eight threads, whose updates of their own and of one shared buffer are all there.
#[rstest]
fn many_threads_update_what_they_share_i1(#[values(11, 12, 13, 14)] seed: u64) {
    const THREADS: u32 = 8;
    const ROUNDS: u32 = 20;
    let gpu = gpu(seed);
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
    drop((ones, shared, first, sum, client, device));
    gpu.assert_clean();
}

/// I4: memory that is freed and taken again at once is not touched by its old users.
#[rstest]
fn memory_is_used_again_only_when_its_users_are_over_i4(#[values(21, 22, 23, 24, 25)] seed: u64) {
    let gpu = gpu(seed);
    let device = open(2);
    let client = device.new_client();
    let streams = [client.new_stream(), client.new_stream()];
    let mut answers = Vec::new();
    for round in 0..60_u32 {
        let [writer, reader] = match round % 2 {
            0 => [&streams[0], &streams[1]],
            _ => [&streams[1], &streams[0]],
        };
        let buffer = writer.create(&vec![round; 4000]).unwrap();
        let copy = reader.empty::<u32>(4000).unwrap();
        reader.copy(&buffer, &copy).unwrap();
        answers.push((round, reader.read(&copy)));
    }
    for (round, mut answer) in answers {
        assert_eq!(answer.wait_timeout(PATIENCE).unwrap(), [round; 4000]);
    }
    drop((streams, client, device));
    gpu.assert_clean();
}

//! The team under contention: each piece runs once, panics are reported, and no member stays inside a job.

use super::*;
use millstream_sync::facade::atomic::AtomicU32;
use millstream_sync::facade::{Mutex, lock};
use proptest::prelude::*;
use std::ops::Range;

/// A team for one queue.
fn team_of_one_queue(threads: usize) -> (Team, TeamHandle) {
    let (team, mut handles) =
        Team::start(threads, 1, SpinPolicy::default(), &Spawner::default()).unwrap();
    (team, handles.remove(0))
}

/// Shares jobs of these sizes on each of `queues` handles at the same time, and counts each piece.
fn share_on_every_queue(threads: usize, queues: usize, jobs: &[u64]) {
    let (_team, handles) =
        Team::start(threads, queues, SpinPolicy::default(), &Spawner::default()).unwrap();
    std::thread::scope(|scope| {
        for mut handle in handles {
            scope.spawn(move || {
                for pieces in jobs {
                    let counts: Vec<AtomicU32> = (0..*pieces).map(|_| AtomicU32::new(0)).collect();
                    let work = |range: Range<u64>| {
                        for piece in range {
                            counts[piece as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    };
                    let own = handle.share(0, *pieces, threads, &work).unwrap();
                    assert!(own <= *pieces);
                    for (piece, count) in counts.iter().enumerate() {
                        assert_eq!(
                            count.load(Ordering::Relaxed),
                            1,
                            "piece {piece} of {pieces}"
                        );
                    }
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn each_piece_runs_exactly_once(
        threads in 1_usize..6,
        queues in 1_usize..4,
        jobs in prop::collection::vec(0_u64..3000, 1..20),
    ) {
        share_on_every_queue(threads, queues, &jobs);
    }
}

#[test]
fn thousands_of_short_jobs_complete() {
    share_on_every_queue(4, 3, &[7; 5000]);
}

#[test]
fn job_can_start_after_its_first_pieces() {
    let (_team, mut handle) = team_of_one_queue(2);
    let ran = Mutex::new(Vec::new());
    let work = |range: Range<u64>| lock(&ran).extend(range);
    handle.share(3, 9, 1, &work).unwrap();
    let mut ran = lock(&ran).clone();
    ran.sort_unstable();
    assert_eq!(ran, (3..9).collect::<Vec<_>>());
}

#[test]
fn first_panic_is_returned_and_the_next_job_runs() {
    let (_team, mut handle) = team_of_one_queue(3);
    for round in 0..50 {
        let error = handle.share(0, 1000, 2, &|range| {
            assert!(!range.contains(&500), "round {round}");
        });
        assert_eq!(error, Err(format!("round {round}")));
        assert!(handle.share(0, 100, 2, &|_| ()).is_ok());
    }
}

#[test]
fn panic_whose_payload_panics_is_returned() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("panic in drop");
        }
    }
    let (_team, mut handle) = team_of_one_queue(1);
    let error = handle.share(0, 1, 0, &|_| std::panic::panic_any(PanicsOnDrop));
    assert_eq!(error, Err("a value that is not text".to_owned()));
}

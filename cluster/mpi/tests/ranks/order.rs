//! Order among tasks, threads and ranks, and failures of parts (I1, I2, I7, I12).

use std::sync::mpsc;

use millstream::{CancelToken, CubeCount, Kernel, Reason, error::Remote, update};
use millstream_cluster::Reduction;
use millstream_mpi::World;

use crate::Rank;

/// Two threads with a group each call collectives, in different orders on each rank.
pub(crate) fn threads_that_interleave_collectives(world: World) {
    const CALLS: usize = 100;
    let rank = Rank::new(world);
    let groups = [
        rank.world.group(&rank.fleet, 0).unwrap(),
        rank.world.group(&rank.fleet, 0).unwrap(),
    ];
    // Only the first thread of rank 0, and the second of rank 1, may begin; each lets the other begin at its end.
    let (go, wait) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut wait = Some(wait);
        for (index, group) in groups.iter().enumerate() {
            let first = index == rank.rank;
            let go = first.then(|| go.clone());
            let wait = if first { None } else { wait.take() };
            let rank = &rank;
            scope.spawn(move || {
                if let Some(wait) = wait {
                    wait.recv().unwrap();
                }
                let buffer = rank.create(&vec![1_u32; 100]);
                for _ in 0..CALLS {
                    group.all_reduce(Reduction::Max, &[&buffer]).unwrap();
                    group.broadcast(index, &[&buffer]).unwrap();
                }
                if let Some(go) = go {
                    // The other rank waits for calls that our other thread makes from now on.
                    go.send(()).unwrap();
                }
                assert_eq!(rank.read(&buffer), vec![1; 100]);
            });
        }
    });
}

/// A failure on rank 1 poisons the outputs of all ranks, with its text; an overwrite heals, and the next call works.
pub(crate) fn poison_reaches_every_rank(world: World) {
    let rank = Rank::new(world);
    // A call whose bytes travel with the comparison, and one whose bytes follow.
    for len in [8, 2_000] {
        poison_of_a_buffer_reaches_every_rank(&rank, len);
    }
    // The same for a send whose data has failed.
    let data = rank.create(&[5_u32; 8]);
    match rank.rank {
        0 => {
            let token = CancelToken::new();
            token.cancel();
            rank.group
                .with_cancel(&token)
                .stream(0)
                .fill(&data, 1)
                .unwrap();
            rank.group.send(1, &data).unwrap();
        }
        1 => {
            rank.group.receive(0, &data).unwrap();
            let error = rank.error(&data);
            let root = &error.failure().unwrap().root().reason;
            assert!(
                matches!(root, Reason::Remote(Remote::Failed { rank: 0, .. })),
                "{error}"
            );
        }
        _ => {}
    }
}

/// A call that is withdrawn on one rank fails on all.
pub(crate) fn a_cancelled_call_fails_on_every_rank(world: World) {
    let rank = Rank::new(world);
    let buffer = rank.create(&[1_u32; 8]);
    let token = CancelToken::new();
    if rank.rank == 0 {
        token.cancel();
    }
    rank.group
        .with_cancel(&token)
        .all_reduce(Reduction::Sum, &[&buffer])
        .unwrap();
    let error = rank.error(&buffer);
    match &error.failure().unwrap().root().reason {
        Reason::Cancelled => assert_eq!(rank.rank, 0),
        Reason::Remote(Remote::Failed { rank: 0, message }) => {
            assert!(message.contains("cancelled"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

fn poison_of_a_buffer_reaches_every_rank(rank: &Rank, len: usize) {
    let buffer = rank.create(&vec![1_u32; len]);
    if rank.rank == 1 {
        let kernel = Kernel::new("boom")
            .updates::<u32>("v")
            .native(|_, _| panic!("boom"));
        let kernel = rank.stream().client().kernel(kernel).unwrap();
        let count = CubeCount::single();
        rank.stream()
            .launch(&kernel, count, (update(&buffer),))
            .unwrap();
    }
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let error = rank.error(&buffer);
    let root = error.failure().unwrap().root();
    match (&root.reason, rank.rank) {
        (Reason::Panicked(message), 1) => assert_eq!(message, "boom"),
        (Reason::Remote(Remote::Failed { rank: 1, message }), 0 | 2) => {
            assert!(message.contains("`boom` failed: panicked"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    rank.stream().fill(&buffer, 2).unwrap();
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    assert_eq!(rank.read(&buffer), vec![6; len]);
}

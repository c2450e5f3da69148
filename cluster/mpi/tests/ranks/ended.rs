//! A rank that is killed in the middle of a call: the others learn which rank, go on with what does not need it, and
//! make a world of the ranks that are left (I5, I7).

use std::sync::atomic::{AtomicBool, Ordering};

use millstream::{Handle, Reason, error::Remote};
use millstream_cluster::{Group, Reduction};
use millstream_mpi::{MpiError, World};

use crate::Rank;

const VICTIM: usize = 2;

pub(crate) fn all_reduce(world: World) {
    killed(world, |group, _, whole, _| {
        group.all_reduce(Reduction::Max, &[whole]).unwrap();
    });
}

pub(crate) fn reduce_scatter(world: World) {
    killed(world, |group, _, whole, part| {
        group
            .reduce_scatter(Reduction::Max, &[whole], &[part])
            .unwrap();
        group.all_gather(&[part], &[whole]).unwrap();
    });
}

pub(crate) fn all_gather(world: World) {
    killed(world, |group, _, whole, part| {
        group.all_gather(&[part], &[whole]).unwrap();
    });
}

pub(crate) fn broadcast(world: World) {
    killed(world, |group, _, whole, _| {
        // Every rank receives in its turn.
        for root in 0..4 {
            group.broadcast(root, &[whole]).unwrap();
        }
    });
}

pub(crate) fn receive(world: World) {
    killed(world, |group, rank, whole, _| match rank {
        VICTIM => {
            for to in [0, 1, 3] {
                group.send(to, whole).unwrap();
            }
        }
        _ => group.receive(VICTIM, whole).unwrap(),
    });
}

/// A panic unwinds past devices whose tasks wait for the other rank: the process ends, and the other rank learns of it.
pub(crate) fn by_a_panic(world: World) {
    let rank = Rank::new(world);
    let buffer = rank.create(&[1_u32; 8]);
    rank.group.receive(1 - rank.rank, &buffer).unwrap();
    assert_ne!(rank.rank, 1, "on purpose");
    let error = rank.error(&buffer);
    let reason = &error.failure().unwrap().root().reason;
    let expected = Reason::Remote(Remote::Ended { rank: Some(1) });
    assert_eq!(*reason, expected, "{error}");
}

/// Calls again and again, until the victim kills itself while calls are in flight.
fn killed(world: World, call: impl Fn(&Group, usize, &Handle<u32>, &Handle<u32>)) {
    killed_with(Rank::new(world), 40_000, call);
}

/// As [`killed`], with buffers of `len` elements.
pub(crate) fn killed_with(
    rank: Rank,
    len: usize,
    call: impl Fn(&Group, usize, &Handle<u32>, &Handle<u32>),
) {
    let other = rank.world.group(&rank.fleet, 0).unwrap();
    let whole = rank.create(&vec![7_u32; len]);
    let part = rank.create(&vec![7_u32; len / 4]);
    let mut calls = 0;
    let error = loop {
        call(&rank.group, rank.rank, &whole, &part);
        calls += 1;
        if rank.rank == VICTIM && calls == 5 {
            // SAFETY: ends this process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        let stream = rank.fleet.devices()[0].new_client().new_stream();
        if let Err(error) = stream.read(&whole).wait() {
            break error;
        }
        assert!(calls < 100_000, "the end of the rank was not noticed");
    };
    let reason = &error.failure().unwrap().root().reason;
    let expected = Reason::Remote(Remote::Ended {
        rank: Some(VICTIM as u32),
    });
    assert_eq!(*reason, expected, "{error}");

    // A call after the end fails at once.
    rank.stream().fill(&whole, 1).unwrap();
    rank.group.all_reduce(Reduction::Sum, &[&whole]).unwrap();
    assert!(matches!(
        rank.error(&whole).failure().unwrap().root().reason,
        Reason::Remote(Remote::Ended { .. })
    ));
    // What does not need the rank goes on.
    rank.stream().fill(&whole, 3).unwrap();
    assert_eq!(rank.read(&whole)[..3], [3; 3]);
    let (to, from) = ((rank.rank + 1) % 4, (rank.rank + 3) % 4);
    let data = rank.create(&[rank.rank as u32; 10]);
    // Ranks 0 and 1 are neighbours in the ring, on a group in which no call needs the victim.
    match rank.rank {
        0 => other.send(to, &data).unwrap(),
        1 => {
            other.receive(from, &data).unwrap();
            assert_eq!(rank.read(&data), [0; 10]);
        }
        _ => {}
    }
    // A new group with the victim is refused on all ranks, by the one that it did not meet.
    let error = rank
        .world
        .group_of_ranks(&[0, 1, 2, 3], &rank.fleet, &[0])
        .unwrap_err();
    assert!(matches!(error, MpiError::RankEnded { .. }), "{error}");

    let Rank {
        fleet,
        world,
        group,
        ..
    } = rank;
    let world = world.survivors().unwrap();
    assert_eq!(world.size(), 3);
    let after = world.group(&fleet, 0).unwrap();
    let sum = group.stream(0).create(&[1_u32; 100]).unwrap();
    after.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    assert_eq!(after.stream(0).read(&sum).wait().unwrap(), [3; 100]);
    let pair = [2, 0];
    if pair.contains(&world.rank()) {
        let pair = world.group_of_ranks(&pair, &fleet, &[0]).unwrap();
        pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        assert_eq!(pair.stream(0).read(&sum).wait().unwrap(), [6; 100]);
    }
    // Ranks leave together: the end of one must not look like another failure to a slow one.
    after.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    after.stream(0).sync().wait().unwrap();
}

/// A question is open when a rank ends: it is answered nevertheless.
pub(crate) fn a_rank_ends_while_another_asks(world: World) {
    let rank = Rank::new(world);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let sum = rank.create(&[1_u32; 8]);
    if rank.rank == VICTIM {
        rank.await_sign(&go, 0);
        // SAFETY: ends this process.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The victim does not answer, so a question is open nearly all the time.
            let mut asked = 0;
            while !failed.load(Ordering::Relaxed) {
                let waiting = rank.world.waiting().unwrap();
                assert!(waiting.len() <= 1, "{waiting:?}");
                asked += 1;
                if rank.rank == 0 && asked == 1 {
                    rank.give_sign(&go, VICTIM);
                }
            }
        });
        rank.error(&sum);
        failed.store(true, Ordering::Relaxed);
    });
    assert_eq!(rank.world.waiting().unwrap(), []);
    // Ranks leave together.
    let Rank { fleet, world, .. } = rank;
    let world = world.survivors().unwrap();
    let after = world.group(&fleet, 0).unwrap();
    after.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    after.stream(0).sync().wait().unwrap();
}

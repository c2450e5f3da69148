//! Groups of some ranks: lists that differ, and lists that are refused; groups that are made beside calls and questions (I1,
//! I12).

use std::sync::atomic::{AtomicBool, Ordering};

use millstream::{Cpu, Device};
use millstream_cluster::{Fleet, Reduction};
use millstream_mpi::{MpiError, World};

use crate::Rank;

/// The ranks that meet learn that their lists differ, and what is wrong with a list is said before any rank waits.
pub(crate) fn lists(world: World) {
    let rank = Rank::new(world);
    let form = |ranks: &[usize]| rank.world.group_of_ranks(ranks, &rank.fleet, &[0]);

    // Another order, and another rank.
    let lists: [&[usize]; 3] = match rank.rank {
        0 => [&[0, 1, 2], &[0, 1, 2], &[0, 1, 2]],
        1 => [&[1, 0, 2], &[0, 1, 2], &[0, 1, 2]],
        _ => [&[0, 1, 2], &[0, 2], &[0, 1, 2]],
    };
    for (list, odd) in lists.into_iter().zip([Some(1), Some(2), None]) {
        match (odd, form(list)) {
            (None, Ok(group)) => assert_eq!(group.len(), 3),
            (Some(odd), Err(MpiError::Lists { rank: other })) => {
                assert_eq!(other, if rank.rank == odd { 0 } else { odd });
            }
            (_, other) => panic!("{other:?}"),
        }
    }

    // Other numbers of devices.
    let open = |_| Device::open(Cpu::default()).unwrap();
    let two = Fleet::new((0..2).map(open)).unwrap();
    let devices: &[usize] = if rank.rank == 1 { &[0, 1] } else { &[0] };
    let error = rank.world.group_of_ranks(&[0, 1, 2], &two, devices);
    assert!(matches!(error, Err(MpiError::Lists { .. })));

    let error = form(&[rank.rank, 3]).unwrap_err();
    assert!(
        matches!(error, MpiError::NoRank { rank: 3, ranks: 3 }),
        "{error}"
    );
    let error = form(&[rank.rank, rank.rank]).unwrap_err();
    assert!(matches!(error, MpiError::RankTwice { .. }), "{error}");
    for list in [&[][..], &[(rank.rank + 1) % 3]] {
        let error = form(list).unwrap_err();
        assert!(matches!(error, MpiError::NotListed { .. }), "{error}");
    }
    let error = rank.world.group_of_ranks(&[rank.rank], &rank.fleet, &[5]);
    assert!(matches!(error, Err(MpiError::Cluster(_))));
}

/// Groups of any ranks in any order are made while collectives of another group are in flight and threads ask.
pub(crate) fn groups_beside_calls_and_questions(world: World) {
    const GROUPS: usize = 40;
    let rank = Rank::new(world);
    let busy = rank.world.group(&rank.fleet, 0).unwrap();
    let made = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for len in [8, 2_000].repeat(100) {
                let sum = rank.create(&vec![1_u32; len]);
                busy.all_reduce(Reduction::Sum, &[&sum]).unwrap();
                assert_eq!(rank.read(&sum), vec![rank.size as u32; len]);
            }
        });
        scope.spawn(|| {
            while !made.load(Ordering::Relaxed) {
                rank.world.waiting().unwrap();
            }
        });
        // The same numbers on all ranks.
        let mut state = 7_u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..GROUPS {
            let mut ranks: Vec<usize> = (0..rank.size).collect();
            for at in (1..ranks.len()).rev() {
                ranks.swap(at, draw(at + 1));
            }
            ranks.truncate(1 + draw(rank.size));
            if !ranks.contains(&rank.rank) {
                continue;
            }
            let group = rank
                .world
                .group_of_ranks(&ranks, &rank.fleet, &[0])
                .unwrap();
            let (own, all) = (
                rank.create(&[rank.rank as u32]),
                rank.create(&vec![0_u32; ranks.len()]),
            );
            group.all_gather(&[&own], &[&all]).unwrap();
            let expected: Vec<u32> = ranks.iter().map(|rank| *rank as u32).collect();
            assert_eq!(rank.read(&all), expected);
        }
        made.store(true, Ordering::Relaxed);
    });
}

/// A rank that has come to a meeting is not reported as missing, whatever the order of the list.
pub(crate) fn the_rank_that_a_meeting_awaits(world: World) {
    let rank = Rank::new(world);
    if rank.rank == 1 {
        rank.await_sign(&rank.group, 0);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rank.world
                .group_of_ranks(&[0, 1, 2], &rank.fleet, &[0])
                .unwrap()
        });
        if rank.rank == 0 {
            rank.ask_until(|waiting| waiting.iter().any(|call| call.missing == [1]));
            rank.give_sign(&rank.group, 1);
        }
    });
}

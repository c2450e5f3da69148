//! Groups and questions in unfavourable circumstances: a rank ends while another one asks, answers are old, and groups are
//! made beside calls and questions (I1, I5).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use millstream::{Cpu, update};
use millstream_cluster::Reduction;
use millstream_mpi::World;

use crate::Rank;
use crate::waiting::Warnings;

const VICTIM: usize = 2;

/// A question is open when a rank ends: it is answered nevertheless.
pub(crate) fn a_rank_ends_while_another_asks(world: World) {
    let rank = Rank::new(world);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let (sum, sign) = (rank.create(&[1_u32; 8]), rank.create(&[0_u32]));
    if rank.rank == VICTIM {
        go.receive(0, &sign).unwrap();
        assert_eq!(rank.read(&sign), [0]);
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
                    go.send(VICTIM, &sign).unwrap();
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

/// A call that was made while the answers of another group were awaited is not judged by the answers to an earlier question.
pub(crate) fn answers_to_earlier_questions(world: World) {
    let rank = Rank::new(world);
    let all = rank.world.group(&rank.fleet, 0).unwrap();
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let (slow, sign) = (rank.create(&[1_u32; 8]), rank.create(&[0_u32]));
    if rank.rank == 2 {
        // Its engine sleeps, so that questions of `all` stay open for a second.
        go.receive(0, &sign).unwrap();
        assert_eq!(rank.read(&sign), [0]);
        all.all_reduce(Reduction::Sum, &[&slow]).unwrap();
        assert_eq!(rank.read(&slow), [3; 8]);
        return;
    }
    let pair = rank
        .world
        .group_of_ranks(&[0, 1], &rank.fleet, &[0])
        .unwrap();
    let sum = rank.create(&vec![1_u32; 8_000]);
    if rank.rank == 1 {
        go.receive(0, &sign).unwrap();
        assert_eq!(rank.read(&sign), [0]);
        pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        assert_eq!(rank.read(&sum)[..2], [2; 2]);
        // The second call of the pair: joined here before rank 0 makes it.
        pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        while !rank
            .world
            .waiting()
            .unwrap()
            .iter()
            .any(|call| call.is_ready)
        {}
        go.send(0, &sign).unwrap();
        assert_eq!(rank.read(&sum)[..2], [4; 2]);
        all.all_reduce(Reduction::Sum, &[&slow]).unwrap();
        assert_eq!(rank.read(&slow), [3; 8]);
        return;
    }
    // The first call of the pair, with a question and its answer.
    pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    while !rank
        .world
        .waiting()
        .unwrap()
        .iter()
        .any(|call| call.missing == [1])
    {}
    go.send(1, &sign).unwrap();
    assert_eq!(rank.read(&sum)[..2], [2; 2]);
    go.receive(1, &sign).unwrap();
    assert_eq!(rank.read(&sign), [0]);
    all.all_reduce(Reduction::Sum, &[&slow]).unwrap();
    let client = rank.fleet.devices()[0].new_client();
    let guard = client.new_stream().get_resource::<Cpu>((update(&sum),));
    let guard = guard.wait().unwrap();
    let (started, start) = mpsc::channel();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let mut reports = Vec::new();
            for _ in 0..4 {
                reports.extend(rank.world.waiting().unwrap());
                let _ = started.send(());
            }
            reports
        });
        start.recv().unwrap();
        pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        let reports = asks.join().unwrap();
        let of_pair: Vec<_> = reports
            .iter()
            .filter(|call| call.call.contains("8000"))
            .collect();
        assert!(!of_pair.is_empty());
        assert!(
            of_pair.iter().all(|call| call.missing.is_empty()),
            "{of_pair:?}"
        );
    });
    drop(guard);
    assert_eq!(rank.read(&sum)[..2], [4; 2]);
    go.send(2, &sign).unwrap();
    assert_eq!(rank.read(&slow), [3; 8]);
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
    let sign = rank.create(&[0_u32]);
    if rank.rank == 1 {
        rank.group.receive(0, &sign).unwrap();
        assert_eq!(rank.read(&sign), [0]);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rank.world
                .group_of_ranks(&[0, 1, 2], &rank.fleet, &[0])
                .unwrap()
        });
        if rank.rank == 0 {
            while !rank
                .world
                .waiting()
                .unwrap()
                .iter()
                .any(|call| call.missing == [1])
            {}
            rank.group.send(1, &sign).unwrap();
        }
    });
}

/// Reports without any pause do not keep a question open for ever.
pub(crate) fn a_report_after_no_time(world: World) {
    let rank = Rank::new(world);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let (sum, sign) = (rank.create(&[1_u32; 8]), rank.create(&[0_u32]));
    rank.world.report_after(Duration::ZERO);
    if rank.rank == 1 {
        go.receive(0, &sign).unwrap();
        assert_eq!(rank.read(&sign), [0]);
    }
    rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    if rank.rank == 0 {
        assert_eq!(rank.world.waiting().unwrap().len(), 1);
        go.send(1, &sign).unwrap();
    }
    assert_eq!(rank.read(&sum), [2; 8]);
}

/// Ranks 0 and 1 report a wait first. If they have not called, other ranks do.
pub(crate) fn the_first_ranks_have_not_called(world: World) {
    let (sender, warnings) = mpsc::channel();
    tracing::subscriber::set_global_default(Warnings(sender)).unwrap();
    let rank = Rank::new(world);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let (sum, sign) = (rank.create(&[1_u32; 8]), rank.create(&[0_u32]));
    rank.world.report_after(Duration::from_millis(50));
    if rank.rank < 2 {
        go.receive(2, &sign).unwrap();
        assert_eq!(rank.read(&sign), [0]);
    }
    rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    if rank.rank == 2 {
        let is_it = |warning: &String| warning.contains("the ranks 0, 1 have not joined it");
        warnings.iter().find(is_it).unwrap();
        go.send(0, &sign).unwrap();
        go.send(1, &sign).unwrap();
    }
    assert_eq!(rank.read(&sum), [4; 8]);
}

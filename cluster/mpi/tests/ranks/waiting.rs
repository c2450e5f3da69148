//! What waits, and for which ranks: asked for, and reported as a warning (I5).

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use millstream::{Cpu, update};
use millstream_cluster::Reduction;
use millstream_mpi::{Waiting, World};

use crate::Rank;

/// Returns the warnings of this rank from now on, as lines.
fn warnings() -> mpsc::Receiver<String> {
    struct Lines(mpsc::Sender<String>);
    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // The test may be over.
            let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (sender, warnings) = mpsc::channel();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    let writer = move || Lines(sender.clone());
    subscriber.with_ansi(false).with_writer(writer).init();
    warnings
}

/// Rank 1 makes no call until the others know that they wait for it.
pub(crate) fn for_a_rank_that_has_not_called(world: World) {
    let warnings = warnings();
    let rank = Rank::new(world);
    assert_eq!(rank.world.waiting().unwrap(), []);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    // Calls whose bytes travel with the comparison, and calls whose bytes follow.
    for len in [8, 8_000] {
        let sum = rank.create(&vec![1_u32; len]);
        if rank.rank == 1 {
            rank.await_sign(&go, 0);
        }
        rank.world.report_after(Duration::from_millis(100));
        rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        if rank.rank == 0 {
            let what = |waiting: &[Waiting]| waiting.iter().all(|call| call.missing == [1]);
            let waiting = rank.ask_until(what);
            let call = format!("`all_reduce` (sum) of {len} u32 at tests/ranks/waiting.rs:");
            assert!(
                waiting.len() == 1 && waiting[0].call.starts_with(&call) && waiting[0].is_ready,
                "{waiting:?}"
            );
            let is_it = |warning: &String| {
                warning.contains(&call) && warning.contains("waits: rank 1 has not joined it")
            };
            warnings.iter().find(is_it).unwrap();
            rank.give_sign(&go, 1);
        }
        // Later calls wait for this one.
        rank.world.report_after(Duration::from_secs(60));
        assert_eq!(rank.read(&sum), vec![3; len]);
    }
    for_data_and_for_transfers(&rank);
}

fn for_data_and_for_transfers(rank: &Rank) {
    let client = rank.fleet.devices()[0].new_client();
    let sum = rank.create(&vec![1_u32; 8_000]);
    let received = rank.create(&[0_u32]);
    if rank.rank == 2 {
        // The data is not ready while the guard holds it.
        let guard = client.new_stream().get_resource::<Cpu>((update(&sum),));
        let guard = guard.wait().unwrap();
        rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        let own = |waiting: &[Waiting]| waiting.iter().any(|call| !call.is_ready);
        let waiting = rank.ask_until(own);
        let text = waiting[0].to_string();
        assert!(
            text.contains("waits: its data is not ready on this rank"),
            "{text}"
        );
        // Rank 0 has seen it.
        rank.group.receive(0, &received).unwrap();
        assert_eq!(rank.read(&received), [0]);
        drop(guard);
    } else {
        rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    }
    if rank.rank == 0 {
        rank.ask_until(|waiting| waiting.iter().any(|call| call.missing == [2]));
        rank.group.send(2, &received).unwrap();
    }
    assert_eq!(rank.read(&sum), vec![3; 8_000]);

    if rank.rank == 0 {
        rank.group.receive(1, &received).unwrap();
        let waiting = rank.ask_until(|waiting| waiting.iter().any(|call| call.missing == [1]));
        let text = waiting[0].to_string();
        let start = "`receive` of 1 u32 from rank 1 at tests/ranks/waiting.rs:";
        assert!(text.starts_with(start), "{text}");
        rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    } else {
        rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        // Rank 0 has made its receive.
        assert_eq!(rank.read(&sum), vec![9; 8_000]);
        if rank.rank == 1 {
            rank.group.send(0, &received).unwrap();
        }
    }
    assert_eq!(rank.read(&received), [0]);
    assert_eq!(rank.read(&sum), vec![9; 8_000]);
}

/// A call that was made while the answers of another group were awaited is not judged by the answers to an earlier question.
pub(crate) fn answers_to_earlier_questions(world: World) {
    let rank = Rank::new(world);
    let all = rank.world.group(&rank.fleet, 0).unwrap();
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let slow = rank.create(&[1_u32; 8]);
    if rank.rank == 2 {
        // Its engine sleeps, so that questions of `all` stay open for a second.
        rank.await_sign(&go, 0);
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
        rank.await_sign(&go, 0);
        pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        assert_eq!(rank.read(&sum)[..2], [2; 2]);
        // The second call of the pair: joined here before rank 0 makes it.
        pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
        rank.ask_until(|waiting| waiting.iter().any(|call| call.is_ready));
        rank.give_sign(&go, 0);
        assert_eq!(rank.read(&sum)[..2], [4; 2]);
        all.all_reduce(Reduction::Sum, &[&slow]).unwrap();
        assert_eq!(rank.read(&slow), [3; 8]);
        return;
    }
    // The first call of the pair, with a question and its answer.
    pair.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    rank.ask_until(|waiting| waiting.iter().any(|call| call.missing == [1]));
    rank.give_sign(&go, 1);
    assert_eq!(rank.read(&sum)[..2], [2; 2]);
    rank.await_sign(&go, 1);
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
    rank.give_sign(&go, 2);
    assert_eq!(rank.read(&slow), [3; 8]);
}

/// Reports without any pause do not keep a question open for ever.
pub(crate) fn a_report_after_no_time(world: World) {
    let rank = Rank::new(world);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let sum = rank.create(&[1_u32; 8]);
    rank.world.report_after(Duration::ZERO);
    if rank.rank == 1 {
        rank.await_sign(&go, 0);
    }
    rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    if rank.rank == 0 {
        assert_eq!(rank.world.waiting().unwrap().len(), 1);
        rank.give_sign(&go, 1);
    }
    assert_eq!(rank.read(&sum), [2; 8]);
}

/// Ranks 0 and 1 report a wait first. If they have not called, other ranks do.
pub(crate) fn the_first_ranks_have_not_called(world: World) {
    let warnings = warnings();
    let rank = Rank::new(world);
    let go = rank.world.group(&rank.fleet, 0).unwrap();
    let sum = rank.create(&[1_u32; 8]);
    rank.world.report_after(Duration::from_millis(50));
    if rank.rank < 2 {
        rank.await_sign(&go, 2);
    }
    rank.group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    if rank.rank == 2 {
        let is_it = |warning: &String| warning.contains("the ranks 0, 1 have not joined it");
        warnings.iter().find(is_it).unwrap();
        rank.give_sign(&go, 0);
        rank.give_sign(&go, 1);
    }
    assert_eq!(rank.read(&sum), [4; 8]);
}

/// The other rank never joins a small call. The world gives up after a while, and the part fails: the devices can close (I5, I10).
pub(crate) fn a_small_call_when_the_world_ends(world: World) {
    let rank = Rank::new(world);
    let other = rank.world.group(&rank.fleet, 0).unwrap();
    let sum = rank.create(&[1_u32; 8]);
    let group = [&rank.group, &other][rank.rank];
    group.all_reduce(Reduction::Sum, &[&sum]).unwrap();
    drop(rank.world);
    let stream = rank.fleet.devices()[0].new_client().new_stream();
    assert!(stream.read(&sum).wait().is_err());
}

//! Parts that cannot run, and ranks that end: the others fail with the reason, and go on (I5 to I7).

use millstream::{CancelToken, CubeCount, Error, Handle, Kernel, Reason, error::Remote, update};
use millstream_cluster::{Group, Reduction};
use rstest::rstest;

use crate::{Rig, reduce, round_machine};

const RANKS: usize = 4;

/// The calls of all ranks of a collective or of a transfer from rank 1 to rank 2, on one buffer of each rank.
#[derive(Clone, Copy, Debug)]
enum Call {
    AllReduce,
    Broadcast,
    Short,
    Long,
}

impl Call {
    fn len(self) -> usize {
        match self {
            Self::Long => 4_000,
            _ => 4,
        }
    }

    fn make(self, group: &Group, buffer: &Handle<u8>) {
        match (self, group.local_ranks().start) {
            (Self::AllReduce, _) => group.all_reduce(Reduction::Sum, &[buffer]).unwrap(),
            (Self::Broadcast, _) => group.broadcast(1, &[buffer]).unwrap(),
            (Self::Short | Self::Long, 1) => group.send(2, buffer).unwrap(),
            (Self::Short | Self::Long, 2) => group.receive(1, buffer).unwrap(),
            _ => {}
        }
    }

    /// The ranks whose buffers are poisoned if the part of rank 1 fails.
    fn poisoned(self) -> &'static [usize] {
        match self {
            Self::AllReduce => &[0, 2, 3],
            Self::Broadcast => &[0, 2, 3],
            Self::Short | Self::Long => &[2],
        }
    }
}

/// Returns the reason of each buffer's failure.
fn reasons(rig: &mut Rig, groups: &[Group], buffers: &[Handle<u8>]) -> Vec<Option<Reason>> {
    let pairs = groups.iter().zip(buffers);
    let reads: Vec<_> = pairs
        .map(|(group, buffer)| group.stream(0).read(buffer))
        .collect();
    rig.cluster.settle().unwrap();
    let reason = |outcome: Result<Vec<u8>, Error>| {
        let error = outcome.err()?;
        Some(error.failure().unwrap().root().reason.clone())
    };
    reads.into_iter().map(|read| reason(read.wait())).collect()
}

/// Why the part of rank 1 cannot run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    Poisoned,
    Cancelled,
}

/// I6, I7: a part that cannot run poisons the outputs of all others, and the next call works.
#[rstest]
fn a_failed_part_reaches_every_rank_i6_i7(
    #[values(Call::AllReduce, Call::Broadcast, Call::Short, Call::Long)] call: Call,
    #[values(Why::Poisoned, Why::Cancelled)] why: Why,
) {
    let mut rig = Rig::new(RANKS, &round_machine());
    let (groups, buffers) = rig.ranks(call.len());
    let token = CancelToken::new();
    match why {
        Why::Cancelled => drop(token.cancel()),
        Why::Poisoned => {
            let boom = Kernel::new("boom").updates::<u8>("v");
            let boom = boom.native(|_, _| panic!("boom"));
            let stream = groups[1].stream(0);
            let kernel = stream.client().kernel(boom).unwrap();
            let launched = stream.launch(&kernel, CubeCount::single(), (update(&buffers[1]),));
            launched.unwrap();
        }
    }
    for (rank, (group, buffer)) in groups.iter().zip(&buffers).enumerate() {
        match (rank, why) {
            (1, Why::Cancelled) => call.make(&group.with_cancel(&token), buffer),
            _ => call.make(group, buffer),
        }
    }
    let found = reasons(&mut rig, &groups, &buffers);
    for (rank, reason) in found.iter().enumerate() {
        // A source keeps what it has not written.
        let is_own = rank == 1 && (why == Why::Poisoned || matches!(call, Call::AllReduce));
        let expected = match (is_own || call.poisoned().contains(&rank), why) {
            (false, _) => None,
            (true, Why::Poisoned) => Some(Reason::Panicked("boom".to_owned())),
            (true, Why::Cancelled) => Some(Reason::Cancelled),
        };
        assert_eq!(*reason, expected, "rank {rank}");
    }
    for (group, buffer) in groups.iter().zip(&buffers) {
        group.stream(0).fill(buffer, 7).unwrap();
        call.make(group, buffer);
    }
    let found = reasons(&mut rig, &groups, &buffers);
    assert!(found.iter().all(Option::is_none), "{found:?}");
}

/// Ranks that call different collectives all learn what two of them called, and where.
#[test]
fn different_calls_fail_on_every_rank() {
    let mut rig = Rig::new(3, &round_machine());
    let (groups, buffers) = rig.ranks(4);
    reduce(&groups[..2], &buffers);
    groups[2]
        .all_reduce(Reduction::Max, &[&buffers[2]])
        .unwrap();
    for reason in reasons(&mut rig, &groups, &buffers) {
        let Some(Reason::Remote(Remote::Mismatch { message })) = reason else {
            panic!("{reason:?}");
        };
        for part in [
            "rank 0 called `all_reduce` (sum) of 4 u8 at ",
            "rank 2 `all_reduce` (max) of 4 u8 at ",
            file!(),
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}

/// A receive of another length fails, and its send ends.
#[test]
fn a_receive_of_another_length_fails() {
    let mut rig = Rig::new(2, &round_machine());
    let groups = rig.cluster.group().unwrap();
    let buffers = rig.create(&groups, &[vec![1_u8; 4], vec![1; 5]]);
    groups[0].send(1, &buffers[0]).unwrap();
    groups[1].receive(0, &buffers[1]).unwrap();
    let found = reasons(&mut rig, &groups, &buffers);
    assert_eq!(found[0], None);
    let Some(Reason::Remote(Remote::Mismatch { message })) = &found[1] else {
        panic!("{found:?}");
    };
    assert!(message.contains("rank 0 sends 4 u8 at"), "{message}");
    assert!(message.contains("rank 1 receives 5 u8 at"), "{message}");
}

/// I5: the others learn of the end of a rank after the time of its detection, in the middle of any call or before it,
/// and a group of them works.
#[rstest]
fn the_others_survive_the_end_of_a_rank(
    #[values(Call::AllReduce, Call::Broadcast, Call::Short, Call::Long)] call: Call,
    #[values(0, 1_100, 1_250)] ends_after_ns: u64,
) {
    let mut rig = Rig::free(RANKS, &round_machine());
    let (groups, buffers) = rig.ranks(call.len());
    let start_ns = rig.cluster.settle().unwrap();
    for (group, buffer) in groups.iter().zip(&buffers) {
        call.make(group, buffer);
    }
    rig.cluster.end_rank(1, start_ns + ends_after_ns);
    let ended_ns = rig.cluster.settle().unwrap();
    let known_ns = start_ns + ends_after_ns + 5_000;
    // Rank 1 does not answer any more.
    let others = [0, 2, 3].map(|rank| (groups[rank].clone(), buffers[rank].clone()));
    let (groups, buffers): (Vec<_>, Vec<_>) = others.into_iter().unzip();
    let found = reasons(&mut rig, &groups, &buffers);
    let any_failed = found.iter().any(Option::is_some);
    assert!(
        !any_failed || ended_ns == known_ns,
        "{ended_ns}, not {known_ns}"
    );
    for (rank, reason) in [0, 2, 3].iter().zip(found) {
        let ended = Reason::Remote(Remote::Ended { rank: Some(1) });
        // The message of a short transfer, and some of a broadcast, may be on their way already.
        if let Some(reason) = &reason {
            assert_eq!(*reason, ended, "rank {rank}");
        }
        if matches!(call, Call::Long) && *rank == 2 {
            assert!(reason.is_some(), "rank 2 has bytes of a rank that ended");
        }
        // Rank 0 needs the message that rank 1 sends after 1,010 ns, and rank 3 the next one, after 1,234.
        if matches!(call, Call::AllReduce)
            && (ends_after_ns == 0 || (*rank == 3 && ends_after_ns < 1_234))
        {
            assert!(
                reason.is_some(),
                "rank {rank} has the sum of a rank that ended"
            );
        }
    }
    // A later call of the group fails at once.
    groups[0]
        .all_reduce(Reduction::Sum, &[&buffers[0]])
        .unwrap();
    let found = reasons(&mut rig, &groups[..1], &buffers[..1]);
    assert!(matches!(
        found[0],
        Some(Reason::Remote(Remote::Ended { .. }))
    ));
    let survivors = rig.cluster.group_of(&[0, 2, 3]).unwrap();
    let fresh = rig.create(&survivors, &[vec![1_u8], vec![2], vec![4]]);
    reduce(&survivors, &fresh);
    assert_eq!(rig.read(&survivors, &fresh), vec![vec![7]; 3]);
}

/// I10: a cluster that is dropped ends its calls in flight: the ranks' devices close, also without their groups.
#[rstest]
fn a_dropped_cluster_ends_its_calls(#[values(false, true)] groups_first: bool) {
    let mut rig = Rig::new(3, &round_machine());
    let (groups, buffers) = rig.ranks(4);
    reduce(&groups[..2], &buffers);
    groups[2].receive(0, &buffers[2]).unwrap();
    let pairs = groups.iter().zip(&buffers);
    let reads: Vec<_> = pairs
        .map(|(group, buffer)| group.stream(0).read(buffer))
        .collect();
    let groups = match groups_first {
        true => Vec::new(),
        false => groups,
    };
    rig.cluster.settle().unwrap_err();
    rig.left = 2;
    drop(rig);
    for read in reads {
        read.wait().unwrap_err();
    }
    for (group, buffer) in groups.iter().zip(&buffers) {
        group.all_reduce(Reduction::Sum, &[buffer]).unwrap_err();
    }
}

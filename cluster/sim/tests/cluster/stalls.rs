//! Calls that wait for others which were not made: the report, and going on afterwards.

use millstream_cluster::Reduction;

use crate::{Rig, round_machine};

#[test]
fn a_stall_says_who_waits_for_whom_and_can_be_mended() {
    let mut rig = Rig::new(3, &round_machine());
    let (groups, buffers) = rig.ranks(4);
    let [first, second, third] = &groups[..] else {
        panic!("three ranks");
    };
    first.all_reduce(Reduction::Sum, &[&buffers[0]]).unwrap();
    third.all_reduce(Reduction::Sum, &[&buffers[2]]).unwrap();
    let stalled = rig.cluster.settle().unwrap_err();
    assert_eq!(stalled.waiting.len(), 1);
    let waiting = &stalled.waiting[0];
    assert_eq!((waiting.rank, waiting.missing), (0, Some(1)));
    let text = stalled.to_string();
    for part in [
        "1 call waits",
        "rank 0 waits in `all_reduce` (sum) of 4 u8 at ",
        ": rank 1 has not made the call",
        file!(),
    ] {
        assert!(text.contains(part), "{text}");
    }
    second.all_reduce(Reduction::Sum, &[&buffers[1]]).unwrap();
    assert_eq!(rig.read(&groups, &buffers), vec![vec![3; 4]; 3]);
}

/// Two ranks that receive before they send the same bytes wait for each other's data.
#[test]
fn a_cycle_is_a_stall() {
    let mut rig = Rig::new(2, &round_machine());
    // Long enough that a send waits for its receive.
    let (groups, buffers) = rig.ranks(4_000);
    for (rank, group) in groups.iter().enumerate() {
        group.receive(1 - rank, &buffers[rank]).unwrap();
        group.send(1 - rank, &buffers[rank]).unwrap();
    }
    let stalled = rig.cluster.settle().unwrap_err();
    rig.left = 2;
    assert_eq!(stalled.waiting.len(), 2);
    assert!(stalled.waiting.iter().all(|it| it.missing.is_none()));
    let text = stalled.to_string();
    assert!(
        text.contains("all ranks have made it, but the data of one is not ready"),
        "{text}"
    );
}

/// As on a real network, the ranks compare what they call before data moves: the root of a broadcast waits for the calls of
/// all others.
#[test]
fn a_root_waits_for_the_calls_of_all() {
    let mut rig = Rig::new(2, &round_machine());
    let (groups, buffers) = rig.ranks(4);
    groups[0].broadcast(0, &[&buffers[0]]).unwrap();
    let stalled = rig.cluster.settle().unwrap_err();
    assert_eq!(stalled.waiting[0].missing, Some(1));
    assert_eq!(rig.cluster.usage().messages, 0);
    groups[1].broadcast(0, &[&buffers[1]]).unwrap();
    rig.cluster.settle().unwrap();
}

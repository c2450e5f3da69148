//! Figures of any size, many calls, and ranks, groups and devices that end at any time.

use std::sync::mpsc;

use millstream::DeviceOptions;
use millstream::sim::Faults;
use millstream_cluster::{ClusterError, Group, Reduction};
use millstream_cluster_sim::{Link, Machine, SimCluster};
use rstest::rstest;

use crate::order::{kernels, launch};
use crate::{Rig, reduce, round_machine};

/// Figures of any size are no error.
#[rstest]
#[case::latency(|it: &mut Machine| it.port.latency_ns = u64::MAX)]
#[case::message(|it: &mut Machine| it.message_ns = u64::MAX)]
#[case::wake(|it: &mut Machine| it.wake_ns = u64::MAX)]
#[case::nothing(|it: &mut Machine| {
    let link = Link { latency_ns: 0, bytes_per_us: 0 };
    (it.memory, it.port, it.uplink) = (link, link, link);
    (it.ranks_per_host, it.hosts_per_switch, it.combined_bytes_per_us) = (0, 0, 0);
    (it.eager_bytes, it.short_bytes) = (0, 0);
})]
fn figures_of_any_size_are_no_error(#[case] change: fn(&mut Machine)) {
    let mut machine = round_machine();
    change(&mut machine);
    let mut rig = Rig::free(3, &machine);
    let (groups, buffers) = rig.ranks(4_000);
    reduce(&groups, &buffers);
    groups[0].send(1, &buffers[0]).unwrap();
    groups[1].receive(0, &buffers[1]).unwrap();
    rig.cluster.settle().unwrap();
}

/// An end at a later time happens once the cluster has come there: work that is done before takes its own time.
#[test]
fn an_end_at_a_later_time_does_not_make_settle_skip_to_it() {
    let mut rig = Rig::free(2, &round_machine());
    let (groups, buffers) = rig.ranks(4);
    rig.cluster.end_rank(1, 1_000_000);
    reduce(&groups, &buffers);
    let now_ns = rig.cluster.settle().unwrap();
    assert!(now_ns < 1_000_000, "{now_ns}");
}

/// A group that is made after the end of one of its ranks fails, as its calls never will be made.
#[test]
fn a_group_with_a_rank_that_has_ended_fails() {
    let mut rig = Rig::free(3, &round_machine());
    rig.cluster.end_rank(1, 0);
    rig.cluster.settle().unwrap();
    let groups = rig.cluster.group_of(&[0, 1]).unwrap();
    let value = groups[0].stream(0).create(&[1_u8; 4]).unwrap();
    groups[0].all_reduce(Reduction::Sum, &[&value]).unwrap();
    let read = groups[0].stream(0).read(&value);
    let settled = rig.cluster.settle();
    assert!(settled.is_ok(), "{settled:?}");
    read.wait().unwrap_err();
}

/// The reports of equal runs are equal.
#[test]
fn stalls_are_reported_in_one_order() {
    let run = || {
        let mut rig = Rig::free(16, &round_machine());
        let (groups, buffers) = rig.ranks(4);
        for rank in 1..16 {
            groups[rank].receive(0, &buffers[rank]).unwrap();
        }
        rig.left = 15;
        rig.cluster.settle().unwrap_err().to_string()
    };
    assert_eq!(run(), run());
}

/// A device that is lost fails its calls on all ranks.
#[test]
fn a_lost_device_fails_its_calls() {
    let sim = |rank: usize| match rank {
        0 => kernels(rank).faults(Faults::none().lost_at_run(2)),
        _ => kernels(rank),
    };
    let mut rig = Rig::with(2, &round_machine(), sim);
    let (groups, buffers) = rig.ranks(4);
    for (rank, group) in groups.iter().enumerate() {
        launch(group.stream(0), &buffers[rank]);
        launch(group.stream(0), &buffers[rank]);
        let _ = group.all_reduce(Reduction::Sum, &[&buffers[rank]]);
    }
    let read = groups[1].stream(0).read(&buffers[1]);
    rig.cluster.settle().unwrap();
    let failure = read.wait().unwrap_err();
    assert!(failure.to_string().contains("lost"), "{failure}");
}

/// Far more calls than a mailbox holds.
#[test]
fn thousands_of_calls_in_flight() {
    let mut rig = Rig::free(3, &round_machine());
    let (groups, buffers) = rig.ranks(4);
    (0..3_000).for_each(|_| reduce(&groups, &buffers));
    rig.cluster.settle().unwrap();
}

/// All reports number the ranks alike.
#[test]
fn reports_number_the_ranks_alike() {
    let mut rig = Rig::free(4, &round_machine());
    let groups = rig.cluster.group_of(&[3, 2]).unwrap();
    let buffers = rig.create(&groups, &vec![vec![1_u8; 4]; 2]);
    reduce(&groups[..1], &buffers);
    let stalled = rig.cluster.settle().unwrap_err().to_string();
    groups[1].broadcast(0, &[&buffers[1]]).unwrap();
    let read = groups[0].stream(0).read(&buffers[0]);
    rig.cluster.settle().unwrap();
    let mismatch = read.wait().unwrap_err().to_string();
    let is_member = |text: &str| text.contains("rank 0 ");
    assert_eq!(
        is_member(&stalled),
        is_member(&mismatch),
        "{stalled}\n{mismatch}"
    );
}

/// A send to a rank that has ended before it could answer does not complete.
#[test]
fn a_rank_that_has_ended_does_not_answer() {
    let machine = Machine {
        detection_ns: 1_000_000,
        ..round_machine()
    };
    let mut rig = Rig::with(2, &machine, kernels);
    let (groups, buffers) = rig.ranks(4_000);
    rig.cluster.settle().unwrap();
    // The receiver is ready at 0 and ends at 10; the sender is ready after its kernel.
    launch(groups[0].stream(0), &buffers[0]);
    groups[0].send(1, &buffers[0]).unwrap();
    groups[1].receive(0, &buffers[1]).unwrap();
    rig.cluster.end_rank(1, 10);
    let usage = rig.cluster.usage();
    let _ = rig.cluster.settle();
    assert_eq!(
        usage.messages,
        rig.cluster.usage().messages,
        "a long message needs an answer"
    );
}

#[test]
fn ranks_may_end_twice() {
    let mut rig = Rig::free(3, &round_machine());
    let groups = rig.cluster.group().unwrap();
    let value = groups[0].stream(0).create(&[1_u8; 4]).unwrap();
    rig.cluster.end_rank(1, 0);
    rig.cluster.end_rank(1, 0);
    rig.cluster.end_rank(2, 3);
    groups[0].broadcast(2, &[&value]).unwrap();
    groups[0].receive(0, &value).unwrap();
    let read = groups[0].stream(0).read(&value);
    rig.cluster.settle().unwrap();
    read.wait().unwrap_err();
}

#[test]
fn a_rank_may_end_at_the_end_of_time() {
    let mut rig = Rig::free(2, &round_machine());
    let (_groups, buffers) = rig.ranks(4);
    rig.cluster.end_rank(1, u64::MAX);
    rig.cluster.settle().unwrap();
    let lone = rig.cluster.group_of(&[0]).unwrap();
    lone[0].send(0, &buffers[0]).unwrap();
    let target = lone[0].stream(0).create(&[0_u8; 4]).unwrap();
    lone[0].receive(0, &target).unwrap();
    lone[0].all_reduce(Reduction::Sum, &[&target]).unwrap();
    rig.cluster.settle().unwrap();
}

/// A call that finds a mailbox full runs due callbacks of its driven device. A call that one of them makes is refused: it would
/// wait for the first one.
#[test]
fn a_callback_inside_a_call_cannot_call() {
    let options = DeviceOptions::default().mailbox_capacity(4);
    let mut cluster = SimCluster::open(2, &round_machine(), &options, kernels).unwrap();
    let groups = cluster.group().unwrap();
    let create = |group: &Group| group.stream(0).create(&[1_u8; 4]).unwrap();
    let buffers: Vec<_> = groups.iter().map(create).collect();
    let read = groups[0].stream(0).read(&buffers[0]);
    let (group, buffer) = (groups[0].clone(), buffers[0].clone());
    let (sender, outcome) = mpsc::channel();
    let callback = move |_| sender.send(group.send(1, &buffer)).unwrap();
    assert!(read.on_ready(callback).is_ok());
    for (group, buffer) in groups.iter().zip(&buffers) {
        for _ in 0..200 {
            group.all_reduce(Reduction::Max, &[buffer]).unwrap();
        }
    }
    let refused = outcome.try_recv().unwrap();
    assert!(
        matches!(refused, Err(ClusterError::Nested { call: "send" })),
        "{refused:?}"
    );
    cluster.settle().unwrap();
    // Outside of a call it works.
    groups[0].send(1, &buffers[0]).unwrap();
    groups[1].receive(0, &buffers[1]).unwrap();
    cluster.settle().unwrap();
}

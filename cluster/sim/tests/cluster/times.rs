//! The times of calls, by the machine's figures.

use millstream::sim::Sim;
use millstream::{CubeCount, Kernel, update};
use millstream_cluster::{Group, Reduction};
use millstream_cluster_sim::Machine;
use rstest::rstest;

use crate::order::{KERNEL_NS, kernels, launch};
use crate::{Rig, round_machine};

/// Returns how long some calls take. `call` makes those of each member.
fn took(rig: &mut Rig, groups: &[Group], call: impl Fn(&Group)) -> u64 {
    let start_ns = rig.cluster.settle().unwrap();
    groups.iter().for_each(call);
    rig.cluster.settle().unwrap() - start_ns
}

/// A short message does not wait for its receiver; a long one waits for its answer first.
#[rstest]
#[case::short(500, 1_000 + 10 + 200 + 500 + 10 + 1_000)]
#[case::long(5_000, 1_000 + 200 + 10 + 200 + 5_000 + 10 + 1_000)]
fn a_transfer_takes_both_wakes_the_way_and_its_bytes(#[case] bytes: usize, #[case] ns: u64) {
    let mut rig = Rig::free(2, &round_machine());
    let (groups, buffers) = rig.ranks(bytes);
    let took = took(&mut rig, &groups, |group| {
        let buffer = &buffers[group.local_ranks().start];
        match group.local_ranks().start {
            0 => group.send(1, buffer).unwrap(),
            _ => group.receive(0, buffer).unwrap(),
        }
    });
    assert_eq!(took, ns);
}

/// The rounds of the table: `log n` exchanges of all bytes, or twice as many with `2 (n - 1) / n` of them.
#[rstest]
#[case::two(2, 800, 200 + 800 + 20)]
#[case::doubling(8, 800, 3 * (200 + 800 + 20))]
#[case::halving(8, 8_000, 6 * (200 + 20) + 2 * (4_000 + 2_000 + 1_000))]
// The rank too many gives its data to a neighbour, which gets that of its partner at the same time through the same
// port, and returns the result.
#[case::folded(3, 800, 200 + 2 * 800 + 20 + (200 + 800 + 20))]
fn an_all_reduce_takes_its_rounds(#[case] ranks: usize, #[case] bytes: usize, #[case] ns: u64) {
    let mut rig = Rig::free(ranks, &round_machine());
    let (groups, buffers) = rig.ranks(bytes);
    let took = took(&mut rig, &groups, |group| {
        let buffer = &buffers[group.local_ranks().start];
        group.all_reduce(Reduction::Sum, &[buffer]).unwrap();
    });
    assert_eq!(took, 2 * 1_000 + ns);
}

/// The rounds of the others, with parts of 4,000 bytes for 4 ranks each: 16,000 in all. Combining takes its time.
#[rstest]
#[case::gather(Call::Gather, 2 * (200 + 20) + 4_000 + 8_000)]
#[case::scatter(Call::Scatter, 2 * (200 + 20) + 8_000 + 4_000 + 80_000 + 40_000)]
// A scatter by a tree, of half and then of a quarter of the bytes, and then the gather.
#[case::broadcast(Call::Broadcast, 2 * 220 + 8_000 + 4_000 + 2 * 220 + 4_000 + 8_000)]
fn the_others_take_their_rounds(#[case] call: Call, #[case] ns: u64) {
    let machine = Machine {
        combined_bytes_per_us: 100,
        ..round_machine()
    };
    let mut rig = Rig::free(4, &machine);
    let (groups, parts) = rig.ranks(4_000);
    let wholes = rig.create(&groups, &vec![vec![2_u8; 16_000]; 4]);
    let took = took(&mut rig, &groups, |group| {
        let rank = group.local_ranks().start;
        let (part, whole) = (&parts[rank], &wholes[rank]);
        match call {
            Call::Gather => group.all_gather(&[part], &[whole]),
            Call::Scatter => group.reduce_scatter(Reduction::Sum, &[whole], &[part]),
            Call::Broadcast => group.broadcast(0, &[whole]),
        }
        .unwrap();
    });
    assert_eq!(took, 2 * 1_000 + ns);
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Gather,
    Scatter,
    Broadcast,
}

/// The sender of a long transfer goes on once its bytes have left, that of a short one once its thread has sent them.
#[rstest]
#[case::short(1_000, 1_000 + 10 + 1_000)]
#[case::long(50_000, 1_000 + 200 + 10 + 50_000 + 1_000)]
fn a_sender_goes_on_when_its_bytes_have_left(#[case] bytes: usize, #[case] ns: u64) {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(bytes);
    let took = took(&mut rig, &groups, |group| match group.local_ranks().start {
        0 => {
            group.send(1, &buffers[0]).unwrap();
            // It writes what is sent.
            launch(group.stream(0), &buffers[0]);
        }
        _ => group.receive(0, &buffers[1]).unwrap(),
    });
    assert_eq!(took, ns + KERNEL_NS);
    assert_eq!(rig.read(&groups, &buffers)[1][0], 1);
}

/// A kernel and a transfer of other data take as long as the longer one of both.
#[test]
fn kernels_run_while_messages_travel() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(20_000);
    let others = rig.create(&groups, &vec![vec![1_u32; 1]; 2]);
    let streams: Vec<_> = groups
        .iter()
        .map(|group| group.stream(0).client().new_stream())
        .collect();
    let (busy, idle) = (&others, &buffers);
    let took = took(&mut rig, &groups, |group| {
        let member = group.local_ranks().start;
        let kernel = Kernel::new("add").updates::<u32>("v").native(|_, args| {
            for value in args.chunk::<u32>(0) {
                *value += 1;
            }
        });
        let kernel = streams[member].client().kernel(kernel).unwrap();
        let argument = (update(&busy[member]),);
        streams[member]
            .launch(&kernel, CubeCount::single(), argument)
            .unwrap();
        match member {
            0 => group.send(1, &idle[0]).unwrap(),
            _ => group.receive(0, &idle[1]).unwrap(),
        }
    });
    assert_eq!(took, KERNEL_NS);
    assert_eq!(rig.read(&groups, &others), vec![vec![2]; 2]);
}

/// Ranks of one host share its port; without contention each has it for itself.
#[rstest]
#[case(true, 2 * 900)]
#[case(false, 900)]
fn ranks_of_a_host_share_its_port(#[case] contention: bool, #[case] bytes_ns: u64) {
    let machine = Machine {
        ranks_per_host: 2,
        contention,
        ..round_machine()
    };
    let mut rig = Rig::free(4, &machine);
    let (groups, buffers) = rig.ranks(900);
    let took = took(&mut rig, &groups, |group| {
        let member = group.local_ranks().start;
        match member {
            0 | 1 => group.send(member + 2, &buffers[member]).unwrap(),
            _ => group.receive(member - 2, &buffers[member]).unwrap(),
        }
    });
    assert_eq!(took, 1_000 + 10 + 200 + bytes_ns + 10 + 1_000);
    let usage = rig.cluster.usage();
    assert_eq!((usage.messages, usage.bytes), (2, 1_800));
    assert_eq!(usage.waited_ns > 0, contention);
}

/// Equal programs take equal times and messages, whatever the seeds of their devices and whether data moves.
#[test]
fn runs_repeat() {
    let run = |salt: u64, data: bool| {
        let sim = |rank: usize| {
            let sim = Sim::seed(salt + rank as u64);
            if data { sim } else { sim.without_data() }
        };
        let mut rig = Rig::with(13, &Machine::default(), sim);
        let groups = rig.cluster.group().unwrap();
        let buffers = rig.create(&groups, &vec![vec![1.0_f32; 9_000]; 13]);
        for group in &groups {
            let buffer = &buffers[group.local_ranks().start];
            group.all_reduce(Reduction::Sum, &[buffer]).unwrap();
            group.broadcast(5, &[buffer]).unwrap();
            group.stream(0).fill(buffer, 2.0).unwrap();
            group.all_reduce(Reduction::Max, &[buffer]).unwrap();
        }
        let ns = rig.cluster.settle().unwrap();
        (ns, rig.cluster.usage())
    };
    let first = run(1, true);
    assert_eq!(run(1, true), first);
    assert_eq!(run(100, true), first);
    assert_eq!(run(1, false), first);
}

/// Another machine changes the times of later calls only.
#[test]
fn ranks_move_to_another_machine() {
    let mut rig = Rig::free(2, &round_machine());
    let (groups, buffers) = rig.ranks(100);
    let all_reduce = |group: &Group| {
        let buffer = &buffers[group.local_ranks().start];
        group.all_reduce(Reduction::Max, &[buffer]).unwrap();
    };
    let before = took(&mut rig, &groups, all_reduce);
    let mut faster = round_machine();
    (faster.wake_ns, faster.message_ns) = (0, 0);
    rig.cluster.set_machine(&faster);
    assert_eq!(before - took(&mut rig, &groups, all_reduce), 2 * 1_000 + 20);
    assert_eq!(rig.cluster.usage().messages, 4);
}

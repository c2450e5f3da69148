//! What the calls compute: the same as in one process, for any number of ranks.

use millstream::sim::Sim;
use millstream::{Cpu, Device, DeviceOptions, Handle};
use millstream_cluster::{Fleet, Group, Reduction};
use millstream_cluster_sim::{Machine, SimCluster};
use proptest::prelude::*;

use crate::Rig;

/// A call of a random program. Numbers are taken modulo the members or the buffers.
#[derive(Clone, Debug)]
enum Step {
    AllReduce(usize, Reduction),
    ReduceScatter(usize),
    AllGather(usize),
    Broadcast(usize, usize),
    Transfer(usize, usize, usize),
    /// A member changes a buffer of its own.
    Fill(usize, usize, f32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reduction = prop_oneof![Just(Reduction::Sum), Just(Reduction::Min)];
    let step = prop_oneof![
        (0..2_usize, reduction).prop_map(|(buffer, by)| Step::AllReduce(buffer, by)),
        (0..2_usize).prop_map(Step::ReduceScatter),
        (0..2_usize).prop_map(Step::AllGather),
        (0..2_usize, 0..8_usize).prop_map(|(buffer, root)| Step::Broadcast(buffer, root)),
        (0..2_usize, 0..8_usize, 0..8_usize)
            .prop_map(|(buffer, from, to)| { Step::Transfer(buffer, from, to) }),
        (0..2_usize, 0..8_usize, 0..100_u8)
            .prop_map(|(buffer, member, value)| { Step::Fill(buffer, member, f32::from(value)) }),
    ];
    prop::collection::vec(step, 1..16)
}

/// The buffers of a member: two as long as a part of each member together, and a part.
struct Buffers {
    wholes: [Handle<f32>; 2],
    part: Handle<f32>,
}

/// Runs a program by calls of `group(member)`, with the buffers of all members. On a network each member makes its call;
/// in one process one call has all buffers.
fn run(groups: &[Group], buffers: &[Buffers], steps: &[Step], len: usize) {
    let members = buffers.len();
    let is_network = groups.len() == members && members > 1;
    let local = |member: usize| if is_network { 0 } else { member };
    let of = |member: usize| &groups[if is_network { member } else { 0 }];
    // Calls `f` with the members of each handle of the group.
    let each = |f: &mut dyn FnMut(&Group, &[usize])| match is_network {
        true => (0..members).for_each(|member| f(of(member), &[member])),
        false => f(of(0), &(0..members).collect::<Vec<_>>()),
    };
    for step in steps {
        match *step {
            Step::AllReduce(buffer, reduction) => each(&mut |group, members| {
                let buffers = members.iter().map(|it| &buffers[*it].wholes[buffer]);
                let buffers: Vec<_> = buffers.collect();
                group.all_reduce(reduction, &buffers).unwrap();
            }),
            Step::ReduceScatter(buffer) => each(&mut |group, members| {
                let inputs = members.iter().map(|it| &buffers[*it].wholes[buffer]);
                let outputs = members.iter().map(|it| &buffers[*it].part);
                let (inputs, outputs): (Vec<_>, Vec<_>) = (inputs.collect(), outputs.collect());
                group
                    .reduce_scatter(Reduction::Sum, &inputs, &outputs)
                    .unwrap();
            }),
            Step::AllGather(buffer) => each(&mut |group, members| {
                let inputs = members.iter().map(|it| &buffers[*it].part);
                let outputs = members.iter().map(|it| &buffers[*it].wholes[buffer]);
                let (inputs, outputs): (Vec<_>, Vec<_>) = (inputs.collect(), outputs.collect());
                group.all_gather(&inputs, &outputs).unwrap();
            }),
            Step::Broadcast(buffer, root) => each(&mut |group, all| {
                let buffers = all.iter().map(|it| &buffers[*it].wholes[buffer]);
                let buffers: Vec<_> = buffers.collect();
                group.broadcast(root % members, &buffers).unwrap();
            }),
            Step::Transfer(buffer, from, to) => {
                let (from, to) = (from % members, to % members);
                let source = buffers[from].wholes[buffer].slice(..len).unwrap();
                of(from).send(to, &source).unwrap();
                of(to).receive(from, &buffers[to].part).unwrap();
            }
            Step::Fill(buffer, member, value) => {
                let member = member % members;
                let stream = of(member).stream(local(member));
                stream.fill(&buffers[member].wholes[buffer], value).unwrap();
            }
        }
    }
}

/// Creates the buffers of a member.
fn buffers(group: &Group, local: usize, member: usize, members: usize, len: usize) -> Buffers {
    let stream = group.stream(local);
    let whole = |salt: usize| {
        let values = (0..members * len).map(|index| ((index * 7 + member * 13 + salt) % 97) as f32);
        stream.create(&values.collect::<Vec<_>>()).unwrap()
    };
    Buffers {
        wholes: [whole(1), whole(2)],
        part: stream.create(&vec![member as f32; len]).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// I1 to I3: a program of random calls computes what it computes on the devices of one process, and no access lacks
    /// its order.
    #[test]
    fn random_programs_compute_the_same_as_in_one_process(
        members in 1..8_usize,
        len in prop_oneof![0..4_usize, 200..600_usize],
        ranks_per_host in 1..4_usize,
        steps in steps(),
    ) {
        let machine = Machine { ranks_per_host, ..Machine::default() };
        let mut rig = Rig::new(members, &machine);
        let groups = rig.cluster.group().unwrap();
        let of = |(member, group): (usize, &Group)| buffers(group, 0, member, members, len);
        let all: Vec<_> = groups.iter().enumerate().map(of).collect();
        run(&groups, &all, &steps, len);
        let reads: Vec<_> = groups.iter().zip(&all).map(|(group, buffers)| {
            let [a, b] = buffers.wholes.each_ref().map(|whole| group.stream(0).read(whole));
            [a, b, group.stream(0).read(&buffers.part)]
        }).collect();
        rig.cluster.settle().unwrap();
        let found: Vec<_> = reads.into_iter().map(|reads| reads.map(|read| read.wait().unwrap())).collect();

        let open = |_| Device::open(Cpu::default()).unwrap();
        let fleet = Fleet::new((0..members).map(open)).unwrap();
        let group = fleet.group();
        let all: Vec<_> = (0..members).map(|member| buffers(&group, member, member, members, len)).collect();
        run(std::slice::from_ref(&group), &all, &steps, len);
        let read = |member: usize, handle| group.stream(member).read(handle).wait().unwrap();
        for (member, (buffers, found)) in all.iter().zip(found).enumerate() {
            let [a, b] = buffers.wholes.each_ref().map(|whole| read(member, whole));
            prop_assert_eq!(found, [a, b, read(member, &buffers.part)], "member {}", member);
        }
    }
}

/// Groups of some ranks, in another order, and beside each other.
#[test]
fn groups_of_some_ranks_overlap() {
    let mut rig = Rig::new(5, &Machine::default());
    let (some, others) = ([4, 0, 2], [2, 1]);
    let [first, second] = [
        rig.cluster.group_of(&some).unwrap(),
        rig.cluster.group_of(&others).unwrap(),
    ];
    let ranks: Vec<_> = first
        .iter()
        .map(millstream_cluster::Group::local_ranks)
        .collect();
    assert_eq!(ranks, [0..1, 1..2, 2..3]);
    let values = rig.create(&first, &[vec![1.0_f32], vec![2.0], vec![4.0]]);
    let more = rig.create(&second, &[vec![8.0_f32], vec![16.0]]);
    for (group, value) in first.iter().zip(&values) {
        group.all_reduce(Reduction::Sum, &[value]).unwrap();
    }
    for (group, value) in second.iter().zip(&more) {
        group.all_reduce(Reduction::Sum, &[value]).unwrap();
    }
    assert_eq!(rig.read(&first, &values), vec![vec![7.0]; 3]);
    assert_eq!(rig.read(&second, &more), vec![vec![24.0]; 2]);
}

#[test]
fn lists_of_ranks_are_checked() {
    let options = DeviceOptions::default();
    let open = |ranks| {
        SimCluster::open(ranks, &Machine::default(), &options, |rank| {
            Sim::seed(rank as u64)
        })
    };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let error = open(0).unwrap_err();
    assert_eq!(
        text(&error),
        "a group needs at least one member; name the devices that belong to it"
    );
    let cluster = open(3).unwrap();
    let refused = |ranks: &[usize]| text(&cluster.group_of(ranks).unwrap_err());
    assert_eq!(refused(&[]), text(&error));
    assert_eq!(
        refused(&[0, 2, 0]),
        "rank 0 is listed twice; a rank is one member of a group"
    );
    assert_eq!(
        refused(&[1, 3]),
        "rank 3 does not exist, the cluster has 3 ranks, counted from 0"
    );
}

//! Ranks of a network with several devices each: the results of one process with all devices.

use millstream::{Cpu, CubeCount, Device, Handle, Kernel, update};
use millstream_cluster::{ClusterError, Fleet, Group, Reduction};
use rstest::rstest;

use crate::networks::LocalNetwork;
use crate::{Kind, Rig, create, read, refs, zeros};

/// Ranks with some devices each.
struct Ranks {
    rigs: Vec<Rig>,
    groups: Vec<Group>,
}

impl Ranks {
    fn new(kind: Kind, ranks: usize, devices: usize) -> Self {
        let rigs: Vec<_> = (0..ranks).map(|_| Rig::new(kind, devices)).collect();
        // In another order than that of the fleet.
        let listed: Vec<_> = (0..devices).rev().collect();
        let groups = rigs.iter().zip(LocalNetwork::ranks(ranks));
        let groups = groups.map(|(rig, network)| rig.fleet.group_over_all(network, &listed));
        let groups = groups.collect::<Result<_, _>>().unwrap();
        Self { rigs, groups }
    }

    /// Creates a buffer on each device of all ranks.
    fn create(&self, values: &[Vec<i32>]) -> Vec<Vec<Handle<i32>>> {
        let groups = self.groups.iter();
        let of = |group: &Group| create(group, &values[group.local_ranks()]);
        groups.map(of).collect()
    }

    fn zeros(&self, len: usize) -> Vec<Vec<Handle<i32>>> {
        let groups = self.groups.iter();
        groups.map(|group| zeros(group, len)).collect()
    }

    fn read(&self, buffers: &[Vec<Handle<i32>>]) -> Vec<Vec<i32>> {
        let pairs = self.groups.iter().zip(buffers);
        pairs
            .flat_map(|(group, buffers)| read(group, buffers))
            .collect()
    }
}

/// Returns the values of some members.
fn values(members: usize, len: usize) -> Vec<Vec<i32>> {
    let value = |member: usize, index: usize| ((member * 31 + index * 7) % 101) as i32 - 50;
    (0..members)
        .map(|member| (0..len).map(|index| value(member, index)).collect())
        .collect()
}

#[rstest]
fn several_devices_of_each_rank_compute_the_same_as_one_process(
    #[values(Kind::Cpu, Kind::Mixed)] kind: Kind,
    #[values(1, 2, 3)] ranks: usize,
    #[values(1, 2, 3)] devices: usize,
    #[values(0, 5)] len: usize,
) {
    let members = ranks * devices;
    let apart = Ranks::new(kind, ranks, devices);
    let together = Rig::new(kind, members);
    let group = together.fleet.group();
    let (parts, wholes) = (values(members, len), values(members, members * len));

    let [found, expected] = [apart.create(&parts), vec![create(&group, &parts)]];
    for (group, buffers) in apart.groups.iter().zip(&found) {
        assert_eq!(group.len(), members);
        group.all_reduce(Reduction::Sum, &refs(buffers)).unwrap();
    }
    group
        .all_reduce(Reduction::Sum, &refs(&expected[0]))
        .unwrap();
    assert_eq!(apart.read(&found), read(&group, &expected[0]));

    let (from, to) = (apart.create(&wholes), apart.zeros(len));
    for ((group, from), to) in apart.groups.iter().zip(&from).zip(&to) {
        let (from, to) = (refs(from), refs(to));
        group.reduce_scatter(Reduction::Max, &from, &to).unwrap();
    }
    let expected = (create(&group, &wholes), zeros::<i32>(&group, len));
    let (inputs, outputs) = (refs(&expected.0), refs(&expected.1));
    group
        .reduce_scatter(Reduction::Max, &inputs, &outputs)
        .unwrap();
    assert_eq!(apart.read(&to), read(&group, &expected.1));

    let (from, to) = (apart.create(&parts), apart.zeros(len * members));
    for ((group, from), to) in apart.groups.iter().zip(&from).zip(&to) {
        group.all_gather(&refs(from), &refs(to)).unwrap();
    }
    assert_eq!(apart.read(&to), vec![parts.concat(); members]);

    for root in 0..members {
        let buffers = apart.create(&parts);
        for (group, buffers) in apart.groups.iter().zip(&buffers) {
            group.broadcast(root, &refs(buffers)).unwrap();
        }
        assert_eq!(apart.read(&buffers), vec![parts[root].clone(); members]);
    }
}

/// I7: if the part of one device fails, all devices of all ranks have its failure.
#[test]
fn a_failure_of_one_device_reaches_all() {
    let ranks = Ranks::new(Kind::Mixed, 2, 3);
    let buffers = ranks.create(&values(6, 4));
    let kernel = Kernel::new("boom")
        .updates::<i32>("v")
        .native(|_, _| panic!("boom"));
    let stream = ranks.groups[1].stream(2);
    let kernel = stream.client().kernel(kernel).unwrap();
    stream
        .launch(&kernel, CubeCount::single(), (update(&buffers[1][2]),))
        .unwrap();
    for (group, buffers) in ranks.groups.iter().zip(&buffers) {
        group.all_reduce(Reduction::Sum, &refs(buffers)).unwrap();
    }
    for (group, buffers) in ranks.groups.iter().zip(&buffers) {
        for (member, buffer) in buffers.iter().enumerate() {
            let error = group.stream(member).read(buffer).wait().unwrap_err();
            assert!(error.to_string().contains("`boom` failed"), "{error}");
        }
    }
}

/// Transfers between all devices of all ranks, in an order of their own between any two.
#[rstest]
#[case::cpu(Kind::Cpu)]
#[case::mixed(Kind::Mixed)]
fn transfers_reach_the_devices_of_other_ranks(#[case] kind: Kind) {
    let ranks = Ranks::new(kind, 2, 2);
    let members = 4;
    let own = ranks.create(&values(members, 5));
    let again = ranks.create(&values(members, 7));
    let received: Vec<_> = (0..members).map(|_| ranks.zeros(5)).collect();
    let received_again: Vec<_> = (0..members).map(|_| ranks.zeros(7)).collect();
    // A member is device `member % 2` of rank `member / 2`. Receives come first on one rank, and last on the other.
    let (send, receive) = (
        |from: usize, to: usize| {
            let group = &ranks.groups[from / 2];
            group.send(to, &own[from / 2][from % 2]).unwrap();
            group.send(to, &again[from / 2][from % 2]).unwrap();
        },
        |from: usize, to: usize| {
            let group = &ranks.groups[to / 2];
            group
                .receive(from, &received[from][to / 2][to % 2])
                .unwrap();
            let buffer = &received_again[from][to / 2][to % 2];
            group.receive(from, buffer).unwrap();
        },
    );
    let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
    for (from, to) in pairs.clone().filter(|(_, to)| to / 2 == 0) {
        receive(from, to);
    }
    for (from, to) in pairs.clone() {
        send(from, to);
    }
    for (from, to) in pairs.clone().filter(|(_, to)| to / 2 == 1) {
        receive(from, to);
    }
    for from in 0..members {
        let expected = vec![values(members, 5)[from].clone(); members];
        assert_eq!(ranks.read(&received[from]), expected);
        let expected = vec![values(members, 7)[from].clone(); members];
        assert_eq!(ranks.read(&received_again[from]), expected);
    }
    drop(ranks.rigs);
}

#[test]
fn lists_of_devices_are_checked() {
    let fleet = Fleet::new([Device::open(Cpu::default()).unwrap()]).unwrap();
    let over = |devices: &[usize]| fleet.group_over_all(LocalNetwork::ranks(1).remove(0), devices);
    assert!(matches!(over(&[]), Err(ClusterError::Empty)));
    assert!(matches!(
        over(&[0, 0]),
        Err(ClusterError::Twice { device: 0 })
    ));
    let missing = ClusterError::NoDevice {
        device: 1,
        devices: 1,
    };
    assert_eq!(over(&[1]).err().unwrap().to_string(), missing.to_string());
}

//! Ranks of a network with several devices each.

use millstream::{Cpu, CubeCount, Device, Handle, Kernel, update};
use millstream_cluster::{ClusterError, Fleet, Group, Reduction};
use millstream_cluster_programs::calls::{Program, World};
use millstream_cluster_programs::networks::LocalNetwork;
use rstest::rstest;

use crate::{Kind, Rig, create, refs};

/// Ranks with some devices each.
struct Ranks {
    rigs: Vec<Rig>,
    /// Of all ranks.
    groups: Vec<Group>,
    devices: usize,
}

impl Ranks {
    fn new(kind: Kind, ranks: usize, devices: usize) -> Self {
        let mut ranks = Self {
            rigs: (0..ranks).map(|_| Rig::new(kind, devices)).collect(),
            groups: Vec::new(),
            devices,
        };
        ranks.groups = ranks.group_of(&(0..ranks.rigs.len()).collect::<Vec<_>>());
        ranks
    }

    /// Makes a group of some ranks, whose devices are in another order than that of the fleet.
    fn group_of(&self, ranks: &[usize]) -> Vec<Group> {
        let listed: Vec<_> = (0..self.devices).rev().collect();
        let groups = ranks.iter().zip(LocalNetwork::ranks(ranks.len()));
        let group = |(rank, network): (&usize, _)| {
            let group = self.rigs[*rank].fleet.group_over_all(network, &listed);
            group.unwrap()
        };
        groups.map(group).collect()
    }

    /// Creates a buffer on each device of all ranks, with the number of the member in all elements.
    fn create(&self, len: usize) -> Vec<Vec<Handle<u32>>> {
        let of = |group: &Group| {
            let values = group.local_ranks().map(|member| vec![member as u32; len]);
            create(group, &values.collect::<Vec<_>>())
        };
        self.groups.iter().map(of).collect()
    }
}

/// I1, I2: random programs over groups of some ranks, with the devices of each.
#[rstest]
fn programs_take_effect_on_several_devices_of_each_rank_i1_i2(
    #[values(Kind::Cpu, Kind::Mixed)] kind: Kind,
    #[values(1, 2, 3)] ranks: usize,
    #[values(1, 2, 3)] devices: usize,
    #[values(1, 40)] len: usize,
) {
    for seed in 0..4 {
        let over = Ranks::new(kind, ranks, devices);
        let program = Program::draw(seed, (ranks, devices), len, 40);
        let world = World {
            groups: program
                .groups
                .iter()
                .map(|list| over.group_of(list))
                .collect(),
            fleet: None,
            fills: false,
        };
        program.check(&world, || {});
        drop(over.rigs);
    }
}

/// I7: if the part of one device fails, all devices of all ranks have its failure.
#[test]
fn a_failure_of_one_device_reaches_all() {
    let ranks = Ranks::new(Kind::Mixed, 2, 3);
    let buffers = ranks.create(4);
    let kernel = Kernel::new("boom")
        .updates::<u32>("v")
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

/// I1: tasks after a buffered send run before its receive has begun, and the receiver gets the data of before them.
#[rstest]
#[case::cpu(Kind::Cpu)]
#[case::mixed(Kind::Mixed)]
fn a_buffered_send_does_not_wait_for_its_receive_i1(#[case] kind: Kind) {
    let ranks = Ranks::new(kind, 2, 1);
    let [sent, received] = &ranks.create(5)[..] else {
        panic!("two ranks");
    };
    let (sender, receiver) = (&ranks.groups[0], &ranks.groups[1]);
    sender.send(1, &sent[0]).unwrap();
    sender.stream(0).fill(&sent[0], 9).unwrap();
    assert_eq!(sender.stream(0).read(&sent[0]).wait().unwrap(), [9; 5]);
    receiver.receive(0, &received[0]).unwrap();
    let found = receiver.stream(0).read(&received[0]).wait().unwrap();
    assert_eq!(found, [0; 5]);
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

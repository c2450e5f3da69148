//! Random programs of tasks, copies and collectives of overlapping groups, for the tests of every kind of device. They take
//! effect in the order of the calls (I1, I2).

use millstream::{Device, Handle, Stream};
use millstream_cluster::{Fleet, Group, Reduction};
use proptest::prelude::*;

use crate::members::refs;

/// A device, and one of its buffers.
type Place = (usize, usize);

/// A call of a random program. A root is taken modulo the members.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A task with a number, on a stream of the device.
    Task(Place, usize, u32),
    AllReduce(usize, usize),
    /// From the first buffers to the second ones.
    Scatter(usize),
    Broadcast(usize, usize, usize),
    Copy(Place, Place),
    Send(Place, Place),
}

/// The buffers of each device.
const BUFFERS: usize = 2;
/// The streams of each device.
const STREAMS: usize = 3;

/// What programs run on.
pub(crate) struct Setting<'a> {
    pub(crate) fleet: &'a Fleet,
    /// The devices of each group.
    pub(crate) groups: &'a [&'a [usize]],
    /// The elements of each buffer: a multiple of the members of each group.
    pub(crate) len: usize,
    pub(crate) submit: Submit<'a>,
    /// What that task makes of an element.
    pub(crate) compute: fn(u32, u32) -> u32,
}

/// Submits the task of a device with a number.
type Submit<'a> = &'a dyn Fn(usize, &Stream, &Handle<u32>, u32);

/// Returns programs for this number of devices and groups.
pub(crate) fn programs(devices: usize, groups: usize) -> impl Strategy<Value = Vec<Op>> {
    let place = move || (0..devices, 0..BUFFERS);
    let op = prop_oneof![
        3 => (place(), 0..STREAMS, any::<u32>()).prop_map(|(at, on, n)| Op::Task(at, on, n)),
        3 => (0..groups, 0..BUFFERS).prop_map(|(group, buffer)| Op::AllReduce(group, buffer)),
        1 => (0..groups).prop_map(Op::Scatter),
        1 => (0..groups, 0..devices, 0..BUFFERS)
            .prop_map(|(group, root, buffer)| Op::Broadcast(group, root, buffer)),
        1 => (place(), place()).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Op::Send(from, to)),
    ];
    prop::collection::vec(op, 1..40)
}

/// By device and buffer.
type Memory = Vec<Vec<Vec<u32>>>;

impl Setting<'_> {
    /// Runs a program on the devices and on arrays, and compares the buffers.
    pub(crate) fn check(&self, program: &[Op]) -> Result<(), TestCaseError> {
        let groups = self.groups.iter();
        let mut groups: Vec<Group> = groups
            .map(|members| self.fleet.group_of(members).unwrap())
            .collect();
        groups.push(self.fleet.group());
        let clients = self.fleet.devices().iter().map(Device::new_client);
        let streams: Vec<[Stream; STREAMS]> = clients
            .map(|client| std::array::from_fn(|_| client.new_stream()))
            .collect();
        let create = |streams: &[Stream; STREAMS]| {
            let create = |_| streams[0].create(&vec![1_u32; self.len]).unwrap();
            (0..BUFFERS).map(create).collect()
        };
        let buffers: Vec<Vec<Handle<u32>>> = streams.iter().map(create).collect();
        for op in program {
            self.run(op, &groups, &streams, &buffers);
        }
        let read = |(streams, buffers): (&[Stream; STREAMS], &Vec<Handle<u32>>)| {
            let read = |buffer| streams[1].read(buffer).wait().unwrap();
            buffers.iter().map(read).collect()
        };
        let found: Memory = streams.iter().zip(&buffers).map(read).collect();
        prop_assert_eq!(found, self.expected(program));
        Ok(())
    }

    fn run(
        &self,
        op: &Op,
        groups: &[Group],
        streams: &[[Stream; STREAMS]],
        buffers: &[Vec<Handle<u32>>],
    ) {
        let at = |place: &Place| &buffers[place.0][place.1];
        let of = |group: usize, buffer: usize| -> Vec<&Handle<u32>> {
            let members = self.groups[group].iter();
            members.map(|member| &buffers[*member][buffer]).collect()
        };
        match op {
            Op::Task(place, on, n) => {
                (self.submit)(place.0, &streams[place.0][*on], at(place), *n);
            }
            Op::AllReduce(group, buffer) => {
                let buffers = of(*group, *buffer);
                groups[*group].all_reduce(Reduction::Sum, &buffers).unwrap();
            }
            Op::Scatter(group) => {
                let part = self.len / self.groups[*group].len();
                let parts = of(*group, 1).into_iter();
                let parts: Vec<_> = parts.map(|it| it.slice(..part).unwrap()).collect();
                let (inputs, group) = (of(*group, 0), &groups[*group]);
                let scattered = group.reduce_scatter(Reduction::Sum, &inputs, &refs(&parts));
                scattered.unwrap();
            }
            Op::Broadcast(group, root, buffer) => {
                let buffers = of(*group, *buffer);
                let root = root % buffers.len();
                groups[*group].broadcast(root, &buffers).unwrap();
            }
            Op::Copy(from, to) | Op::Send(from, to) if from == to => {}
            Op::Copy(from, to) => self.fleet.copy(at(from), at(to)).unwrap(),
            Op::Send(from, to) => {
                let all = &groups[self.groups.len()];
                all.receive(from.0, at(to)).unwrap();
                all.send(to.0, at(from)).unwrap();
            }
        }
    }

    /// Runs a program on arrays, in its order.
    fn expected(&self, program: &[Op]) -> Memory {
        let mut memory = vec![vec![vec![1_u32; self.len]; BUFFERS]; self.fleet.devices().len()];
        let sum = |memory: &Memory, group: usize, buffer: usize| -> Vec<u32> {
            let members = self.groups[group].iter();
            let add = |mut sum: Vec<u32>, member: &usize| {
                let values = memory[*member][buffer].iter();
                let pairs = sum.iter_mut().zip(values);
                pairs.for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
                sum
            };
            members.fold(vec![0; self.len], add)
        };
        for op in program {
            match op {
                Op::Task(at, _, n) => {
                    let values = memory[at.0][at.1].iter_mut();
                    values.for_each(|value| *value = (self.compute)(*value, *n));
                }
                Op::AllReduce(group, buffer) => {
                    let sum = sum(&memory, *group, *buffer);
                    for member in self.groups[*group] {
                        memory[*member][*buffer].clone_from(&sum);
                    }
                }
                Op::Scatter(group) => {
                    let members = self.groups[*group];
                    let sum = sum(&memory, *group, 0);
                    let parts = sum.chunks(self.len / members.len());
                    for (member, part) in members.iter().zip(parts) {
                        memory[*member][1][..part.len()].copy_from_slice(part);
                    }
                }
                Op::Broadcast(group, root, buffer) => {
                    let members = self.groups[*group];
                    let source = memory[members[root % members.len()]][*buffer].clone();
                    for member in members {
                        memory[*member][*buffer].clone_from(&source);
                    }
                }
                Op::Copy(from, to) | Op::Send(from, to) => {
                    memory[to.0][to.1] = memory[from.0][from.1].clone();
                }
            }
        }
        memory
    }
}

//! Random programs of tasks and of all calls of groups, and what they compute. They take effect in the order of the calls
//! (I1, I2): on the devices of one process, on ranks of a network, and on simulated ranks.

use std::collections::BTreeMap;
use std::ops::Range;

use millstream::{CubeCount, Handle, Kernel, KernelHandle, Stream, update};
use millstream_cluster::{Fleet, Group, Reduction};

/// The buffers of each device.
const BUFFERS: usize = 2;
/// The streams of each device, for tasks.
const STREAMS: usize = 3;
/// The groups of a program at most.
const GROUPS: usize = 4;

/// A device, and one of its buffers.
type Place = (usize, usize);

/// A step of a program, with the elements of a buffer that it touches.
#[derive(Clone, Debug)]
enum Op {
    /// A task with a number, on a stream of the device.
    Task(Place, usize, u32),
    AllReduce(usize, usize, Reduction, Range<usize>),
    /// From the first buffers to the second ones, as many elements as the members can divide.
    Scatter(usize, Reduction),
    Gather(usize),
    Broadcast(usize, usize, usize, Range<usize>),
    /// Between two members of a group.
    Send(usize, Place, Place, Range<usize>),
    /// A copy of the fleet, or a send if the devices are in several processes.
    Copy(Place, Place, Range<usize>),
}

/// A random program. All ranks draw the same one.
#[derive(Clone, Debug)]
pub struct Program {
    /// The ranks of each group. The first group has all of them.
    pub groups: Vec<Vec<usize>>,
    /// The devices of each rank.
    devices: usize,
    /// The elements of each buffer.
    len: usize,
    ops: Vec<Op>,
}

/// What a program runs on.
pub struct World<'a> {
    /// The handles of each group in this process.
    pub groups: Vec<Vec<Group>>,
    /// The fleet of all devices, if they are in this process.
    pub fleet: Option<&'a Fleet>,
    /// Whether tasks are fills. Otherwise they are kernels that read and write.
    pub fills: bool,
}

/// A device of this process.
struct Device {
    streams: [Stream; STREAMS],
    buffers: [Handle<u32>; BUFFERS],
    kernel: Option<KernelHandle>,
}

/// By device and buffer.
type Memory = Vec<[Vec<u32>; BUFFERS]>;

/// Numbers by a linear congruence (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        let Self(state) = self;
        *state = state.wrapping_mul(6_364_136_223_846_793_005);
        *state = state.wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % end.max(1)
    }

    /// Returns some of the numbers below `end`, at least one, in any order.
    fn some(&mut self, end: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..end).collect();
        for at in (1..end).rev() {
            all.swap(at, self.below(at + 1));
        }
        all.truncate(1 + self.below(end));
        all
    }

    /// Returns all elements, or some that follow each other.
    fn range(&mut self, len: usize) -> Range<usize> {
        match self.below(2) {
            0 => 0..len,
            _ => {
                let start = self.below(len + 1);
                start..start + self.below(len - start + 1)
            }
        }
    }

    fn reduction(&mut self) -> Reduction {
        use Reduction::{Max, Min, Product, Sum};
        [Sum, Sum, Product, Min, Max][self.below(5)]
    }
}

fn combine(by: Reduction, a: u32, b: u32) -> u32 {
    match by {
        Reduction::Sum => a.wrapping_add(b),
        Reduction::Product => a.wrapping_mul(b),
        Reduction::Min => a.min(b),
        Reduction::Max => a.max(b),
    }
}

/// What the kernel of a task makes of an element.
fn compute(value: u32, n: u32) -> u32 {
    value.wrapping_mul(3).wrapping_add(n)
}

/// What a buffer holds at the start.
fn start((device, buffer): Place, len: usize) -> Vec<u32> {
    let value = |index| (device * 1_000_003 + buffer * 101 + index * 7 + 1) as u32;
    (0..len).map(value).collect()
}

fn copy(memory: &mut Memory, from: Place, to: Place, range: &Range<usize>) {
    let source = memory[from.0][from.1][range.clone()].to_vec();
    memory[to.0][to.1][range.clone()].copy_from_slice(&source);
}

impl Program {
    /// Draws a program of some steps for ranks with as many devices each.
    pub fn draw(seed: u64, (ranks, devices): (usize, usize), len: usize, steps: usize) -> Self {
        let mut of = Numbers(seed);
        let more = of.below(GROUPS);
        let first = std::iter::once((0..ranks).collect());
        let groups: Vec<Vec<usize>> = first.chain((0..more).map(|_| of.some(ranks))).collect();
        let place = |of: &mut Numbers| (of.below(ranks * devices), of.below(BUFFERS));
        let step = |of: &mut Numbers| {
            let (group, buffer, range) = (of.below(groups.len()), of.below(BUFFERS), of.range(len));
            let (from, to) = (place(of), place(of));
            match of.below(11) {
                4..=5 => Op::AllReduce(group, buffer, of.reduction(), range),
                6 => Op::Scatter(group, of.reduction()),
                7 => Op::Gather(group),
                8 => {
                    let root = of.below(groups[group].len() * devices);
                    Op::Broadcast(group, root, buffer, range)
                }
                9 => {
                    let members = groups[group].len() * devices;
                    let (from, to) = ((from.0 % members, from.1), (to.0 % members, to.1));
                    match from == to {
                        true => Op::Gather(group),
                        false => Op::Send(group, from, to, range),
                    }
                }
                10 if from != to => Op::Copy(from, to, range),
                _ => Op::Task(from, of.below(STREAMS), of.below(1_000_000) as u32),
            }
        };
        let ops = (0..steps).map(|_| step(&mut of)).collect();
        Self {
            groups,
            devices,
            len,
            ops,
        }
    }

    /// Returns the devices of a group's members.
    fn members(&self, group: usize) -> Vec<usize> {
        let devices = |rank: &usize| rank * self.devices..(rank + 1) * self.devices;
        self.groups[group].iter().flat_map(devices).collect()
    }

    /// Returns the elements of a part of each member, of a buffer that a group divides.
    fn part(&self, group: usize) -> usize {
        self.len / self.members(group).len()
    }

    /// Runs the program, settles, and compares the buffers of this process with those of the program on arrays.
    ///
    /// # Panics
    /// If they differ, or a call is refused.
    pub fn check(&self, world: &World<'_>, settle: impl FnOnce()) {
        let mut devices = BTreeMap::new();
        for group in &world.groups[0] {
            for (local, device) in group.local_ranks().enumerate() {
                devices.insert(device, self.open(world, device, group.stream(local)));
            }
        }
        for op in &self.ops {
            self.run(op, world, &devices);
        }
        let reads = devices.iter().flat_map(|(device, it)| {
            let buffers = it.buffers.iter().enumerate();
            buffers.map(|(buffer, handle)| ((*device, buffer), it.streams[1].read(handle)))
        });
        let reads: Vec<_> = reads.collect();
        settle();
        let expected = self.expected(world.fills);
        for ((device, buffer), read) in reads {
            let found = read.wait().unwrap();
            assert!(
                found == expected[device][buffer],
                "buffer {buffer} of device {device} after {self:?}"
            );
        }
    }

    fn open(&self, world: &World<'_>, device: usize, like: &Stream) -> Device {
        let step = || {
            let kernel = Kernel::new("step").updates::<u32>("values");
            let kernel = kernel.scalar::<u32>("n").native(|_, args| {
                let n = args.scalar::<u32>(0);
                let values = args.chunk::<u32>(0).iter_mut();
                values.for_each(|value| *value = compute(*value, n));
            });
            like.client().kernel(kernel).unwrap()
        };
        let create = |buffer| like.create(&start((device, buffer), self.len)).unwrap();
        Device {
            streams: std::array::from_fn(|_| like.client().new_stream()),
            buffers: std::array::from_fn(create),
            kernel: (!world.fills).then(step),
        }
    }

    fn run(&self, op: &Op, world: &World<'_>, devices: &BTreeMap<usize, Device>) {
        let view = |(device, buffer): Place, range: &Range<usize>| {
            let device = devices.get(&device)?;
            Some(device.buffers[buffer].slice(range.clone()).unwrap())
        };
        // Calls `f` with each handle of a group and the views of its members.
        type Call<'a> = &'a dyn Fn(&Group, &[&Handle<u32>], &[&Handle<u32>]);
        let each = |group: usize, ranges: [&Range<usize>; BUFFERS], call: Call<'_>| {
            let members = self.members(group);
            for handle in &world.groups[group] {
                let views = [0, 1].map(|buffer| {
                    let members = members[handle.local_ranks()].iter();
                    let views =
                        members.map(|device| view((*device, buffer), ranges[buffer]).unwrap());
                    views.collect::<Vec<_>>()
                });
                let [first, second] = views
                    .each_ref()
                    .map(|views| views.iter().collect::<Vec<_>>());
                call(handle, &first, &second);
            }
        };
        let send = |group: usize, from: &Place, to: &Place, range: &Range<usize>| {
            let members = self.members(group);
            let at = |place: &Place| view((members[place.0], place.1), range).unwrap();
            for handle in &world.groups[group] {
                if handle.local_ranks().contains(&to.0) {
                    handle.receive(from.0, &at(to)).unwrap();
                }
                if handle.local_ranks().contains(&from.0) {
                    handle.send(to.0, &at(from)).unwrap();
                }
            }
        };
        match op {
            Op::Task((device, buffer), on, n) => {
                let Some(device) = devices.get(device) else {
                    return;
                };
                let (stream, values) = (&device.streams[*on], &device.buffers[*buffer]);
                match &device.kernel {
                    None => stream.fill(values, *n).unwrap(),
                    Some(kernel) => {
                        let count = CubeCount::cover(self.len, self.len.max(1));
                        stream.launch(kernel, count, (update(values), *n)).unwrap();
                    }
                }
            }
            Op::AllReduce(group, buffer, by, range) => each(*group, [range; 2], &|group, a, b| {
                group.all_reduce(*by, [a, b][*buffer]).unwrap();
            }),
            Op::Scatter(group, by) => {
                let (part, members) = (self.part(*group), self.members(*group).len());
                each(
                    *group,
                    [&(0..part * members), &(0..part)],
                    &|group, a, b| {
                        group.reduce_scatter(*by, a, b).unwrap();
                    },
                );
            }
            Op::Gather(group) => {
                let (part, members) = (self.part(*group), self.members(*group).len());
                each(
                    *group,
                    [&(0..part), &(0..part * members)],
                    &|group, a, b| {
                        group.all_gather(a, b).unwrap();
                    },
                );
            }
            Op::Broadcast(group, root, buffer, range) => {
                each(*group, [range; 2], &|group, a, b| {
                    group.broadcast(*root, [a, b][*buffer]).unwrap();
                });
            }
            Op::Send(group, from, to, range) => send(*group, from, to, range),
            Op::Copy(from, to, range) => match world.fleet {
                None => send(0, from, to, range),
                Some(fleet) => {
                    let (from, to) = (view(*from, range).unwrap(), view(*to, range).unwrap());
                    fleet.copy(&from, &to).unwrap();
                }
            },
        }
    }

    /// Runs the program on arrays, in its order.
    fn expected(&self, fills: bool) -> Memory {
        let devices = 0..self.groups[0].len() * self.devices;
        let memory = devices.map(|device| [0, 1].map(|buffer| start((device, buffer), self.len)));
        let mut memory: Memory = memory.collect();
        let reduce = |memory: &Memory, members: &[usize], buffer: usize, by| -> Vec<u32> {
            let value = |index: usize| {
                let values = members.iter().map(|member| memory[*member][buffer][index]);
                values.reduce(|a, b| combine(by, a, b)).unwrap()
            };
            (0..self.len).map(value).collect()
        };
        for op in &self.ops {
            match op {
                Op::Task((device, buffer), _, n) => {
                    for value in &mut memory[*device][*buffer] {
                        *value = if fills { *n } else { compute(*value, *n) };
                    }
                }
                Op::AllReduce(group, buffer, by, range) => {
                    let members = self.members(*group);
                    let reduced = reduce(&memory, &members, *buffer, *by);
                    for member in members {
                        let target = &mut memory[member][*buffer][range.clone()];
                        target.copy_from_slice(&reduced[range.clone()]);
                    }
                }
                Op::Scatter(group, by) => {
                    let (members, len) = (self.members(*group), self.part(*group));
                    let reduced = reduce(&memory, &members, 0, *by);
                    for (at, member) in members.into_iter().enumerate() {
                        memory[member][1][..len].copy_from_slice(&reduced[at * len..][..len]);
                    }
                }
                Op::Gather(group) => {
                    let (members, len) = (self.members(*group), self.part(*group));
                    let parts = members.iter().flat_map(|member| &memory[*member][0][..len]);
                    let whole: Vec<u32> = parts.copied().collect();
                    for member in members {
                        memory[member][1][..whole.len()].copy_from_slice(&whole);
                    }
                }
                Op::Broadcast(group, root, buffer, range) => {
                    let members = self.members(*group);
                    let source = memory[members[*root]][*buffer][range.clone()].to_vec();
                    for member in members {
                        memory[member][*buffer][range.clone()].copy_from_slice(&source);
                    }
                }
                Op::Send(group, from, to, range) => {
                    let members = self.members(*group);
                    let place = |(member, buffer): &Place| (members[*member], *buffer);
                    copy(&mut memory, place(from), place(to), range);
                }
                Op::Copy(from, to, range) => copy(&mut memory, *from, *to, range),
            }
        }
        memory
    }
}

impl<'a> World<'a> {
    /// Returns the groups of a program whose ranks are the devices of a fleet.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn of_fleet(fleet: &'a Fleet, program: &Program) -> Self {
        let lists = program.groups.iter();
        Self {
            groups: lists
                .map(|list| vec![fleet.group_of(list).unwrap()])
                .collect(),
            fleet: Some(fleet),
            fills: false,
        }
    }
}

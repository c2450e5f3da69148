//! Fleets of several devices of the subject, and of the CPU: what collectives compute, their order, their failures (I1,
//! I2, I7).

use millstream::{Cpu, Device, Element, Handle};
use millstream_cluster::{Fleet, Group, Reducible, Reduction};

use crate::Checks;
use crate::support::*;

/// Two devices of the subject with their checks, a device of the CPU, and a group of all.
struct Three {
    fleet: Fleet,
    group: Group,
    _checks: [Box<dyn Checks>; 2],
}

impl Three {
    fn open(on: On) -> Self {
        let (first, second) = (on.open(), on.open());
        let cpu = Device::open(Cpu::default()).unwrap();
        let fleet = Fleet::new([first.device, second.device, cpu]).unwrap();
        Self {
            group: fleet.group(),
            fleet,
            _checks: [first.checks, second.checks],
        }
    }

    /// Creates a buffer of each member.
    fn create<T: Element>(&self, values: [&[T]; 3]) -> [Handle<T>; 3] {
        [0, 1, 2].map(|member| self.group.stream(member).put(values[member]))
    }

    fn sum<T: Reducible>(&self, of: &[Handle<T>; 3]) {
        let summed = self.group.all_reduce(Reduction::Sum, &of.each_ref());
        summed.unwrap();
    }

    fn read<T: Element>(&self, handles: &[Handle<T>; 3]) -> [Vec<T>; 3] {
        let pending = [0, 1, 2].map(|member| self.group.stream(member).read(&handles[member]));
        pending.map(|pending| pending.wait().unwrap())
    }
}

/// Each collective computes what it says, in views and for lengths that are no multiple of a word.
/// Needs: Threads.
pub(crate) fn collectives_compute_what_they_say(on: On) {
    let three = Three::open(on);
    let group = &three.group;

    let whole = three.create([&[9_u16, 1, 2, 3], &[9, 10, 20, 30], &[9, 100, 200, 300]]);
    let views = [0, 1, 2].map(|member: usize| whole[member].slice(1..).unwrap());
    three.sum(&views);
    assert_eq!(three.read(&whole), [[9, 111, 222, 333]; 3]);

    let from = three.create([&[1_u8, 2, 3], &[4, 5, 6], &[7, 8, 9]]);
    let to = three.create([&[0_u8], &[0], &[0]]);
    let scattered = group.reduce_scatter(Reduction::Max, &from.each_ref(), &to.each_ref());
    scattered.unwrap();
    assert_eq!(three.read(&to), [[7], [8], [9]]);

    let gathered = three.create([&[0_u8; 3]; 3]);
    let all = group.all_gather(&to.each_ref(), &gathered.each_ref());
    all.unwrap();
    assert_eq!(three.read(&gathered), [[7, 8, 9]; 3]);

    group.broadcast(1, &from.each_ref()).unwrap();
    assert_eq!(three.read(&from), [[4, 5, 6]; 3]);

    for (source, target) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        let values = three.create([&[source as u32 + 5; 300], &[6; 300], &[7; 300]]);
        three.fleet.copy(&values[source], &values[target]).unwrap();
        let found = three.read(&values);
        assert_eq!(found[source], found[target]);
    }
    let nothing = three.create::<f32>([&[]; 3]);
    three.sum(&nothing);
    assert!(three.read(&nothing).iter().all(Vec::is_empty));
}

/// I1, I2: collectives take their place among the kernels that write and read their buffers, and no caller waits.
/// Needs: Threads.
pub(crate) fn collectives_take_their_place_among_kernels(on: On) {
    let three = Three::open(on);
    let clients = three.fleet.devices()[..2].iter().map(Device::new_client);
    let kernels: Vec<_> = clients
        .map(|client| (client.new_stream(), add_one(&client)))
        .collect();
    let values = three.create([&[1_u32; 500], &[1; 500], &[0; 500]]);
    let mut expected = 0_u32;
    for _ in 0..10 {
        for (member, (stream, add_one)) in kernels.iter().enumerate() {
            launch_update(stream, add_one, &values[member]).unwrap();
        }
        three.sum(&values);
        expected = match expected {
            0 => 4,
            // Two members add one, and the third does not.
            before => 3 * before + 2,
        };
    }
    assert_eq!(three.read(&values), [[expected; 500]; 3]);
}

/// I7: poison of one device reaches the outputs of all, with its root, and an overwrite heals.
/// Needs: Threads.
pub(crate) fn poison_of_one_device_reaches_all(on: On) {
    let three = Three::open(on);
    let boom = boom(on, &three.fleet.devices()[0].new_client());
    let values = three.create([&[1_u32; 4], &[2; 4], &[3; 4]]);
    boom.launch(three.group.stream(0), &values[0]).unwrap();
    three.sum(&values);
    for (member, values) in values.iter().enumerate() {
        let text = three.group.stream(member).failure(values);
        let expected = "`boom` failed: panicked with \"boom\"; so these did not run: `all_reduce`";
        assert_eq!(text, expected, "member {member}");
    }
    three.group.stream(2).fill(&values[2], 5).unwrap();
    three.group.broadcast(2, &values.each_ref()).unwrap();
    assert_eq!(three.read(&values), [[5; 4]; 3]);
}

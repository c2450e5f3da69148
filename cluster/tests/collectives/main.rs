//! Fleets on the CPU and the simulator, whose checker reports every access without order.

#![allow(clippy::unwrap_used, reason = "tests")]

mod broken;
mod errors;
mod in_flight;
mod joined;
mod members;
mod order;
mod values;

use millstream::sim::{Findings, Sim};
use millstream::{Cpu, Device, DeviceOptions, Handle, update};
use millstream_cluster::{Fleet, Group};

use members::{create, interleave, read, refs, zeros};

/// Which devices a fleet has.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Cpu,
    Sim,
    /// The CPU and the simulator, in turn.
    Mixed,
}

/// A fleet, and what its simulators have found.
struct Rig {
    fleet: Fleet,
    findings: Vec<Findings>,
}

impl Rig {
    fn new(kind: Kind, devices: usize) -> Self {
        Self::seeded(kind, devices, 7)
    }

    fn seeded(kind: Kind, devices: usize, seed: u64) -> Self {
        Self::with_options(kind, devices, seed, &DeviceOptions::default())
    }

    fn with_options(kind: Kind, devices: usize, seed: u64, options: &DeviceOptions) -> Self {
        let mut findings = Vec::new();
        let open = |index: usize| match (kind, index % 2) {
            (Kind::Cpu, _) | (Kind::Mixed, 0) => {
                Device::open_with(Cpu::default(), options.clone()).unwrap()
            }
            _ => {
                let sim = Sim::seed(seed + index as u64);
                findings.push(sim.findings());
                Device::open_with(sim, options.clone()).unwrap()
            }
        };
        let devices: Vec<Device> = (0..devices).map(open).collect();
        Self {
            fleet: Fleet::new(devices).unwrap(),
            findings,
        }
    }
}

impl Rig {
    /// Returns a group of all devices, and a buffer of this many ones on each.
    fn ones(&self, len: usize) -> (Group, Vec<Handle<u32>>) {
        ones(&self.fleet, len)
    }

    /// Holds back all tasks that touch a buffer of a device, until what is returned is dropped.
    fn hold(&self, device: usize, buffer: &Handle<u32>) -> impl Sized + use<> {
        hold(&self.fleet, device, buffer)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.findings.iter().for_each(Findings::assert_clean);
        }
    }
}

fn ones(fleet: &Fleet, len: usize) -> (Group, Vec<Handle<u32>>) {
    let group = fleet.group();
    let buffers = create(&group, &vec![vec![1; len]; group.len()]);
    (group, buffers)
}

fn hold(fleet: &Fleet, device: usize, buffer: &Handle<u32>) -> impl Sized + use<> {
    let stream = fleet.devices()[device].new_client().new_stream();
    stream
        .get_resource::<Cpu>((update(buffer),))
        .wait()
        .unwrap()
}

/// Opens a simulator with these options.
fn sim(sim: Sim) -> Device {
    Device::open_with(sim, DeviceOptions::default()).unwrap()
}

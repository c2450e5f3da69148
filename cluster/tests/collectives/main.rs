//! Fleets on the CPU and the simulator, whose checker reports every access without order.

#![allow(clippy::unwrap_used, reason = "tests")]

mod broken;
mod errors;
mod in_flight;
mod joined;
mod members;
#[allow(dead_code, reason = "no test here takes the parts of a call")]
mod networks;
mod order;
mod random;
mod values;

use millstream::sim::{Findings, Sim};
use millstream::{Cpu, Device, DeviceOptions};
use millstream_cluster::Fleet;

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

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.findings.iter().for_each(Findings::assert_clean);
        }
    }
}

/// Opens a simulator with these options.
fn sim(sim: Sim) -> Device {
    Device::open_with(sim, DeviceOptions::default()).unwrap()
}

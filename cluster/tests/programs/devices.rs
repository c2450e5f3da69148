//! The devices of the tests.

use millstream::sim::{Findings, Sim};
use millstream::{Cpu, Device};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Cpu,
    Sim,
}

/// Opens devices, and returns what the simulators find.
pub(crate) fn open(kind: Kind, devices: usize) -> (Vec<Device>, Vec<Findings>) {
    let mut findings = Vec::new();
    let open = |index: usize| match kind {
        Kind::Cpu => Device::open(Cpu::default().threads(1)).unwrap(),
        Kind::Sim => {
            let sim = Sim::seed(index as u64);
            findings.push(sim.findings());
            Device::open(sim).unwrap()
        }
    };
    ((0..devices).map(open).collect(), findings)
}

//! Kernels in Rust on the CPU and the simulator: algorithms, and what goes wrong.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod logs;
mod parts;
mod races;
mod random;
mod ranges;
mod refused;
mod say;
mod updates;

use millstream::prelude::*;
use millstream::{Cpu, sim::Sim};
use millstream_algorithms::{ALL, contract};

#[test]
fn algorithms_match_plain_rust_on_the_cpu() {
    algorithms_match(&Device::open(Cpu::default()).unwrap());
}

/// The simulator reports no race between their threads.
#[test]
fn algorithms_match_plain_rust_and_have_no_race_on_the_simulator() {
    let sim = Sim::seed(1);
    let findings = sim.findings();
    algorithms_match(&Device::open(sim).unwrap());
    findings.assert_clean();
}

/// They never contract.
#[test]
fn a_kernel_that_may_contract_rounds_twice_on_the_cpu_and_the_simulator() {
    for device in [Device::open(Cpu::default()), Device::open(Sim::seed(1))] {
        let [rest, fused] = contract::fused(&device.unwrap(), true).unwrap();
        assert!(rest.iter().all(|rest| *rest == 0.0), "{rest:?}");
        assert!(fused.iter().any(|fused| *fused != 0.0));
    }
}

fn algorithms_match(device: &Device) {
    for (name, check) in ALL {
        check(device).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

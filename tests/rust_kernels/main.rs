//! Kernels in Rust on the CPU and the simulator: algorithms, and what goes wrong.

mod races;
mod random;
mod ranges;
mod refused;

use millstream::prelude::*;
use millstream::{Cpu, sim::Sim};
use millstream_algorithms::ALL;
use rstest::rstest;

#[rstest]
fn algorithms_match_plain_rust(#[values("cpu", "sim")] backend: &str) {
    let device = match backend {
        "cpu" => Device::open(Cpu::default()),
        _ => Device::open(Sim::seed(1)),
    }
    .unwrap();
    for (name, check) in ALL {
        check(&device).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

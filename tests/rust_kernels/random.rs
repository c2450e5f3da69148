//! Random kernels, compared with an interpreter: as plain Rust, as programs on the CPU, and on the simulator.

use millstream::Cpu;
use millstream::prelude::*;
use millstream::sim::Sim;
use millstream_random_kernels::wrong_on;
use rstest::rstest;

#[rstest]
#[case::plain("cpu", false)]
#[case::program("cpu", true)]
#[case::sim("sim", false)]
fn random_kernels_do_what_rust_does(#[case] backend: &str, #[case] as_program: bool) {
    let device = match backend {
        "cpu" => Device::open(Cpu::default()),
        _ => Device::open(Sim::seed(1)),
    }
    .unwrap();
    assert_eq!(wrong_on(&device, as_program), "");
}

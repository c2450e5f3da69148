//! The kernels of the examples, as NVRTC compiles them. It needs no GPU.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../../examples/game_loop/main.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod game_loop;
#[path = "../../../examples/service.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "an example as a module"
)]
mod service;

use millstream::{Kernel, Source};

fn kernels() -> [Kernel; 3] {
    [game_loop::step(), game_loop::shade(), service::squares()]
}

/// Every GPU that we name has them, within its registers. Prints what they take.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_kernels_of_the_examples_compile_for_gpus_without_spilling() {
    for target in ["sm_80", "sm_90", "sm_90a", "sm_100"] {
        for kernel in kernels() {
            let made = millstream_cuda::compile_for(&kernel, target).unwrap();
            println!(
                "{target:<7} {:<10} {:>3} registers, {:>4} bytes shared, {} spilled",
                kernel.name(),
                made.registers,
                made.shared_bytes,
                made.spilled_bytes
            );
            assert!(
                (1..=64).contains(&made.registers),
                "{} takes {}",
                kernel.name(),
                made.registers
            );
            assert_eq!(made.spilled_bytes, 0, "{} spills", kernel.name());
        }
    }
}

/// Written anew where `MILLSTREAM_WRITE_PTX` is set.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_ptx_of_the_examples_is_what_the_compiler_makes_of_their_cuda_c() {
    for kernel in kernels() {
        let name = kernel.name();
        let made = millstream_cuda::ptx_for(&kernel, "compute_80").unwrap();
        if std::env::var_os("MILLSTREAM_WRITE_PTX").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kernels");
            std::fs::write(format!("{folder}/{name}.ptx"), &made).unwrap();
            continue;
        }
        let is_same = |source: &Source| matches!(source, Source::Ptx(text) if **text == *made);
        assert!(
            kernel.sources().iter().any(is_same),
            "{name}.ptx is of another compiler or another {name}.cu: MILLSTREAM_WRITE_PTX=1 writes it anew"
        );
    }
}

//! NVRTC compiles the kernels of the examples. Needs no GPU.
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

/// The kernels compile for each target and fit its registers. Prints their resources.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn example_kernels_compile_for_every_target_without_spilling() {
    for target in ["sm_80", "sm_90", "sm_90a", "sm_100"] {
        for kernel in kernels() {
            let compiled = millstream_cuda::compile_for(&kernel, target).unwrap();
            println!(
                "{target:<7} {:<10} {:>3} registers, {:>4} bytes shared, {} spilled",
                kernel.name(),
                compiled.registers,
                compiled.shared_bytes,
                compiled.spilled_bytes
            );
            assert!(
                (1..=64).contains(&compiled.registers),
                "kernel `{}` uses {} registers, expected 1 to 64",
                kernel.name(),
                compiled.registers
            );
            assert_eq!(
                compiled.spilled_bytes,
                0,
                "kernel `{}` spills registers",
                kernel.name()
            );
        }
    }
}

/// Writes the PTX files instead if `MILLSTREAM_WRITE_PTX` is set.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn example_ptx_matches_the_output_of_nvrtc() {
    for kernel in kernels() {
        let name = kernel.name();
        let ptx = millstream_cuda::ptx_for(&kernel, "compute_80").unwrap();
        if std::env::var_os("MILLSTREAM_WRITE_PTX").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kernels");
            std::fs::write(format!("{folder}/{name}.ptx"), &ptx).unwrap();
            continue;
        }
        let is_same = |source: &Source| matches!(source, Source::Ptx(text) if **text == *ptx);
        assert!(
            kernel.sources().iter().any(is_same),
            "{name}.ptx is out of date with {name}.cu or this NVRTC; set MILLSTREAM_WRITE_PTX=1 to write it again"
        );
    }
}

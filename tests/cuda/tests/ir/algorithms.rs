//! Kernels that are Rust functions.

use millstream_algorithms::{ALL, Check, language};
use millstream_random_kernels::wrong_on;

use crate::support::Gpu;

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn algorithms_match_plain_rust() {
    for (name, check) in ALL {
        let (gpu, check): (Gpu, &Check) = (Gpu::new(1), check);
        check(gpu.device()).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn random_kernels_do_what_rust_does() {
    let gpu = Gpu::new(1);
    assert_eq!(wrong_on(gpu.device(), false), "");
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_kernel_that_may_contract_rounds_once() {
    let gpu = Gpu::new(1);
    let [rest, fused] = language::fused(gpu.device(), true).unwrap();
    assert_eq!(rest, fused);
}

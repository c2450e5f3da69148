//! Kernels that are Rust functions.

use std::sync::Arc;

use millstream::__kernel::call::program;
use millstream_algorithms::{ALL, Check, contract};
use millstream_cuda::ptx_for;
use millstream_ir::Program;
use millstream_ir::ssa::Function;
use millstream_protocol::Kernel;
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

/// PTX that says `rn` is not contracted further.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn only_a_kernel_that_may_contract_has_products_that_may_be_fused() {
    let ptx = |function: Function| {
        let program = Arc::new(Program::Ssa(function));
        let kernel = Kernel::from_program("roundings", program).unwrap();
        ptx_for(&kernel, "compute_90").unwrap()
    };
    let function = program::<contract::roundings<'static>>().unwrap();
    let contracted = ptx(function.clone());
    let may_be_fused = |text: &str| text.contains("mul.f32") || text.contains("fma.rn.f32");
    assert!(may_be_fused(&contracted), "{contracted}");
    let contract = false;
    let exact = ptx(Function {
        contract,
        ..function
    });
    assert!(
        exact.contains("mul.rn.f32") && !may_be_fused(&exact),
        "{exact}"
    );
}

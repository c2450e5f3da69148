//! Kernels that are Rust functions.

use millstream_algorithms::{ALL, Check};

use crate::support::Gpu;

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn algorithms_match_plain_rust() {
    for (name, check) in ALL {
        let (gpu, check): (Gpu, &Check) = (Gpu::new(1), check);
        check(gpu.device()).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

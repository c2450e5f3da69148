//! Kernels that are Rust functions.

use millstream_algorithms::ALL;
use millstream_random_kernels::wrong_on;
use rstest::rstest;

use crate::gpu::{Buffers, Gpu};

#[rstest]
fn algorithms_match_plain_rust(
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    for (name, check) in ALL {
        check(&gpu.device).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[rstest]
fn random_kernels_do_what_rust_does(
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    assert_eq!(wrong_on(&gpu.device, false), "");
}

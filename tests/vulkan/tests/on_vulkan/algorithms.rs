//! Kernels that are Rust functions.

use millstream_algorithms::ALL;
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

//! Results of nests, for every entry point and blocking that a launch may use.

use millstream_kernel_cases::nests::{self, Case, every_nest};
use millstream_kernel_cases::results;
use rstest::rstest;
use rstest_reuse::apply;

use crate::gpu::{Buffers, Gpu};

fn compare(case: &Case, special: bool, buffers: Buffers) {
    if let Some(gpu) = Gpu::open(buffers) {
        results::compare(case, special, &gpu);
    }
}

#[rstest]
fn rows_of_any_length_are_reduced_correctly(
    #[values(1, 2, 31, 32, 33, 64, 100)] len: usize,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    compare(&nests::softmax(3, len), false, buffers);
}

#[apply(every_nest)]
fn every_entry_point_and_blocking_matches_the_interpreter(
    #[case] case: Case,
    special: bool,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    compare(&case, special, buffers);
}

//! Results of nests, for every entry point and blocking that a launch may use.

use millstream_kernel_cases::nests::{self, Case, every_nest};
use millstream_kernel_cases::results;
use rstest::rstest;
use rstest_reuse::apply;

use crate::support::Gpu;

fn compare(case: &Case, special: bool) {
    let gpu = Gpu::new(7);
    results::compare(case, special, &gpu);
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn rows_of_any_length_are_reduced_correctly(#[values(1, 2, 31, 32, 33, 64, 100)] len: usize) {
    compare(&nests::softmax(3, len), false);
}

#[apply(every_nest)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_entry_point_and_blocking_matches_the_interpreter(#[case] case: Case, special: bool) {
    compare(&case, special);
}

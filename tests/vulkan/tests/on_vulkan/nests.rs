//! Results of nests, for every entry point and blocking that a launch may use.

use millstream::DType;
use millstream_kernel_cases::nests::{self, Case};
use millstream_kernel_cases::results;
use rstest::rstest;

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

#[rstest]
#[case::one(nests::elements(1, 0))]
#[case::odd(nests::elements(2_047, 0))]
#[case::wide(nests::elements(2_048, 4))]
#[case::permuted(nests::permuted(33, 20))]
#[case::indexed(nests::indexed(7, 24))]
#[case::halves(nests::halves(1_000))]
#[case::casts(nests::casts(1_000))]
#[case::integers(nests::integers(1_024))]
#[case::functions(nests::functions(512))]
#[case::every_function_f32(nests::every_function(DType::F32, 512))]
#[case::every_function_f64(nests::every_function(DType::F64, 512))]
#[case::random(nests::random(300))]
#[case::gather(nests::gather(20, 12))]
#[case::scatter(nests::scatter(12, 30))]
#[case::columns(nests::columns(36, 50))]
#[case::totals(nests::totals(9, 40))]
#[case::counted(nests::counted(2, 5, [3, 7]))]
#[case::long(nests::counted(1, 3, [30, 50]))]
#[case::empty_rows(nests::counted(2, 3, [0, 5]))]
#[case::empty_batch(nests::counted(0, 3, [2, 5]))]
fn every_entry_point_and_blocking_matches_the_interpreter(
    #[case] case: Case,
    #[values(false, true)] special: bool,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    compare(&case, special, buffers);
}

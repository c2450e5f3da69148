//! Results of SSA functions that are written by hand.

use millstream::DType;
use millstream_kernel_cases::functions::{self, Case};
use rstest::rstest;

use crate::gpu::{Buffers, Gpu};

const BOTH: [Buffers; 2] = [Buffers::Addresses, Buffers::Descriptors];

fn check(case: &Case) {
    let opened = BOTH.into_iter().filter_map(Gpu::open);
    opened.for_each(|gpu| case.assert_on(&gpu));
}

#[test]
fn a_handwritten_saxpy_computes_saxpy() {
    check(&functions::saxpy());
}

#[test]
fn writes_before_a_barrier_are_visible_to_all_threads_after_it() {
    check(&functions::transpose());
}

/// Cubes of any shape can reduce, whether or not their subgroups are full.
#[rstest]
fn every_thread_gets_the_result_of_a_cubes_reduction(
    #[values([1, 1, 1], [7, 1, 1], [32, 1, 1], [33, 1, 1], [64, 1, 1], [100, 1, 1], [8, 6, 2], [16, 3, 1])]
    threads: [u32; 3],
) {
    check(&functions::reductions(threads));
}

#[rstest]
fn concurrent_atomic_additions_are_all_counted(
    #[values(DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64)] dtype: DType,
) {
    check(&functions::additions(dtype));
}

#[rstest]
fn loops_end_for_steps_below_one_and_for_bounds_that_differ_by_thread(
    #[values(0, -1, 4)] step: i64,
) {
    check(&functions::loops(step));
}

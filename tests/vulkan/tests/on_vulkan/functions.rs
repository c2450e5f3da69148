//! Results of SSA functions that are written by hand.

use millstream::DType;
use millstream::ir::ReduceOp;
use millstream::ir::ssa::Builder;
use millstream_kernel_cases::control;
use millstream_kernel_cases::functions::{self, Case};
use rstest::rstest;

use crate::gpu::{Buffers, Gpu};

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const RANDOM_FUNCTIONS: u64 = 12;

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
    #[values([1, 1, 1], [7, 1, 1], [32, 1, 1], [33, 1, 1], [64, 1, 1], [65, 1, 1], [100, 1, 1], [255, 1, 1],
        [256, 1, 1], [600, 1, 1], [8, 6, 2], [16, 3, 1], [4, 31, 1])]
    threads: [u32; 3],
) {
    check(&functions::reductions(threads));
}

/// Subgroups of any width, in cubes of any shape: those of the device, parts of them, and others. lavapipe's have eight threads.
#[rstest]
fn threads_of_a_subgroup_exchange_values(
    #[values(([96, 1, 1], 32), ([8, 6, 2], 8), ([4, 31, 1], 2), ([64, 2, 1], 16), ([24, 2, 1], 4), ([12, 1, 1], 4), ([3, 1, 1], 1))]
    (threads, width): ([u32; 3], u32),
    #[values(DType::F32, DType::U64, DType::F16, DType::U8, DType::Bool)] dtype: DType,
) {
    check(&functions::shuffles(dtype, threads, width));
    check(&functions::subgroup_sums(threads, width));
}

/// The order of a sum is a tree whose upper half is added to the lower one, so that all Vulkan devices round alike.
#[rstest]
fn sum_of_floats_over_a_cube_is_a_tree_of_halves(
    #[values(2, 5, 8, 9, 33, 64, 100, 256)] width: u32,
) {
    let k = Builder::new("sum", [width, 1, 1]);
    let (from, to) = (k.read("from", DType::F32), k.write("to", DType::F32));
    to.set(k.thread(), from.get(k.thread()).reduce(ReduceOp::Sum));
    let mut values: Vec<f32> = (0..width)
        .map(|at| 1.0 / (at * at % 89 + 1) as f32)
        .collect();
    let bytes = |values: &[f32]| -> Vec<u8> {
        let all = values.iter().flat_map(|value| value.to_le_bytes());
        all.collect()
    };
    let from = bytes(&values);
    while values.len() > 1 {
        let upper = values.split_off(values.len().next_power_of_two() / 2);
        let pairs = values.iter_mut().zip(upper);
        pairs.for_each(|(mine, theirs)| *mine += theirs);
    }
    check(&Case {
        function: k.build().unwrap(),
        cubes: 1,
        buffers: vec![from, vec![0; 4 * width as usize]],
        words: Vec::new(),
        expected: bytes(&vec![values[0]; width as usize]),
    });
}

#[rstest]
fn concurrent_atomic_additions_are_all_counted(
    #[values(DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64)] dtype: DType,
) {
    check(&functions::additions(dtype));
}

#[rstest]
fn atomic_operations_return_what_the_element_was(
    #[values(DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64)] dtype: DType,
) {
    check(&control::atomics(dtype));
}

#[rstest]
fn loops_end_for_steps_below_one_and_for_bounds_that_differ_by_thread(
    #[values(0, -1, 4)] step: i64,
) {
    check(&functions::loops(step));
}

/// Loops are left by `break`, `continue` and `return`; threads meet at barriers in a `while`.
#[test]
fn loops_that_are_left_have_their_results() {
    check(&control::collatz());
    check(&control::halves());
}

#[rstest]
fn checked_accesses_out_of_bounds_give_zeros_and_store_nothing(
    #[values(
        DType::Bool,
        DType::U8,
        DType::F16,
        DType::I32,
        DType::F32,
        DType::U64,
        DType::F64
    )]
    dtype: DType,
) {
    check(&control::clipped(dtype));
}

/// Random control flow and accesses out of bounds have the results of the reference.
#[test]
fn random_functions_have_the_results_of_the_reference() {
    let seeds = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok());
    for gpu in BOTH.into_iter().filter_map(Gpu::open) {
        for seed in 0..seeds.unwrap_or(RANDOM_FUNCTIONS) {
            println!("seed {seed}");
            control::random(seed).case.assert_on(&gpu);
        }
    }
}

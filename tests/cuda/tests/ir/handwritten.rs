//! Thread functions written by hand with the SSA builder.

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_cuda::Cuda;
use millstream_ir::DType;
use millstream_kernel_cases::control;
use millstream_kernel_cases::functions::{self, Case};
use millstream_protocol::{Error, Kernel, KernelError, Source};
use rstest::rstest;

use crate::support::Gpu;

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const RANDOM_FUNCTIONS: u64 = 8;

fn check(seed: u64, case: &Case) -> String {
    let gpu = Gpu::new(seed);
    case.assert_on(&gpu);
    gpu.launched()
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_handwritten_saxpy_computes_saxpy() {
    assert_eq!(
        check(1, &functions::saxpy()),
        "ms_tested <<<[3, 1, 1], [96, 1, 1], 0>>> priority 0"
    );
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn writes_before_a_barrier_are_visible_to_all_threads_after_it() {
    check(2, &functions::transpose());
}

/// Cubes of any shape can reduce, whether or not their warps are full.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_thread_gets_the_result_of_a_cubes_reduction(
    #[values([1, 1, 1], [7, 1, 1], [32, 1, 1], [33, 1, 1], [64, 1, 1], [100, 1, 1], [8, 6, 2], [16, 3, 1])]
    threads: [u32; 3],
) {
    check(5, &functions::reductions(threads));
}

/// Subgroups of any width, in cubes of any shape.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn threads_of_a_subgroup_exchange_values(
    #[values(([96, 1, 1], 32), ([8, 6, 2], 8), ([4, 31, 1], 2), ([64, 2, 1], 16), ([12, 1, 1], 4), ([3, 1, 1], 1))]
    (threads, width): ([u32; 3], u32),
    #[values(DType::F32, DType::U64, DType::F16, DType::U8, DType::Bool)] dtype: DType,
) {
    check(70, &functions::shuffles(dtype, threads, width));
    check(71, &functions::subgroup_sums(threads, width));
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn concurrent_atomic_additions_are_all_counted(
    #[values(DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64)] dtype: DType,
) {
    check(6, &functions::additions(dtype));
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn atomic_operations_return_what_the_element_was(
    #[values(DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64)] dtype: DType,
) {
    check(13, &control::atomics(dtype));
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn loops_end_for_steps_below_one_and_for_bounds_that_differ_by_thread(
    #[values(0, -1, 4)] step: i64,
) {
    check(8, &functions::loops(step));
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn loops_end_at_the_greatest_index(#[values(1, 7, i64::MAX)] step: i64) {
    check(9, &functions::loops_at_the_end(step));
}

/// Loops are left by `break`, `continue` and `return`; threads meet at barriers in a `while`.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn loops_that_are_left_have_their_results() {
    check(10, &control::collatz());
    check(11, &control::halves());
}

/// The fake driver reports an access that a function lets through.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
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
    check(12, &control::clipped(dtype));
}

/// Random control flow and accesses out of bounds have the results of the reference.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn random_functions_have_the_results_of_the_reference() {
    let seeds = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok());
    let gpu = Gpu::new(13);
    for seed in 0..seeds.unwrap_or(RANDOM_FUNCTIONS) {
        println!("seed {seed}");
        control::random(seed).case.assert_on(&gpu);
    }
}

/// A compiler that is newer than the driver is not used: the next source is, and without one the error says what to
/// update.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn compiler_that_is_newer_than_the_driver_is_passed_over_i7() {
    let session = Session::begin(10).unwrap_or_else(|error| panic!("{error}"));
    session.set_driver_version(12_040);
    let device = Device::open(Cuda::ordinal(0).queues(1).no_kernel_cache()).unwrap();
    let client = device.new_client();
    let fill = || {
        let kernel = Kernel::new("fill").writes::<u32>("to");
        let text = "extern \"C\" __global__ void fill(unsigned* to, unsigned value, unsigned n) {}";
        kernel.scalar::<u32>("value").scalar::<u32>("n").cuda(text)
    };
    match client.kernel(fill()) {
        Err(Error::Kernel(KernelError::NoCompiler { why, .. })) => assert!(
            why.contains("is newer than the driver, which supports CUDA 12.4"),
            "{why}"
        ),
        other => panic!("{other:?}"),
    }
    let ptx = Source::Ptx(include_str!("../kernels/fill.ptx").into());
    drop(client.kernel(fill().source(ptx)).unwrap());
    drop((client, device));
    session.assert_clean();
}

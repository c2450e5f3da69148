//! Reductions of every type in two stages.

use millstream::DType;
use rstest::rstest;

use super::split_reductions::every_reduction;
use super::support::On;

#[rstest]
fn split_reductions_of_every_type_equal_whole_ones(
    #[values(On::Cpu, On::Sim)] on: On,
    #[values(
        DType::F64,
        DType::F16,
        DType::Bf16,
        DType::I64,
        DType::I32,
        DType::U32,
        DType::U8,
        DType::Bool
    )]
    dtype: DType,
) {
    every_reduction(on, dtype);
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn split_reductions_of_halves_and_integers_equal_whole_ones_on_a_gpu(
    #[values(DType::Bf16, DType::I64)] dtype: DType,
) {
    every_reduction(On::Cuda, dtype);
}

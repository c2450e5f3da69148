//! Results of matrix products.

use millstream::DType;
use millstream::ir::lower;
use millstream_kernel_cases::Runs;
use millstream_kernel_cases::products::{self, Shape, column_major, dense};
use millstream_kernel_cases::tolerance::assert_close;
use rstest::rstest;

use crate::gpu::{Buffers, Gpu};

#[rstest]
fn products_match_their_definition(
    #[values(dense(1, [5, 7, 3]), dense(2, [64, 64, 16]), column_major(2, [70, 65, 33]), dense(1, [3, 130, 0]))]
    shape: Shape,
    #[values(
        DType::F32,
        DType::F64,
        DType::F16,
        DType::Bf16,
        DType::I32,
        DType::I64,
        DType::U8
    )]
    dtype: DType,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let case = shape.case(dtype);
    let outputs = gpu.run(case.program, 1, &case.buffers, &case.words);
    assert_close("product", dtype, &outputs[2], &case.expected);
}

#[rstest]
fn products_match_their_definition_for_every_tile_size(
    #[values(dense(1, [5, 7, 3]), column_major(2, [130, 65, 33]))] shape: Shape,
    #[values(DType::F32, DType::F64, DType::F16, DType::U8)] dtype: DType,
) {
    let Some(gpu) = Gpu::open(Buffers::Addresses) else {
        return;
    };
    let case = shape.case(dtype);
    let blockings = lower::blockings(&case.program);
    assert!(!blockings.is_empty());
    for blocking in blockings {
        let program = case.program.clone();
        let outputs = gpu.run_blocked(program, blocking, 1, &case.buffers, &case.words);
        assert_close(&blocking.to_string(), dtype, &outputs[2], &case.expected);
    }
}

/// The epilogue reads each element as it is stored in memory, rounded to its type, and replaces it in place.
#[rstest]
fn an_epilogue_is_applied_to_each_element(
    #[values(DType::F32, DType::F16)] dtype: DType,
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let case = products::with_epilogue(dtype);
    let outputs = gpu.run(case.program, 1, &case.buffers, &case.words);
    assert_close("product", dtype, &outputs[2], &case.expected);
}

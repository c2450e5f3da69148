//! Matrix products, by the tiled kernel and by cuBLASLt.

use std::sync::Arc;

use millstream_ir::{Blocking, DType, lower};
use millstream_kernel_cases::Runs;
use millstream_kernel_cases::products::{self, Shape, column_major, dense};
use millstream_kernel_cases::tolerance::assert_close;
use millstream_protocol::Kernel;
use rstest::rstest;

use crate::library::library;
use crate::support::Gpu;

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
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
    #[values(u64::MAX, 0)] library_from: u64,
) {
    let case = shape.case(dtype);
    let gpu = Gpu::with(3, |cuda| cuda.library_products_from(library_from));
    let before = library().products();
    let outputs = gpu.run(case.program, 1, &case.buffers, &case.words);
    assert_close("product", dtype, &outputs[2], &case.expected);
    let by_library = library_from == 0 && dtype.is_float() && shape.lens[2] > 0;
    assert_eq!(library().products() - before, u64::from(by_library));
}

/// A blocking with a tile size selects the tiled kernel, even if the library is available.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn products_match_their_definition_for_every_tile_size(
    #[values(dense(1, [5, 7, 3]), column_major(2, [130, 65, 33]))] shape: Shape,
    #[values(DType::F32, DType::F64, DType::F16, DType::I32, DType::U8)] dtype: DType,
) {
    let case = shape.case(dtype);
    let gpu = Gpu::with(3, |cuda| cuda.library_products_from(0));
    let before = library().products();
    let blockings = lower::blockings(&case.program);
    assert!(!blockings.is_empty());
    for blocking in blockings {
        let program = case.program.clone();
        let outputs = gpu.run_blocked(program, blocking, 1, &case.buffers, &case.words);
        assert_close(&blocking.to_string(), dtype, &outputs[2], &case.expected);
    }
    assert_eq!(library().products(), before);
    let kernel = Kernel::from_program("tested", Arc::new(case.program)).unwrap();
    let kernel = kernel.with(Blocking::DEFAULT.tile(3, 3));
    let error = gpu.stream().0.kernel(kernel).unwrap_err();
    assert!(error.to_string().contains("tiles of 3 x 3"), "{error}");
}

/// The epilogue reads each element as it is stored in memory, rounded to its type, and replaces it in place.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn an_epilogue_is_applied_to_each_element(
    #[values(DType::F32, DType::F16)] dtype: DType,
    #[values(u64::MAX, 0)] library_from: u64,
) {
    let case = products::with_epilogue(dtype);
    let gpu = Gpu::with(4, |cuda| cuda.library_products_from(library_from));
    let outputs = gpu.run(case.program, 1, &case.buffers, &case.words);
    assert_close("product", dtype, &outputs[2], &case.expected);
}

//! Grids of launches of nests, which have enough threads that none loops over many elements, and the registers of all
//! entry points.

use std::sync::Arc;

use millstream_ir::{DType, Program, lower};
use millstream_kernel_cases::Runs;
use millstream_kernel_cases::data::elements;
use millstream_kernel_cases::nests::{self, Case};
use millstream_kernel_cases::products::product;
use millstream_protocol::Kernel;
use rstest::rstest;

use crate::support::Gpu;

#[rstest]
#[case(
    nests::elements(100, 0),
    "ms_tested_threads_4 <<<[1, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::elements(5_000, 0),
    "ms_tested_threads_4 <<<[5, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::elements(5_000, 1),
    "ms_tested_threads <<<[20, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::elements(5_001, 0),
    "ms_tested_threads <<<[20, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::softmax(3, 2_000),
    "ms_tested_cubes <<<[3, 1, 1], [512, 1, 1], 0>>>"
)]
#[case(nests::softmax(3, 20), "ms_tested_rows <<<[1, 1, 1], [32, 8, 1], 0>>>")]
#[case(
    nests::scatter(600, 4),
    "ms_tested_threads <<<[3, 1, 1], [256, 1, 1], 0>>>"
)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_lengths_of_a_nest_determine_the_geometry_of_its_launch(
    #[case] case: Case,
    #[case] expected: &str,
) {
    let nest = millstream_ir_text::nest(&case.text).unwrap();
    let buffers = nest.buffers.iter().zip(&case.lens);
    let buffers: Vec<Vec<u8>> = buffers
        .map(|(buffer, len)| elements(buffer.dtype, *len, 1, false))
        .collect();
    let gpu = Gpu::new(1);
    gpu.run(Program::Nest(nest), 1, &buffers, &case.words);
    let launched = gpu.launched();
    assert_eq!(launched.strip_suffix(" priority 0"), Some(expected));
}

fn nest(case: Case) -> Program {
    Program::Nest(millstream_ir_text::nest(&case.text).unwrap())
}

/// No entry point of these programs needs more registers than a thread has.
#[rstest]
#[case::elements(nest(nests::elements(1, 0)), 0)]
#[case::permuted(nest(nests::permuted(1, 1)), 0)]
// The compiler implements 64-bit division as a call, and spills a register around it.
#[case::indexed(nest(nests::indexed(1, 1)), 8)]
#[case::halves(nest(nests::halves(1)), 0)]
#[case::casts(nest(nests::casts(1)), 0)]
#[case::integers(nest(nests::integers(1)), 0)]
#[case::functions(nest(nests::functions(1)), 0)]
#[case::random(nest(nests::random(1)), 0)]
#[case::gather(nest(nests::gather(1, 1)), 0)]
#[case::scatter(nest(nests::scatter(1, 1)), 0)]
#[case::softmax(nest(nests::softmax(1, 1)), 0)]
#[case::columns(nest(nests::columns(1, 1)), 0)]
#[case::counted(nest(nests::counted(1, 1, [1, 1])), 0)]
#[case::product_f32(product(DType::F32, None), 0)]
// On sm_80 the end of the loop over tiles is spilled, and read once for each tile.
#[case::product_f64(product(DType::F64, None), 8)]
#[case::product_f16(product(DType::F16, None), 0)]
#[case::product_bf16(product(DType::Bf16, None), 0)]
#[case::product_i32(product(DType::I32, None), 0)]
#[case::product_u8(product(DType::U8, None), 0)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_entry_point_compiles_without_spilling(
    #[case] program: Program,
    #[case] spilled_bytes_max: u32,
    #[values("sm_80", "sm_90")] target: &str,
) {
    let kernel = Kernel::from_program("tested", Arc::new(program)).unwrap();
    let compiled = millstream_cuda::compile_for(&kernel, target).unwrap();
    let (registers, spilled) = (compiled.registers, compiled.spilled_bytes);
    assert!(
        spilled <= spilled_bytes_max,
        "the kernel spills {spilled} bytes, expected at most {spilled_bytes_max}"
    );
    assert!(
        (1..=168).contains(&registers),
        "the kernel uses {registers} registers, expected 1 to 168"
    );
}

/// No blocking that a tuner may choose spills more than 32 bytes. The largest tiles keep 64 sums per thread, which
/// leaves no registers for some addresses.
#[rstest]
#[case::elements(nest(nests::elements(1, 0)))]
#[case::softmax(nest(nests::softmax(1, 1)))]
#[case::product_f32(product(DType::F32, None))]
#[case::product_f16(product(DType::F16, None))]
#[case::product_i32(product(DType::I32, None))]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_blocking_spills_at_most_32_bytes(#[case] program: Program) {
    for blocking in lower::blockings(&program) {
        let kernel = Kernel::from_program("tested", Arc::new(program.clone())).unwrap();
        let compiled = millstream_cuda::compile_for(&kernel.with(blocking), "sm_90").unwrap();
        let registers = compiled.registers;
        let spilled = compiled.spilled_bytes;
        assert!(
            spilled <= 32,
            "{blocking}: the kernel spills {spilled} bytes, expected at most 32"
        );
        assert!(
            (1..=255).contains(&registers),
            "{blocking}: the kernel uses {registers} registers, expected 1 to 255"
        );
    }
}

/// A kernel whose launch words exceed the parameter space is refused when it is prepared. The error states the limit.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_kernel_with_too_many_launch_words_is_refused() {
    let text = "nest outer 0 inner 0 words 600  buffer 0 f32 write  access 0 = buffer 0 []  %0 f32 = const 0x0  store outer 0 %0";
    let nest = millstream_ir_text::nest(text).unwrap();
    let kernel = Kernel::from_program("wordy", Arc::new(Program::Nest(nest))).unwrap();
    let error = millstream_cuda::cuda_c(&kernel).unwrap_err().to_string();
    assert!(
        error.contains("at most 4096 bytes of bindings and launch words, got 4808"),
        "{error}"
    );
}

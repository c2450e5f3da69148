//! What launches of nests become: never one thread for many elements.

use std::sync::Arc;

use millstream_ir::{DType, Matmul, Nest, Program, lower};
use millstream_protocol::kernel::Kernel;
use rstest::rstest;

use crate::nests::{self, Case};
use crate::support::{Gpu, elements};

#[rstest]
#[case(
    nests::elements(100, 0),
    "ms_tried_threads_4 <<<[1, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::elements(5_000, 0),
    "ms_tried_threads_4 <<<[5, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::elements(5_000, 1),
    "ms_tried_threads <<<[20, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::elements(5_001, 0),
    "ms_tried_threads <<<[20, 1, 1], [256, 1, 1], 0>>>"
)]
#[case(
    nests::softmax(3, 2_000),
    "ms_tried_cubes <<<[3, 1, 1], [512, 1, 1], 0>>>"
)]
#[case(nests::softmax(3, 20), "ms_tried_rows <<<[1, 1, 1], [32, 8, 1], 0>>>")]
#[case(
    nests::scatter(600, 4),
    "ms_tried_threads <<<[3, 1, 1], [256, 1, 1], 0>>>"
)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_launch_of_a_nest_has_the_cubes_that_its_lengths_ask_for(
    #[case] case: Case,
    #[case] expected: &str,
) {
    let nest: Nest = case.text.parse().unwrap();
    let buffers = nest.buffers.iter().zip(&case.lens);
    let buffers: Vec<Vec<u8>> = buffers
        .map(|(buffer, len)| elements(buffer.dtype, *len, 1, false))
        .collect();
    let gpu = Gpu::new(1);
    gpu.run(Program::Nest(nest), 1, &buffers, &case.words);
    let launched = gpu.launched();
    assert_eq!(launched.strip_suffix(" priority 0"), Some(expected));
    gpu.close();
}

fn nest(case: Case) -> Program {
    Program::Nest(case.text.parse().unwrap())
}

fn product(dtype: DType) -> Program {
    Program::Matmul(Matmul {
        dtype,
        partial: false,
        batch: 1,
        epilogue: None,
    })
}

/// No way of running any of these takes more registers than a thread has.
#[rstest]
#[case::elements(nest(nests::elements(1, 0)), 0)]
#[case::permuted(nest(nests::permuted(1, 1)), 0)]
// A quotient of 64 bits is a call of the compiler's own, around which it keeps a register in memory.
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
#[case::singles(product(DType::F32), 0)]
#[case::doubles(product(DType::F64), 0)]
#[case::half_singles(product(DType::F16), 0)]
#[case::brain_floats(product(DType::Bf16), 0)]
#[case::whole_numbers(product(DType::I32), 0)]
#[case::bytes(product(DType::U8), 0)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_way_compiles_without_spilling(
    #[case] program: Program,
    #[case] spilled_most: u32,
    #[values("sm_80", "sm_90")] target: &str,
) {
    let kernel = Kernel::from_program("tried", Arc::new(program)).unwrap();
    let made = millstream_cuda::compile_for(&kernel, target).unwrap();
    let (registers, spilled) = (made.registers, made.spilled_bytes);
    assert!(spilled <= spilled_most, "{spilled} bytes are spilled");
    assert!((1..=168).contains(&registers), "{registers} registers");
}

/// Nor does any way that a tuner may choose, to speak of: the largest tiles keep 64 sums a thread, and leave no register for some addresses.
#[rstest]
#[case::elements(nest(nests::elements(1, 0)))]
#[case::softmax(nest(nests::softmax(1, 1)))]
#[case::singles(product(DType::F32))]
#[case::half_singles(product(DType::F16))]
#[case::whole_numbers(product(DType::I32))]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_blocking_compiles_without_spilling(#[case] program: Program) {
    for blocking in lower::blockings(&program) {
        let kernel = Kernel::from_program("tried", Arc::new(program.clone())).unwrap();
        let made = millstream_cuda::compile_for(&kernel.with(blocking), "sm_90").unwrap();
        let registers = made.registers;
        let spilled = made.spilled_bytes;
        assert!(spilled <= 32, "{blocking}: {spilled} bytes are spilled");
        assert!(
            (1..=255).contains(&registers),
            "{blocking}: {registers} registers"
        );
    }
}

/// More words than a kernel can be passed are refused as it is prepared, with what can be.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn too_many_words_are_told() {
    let text = "nest outer 0 inner 0 words 600  buffer 0 f32 write  access 0 = buffer 0 []  %0 f32 = const 0x0  store outer 0 %0";
    let nest: Nest = text.parse().unwrap();
    let kernel = Kernel::from_program("wordy", Arc::new(Program::Nest(nest))).unwrap();
    let error = millstream_cuda::cuda_c(&kernel).unwrap_err().to_string();
    assert!(
        error.contains("at most 4096 bytes of bindings and launch words, got 4808"),
        "{error}"
    );
}

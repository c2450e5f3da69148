//! Nests with inner axes.

use millstream_ir::scalar::Number;
use millstream_ir::{DType, Program, ReduceOp};

use super::{Draft, all_cases, check, check_within, elements, levels, nest, run_code};
use crate::{Code, Options};

const ROW: &str = "[w2 1]";

/// Rows and lengths: empty, one, around a vector and a tile, longer than what is retained.
const SHAPES: [(u64, u64); 11] = [
    (1, 0),
    (3, 1),
    (2, 31),
    (2, 33),
    (5, 64),
    (1, 1000),
    (300, 5),
    (1000, 2),
    (2, 5000),
    (4, 4097),
    (2, 70_000),
];

/// Along memory, and across it.
fn both_ways(mut test: impl FnMut(&str, u64, u64, u64, u64)) {
    for (rows, len) in SHAPES {
        test(ROW, rows, len, len, 1);
        test("[w3 w2]", rows, len, rows, 1);
    }
}

#[test]
fn reductions_match_the_reference_for_every_type_along_rows_and_columns() {
    for dtype in DType::ALL {
        for op in ReduceOp::ALL.iter().filter(|op| op.takes(dtype)) {
            both_ways(|strides, rows, len, stride, other| {
                // Types and operations differ in their arithmetic only.
                let is_whole = all_cases() || (dtype == DType::F32 && *op == ReduceOp::Sum);
                if len > 500 && !is_whole {
                    return;
                }
                let result = op.output(dtype);
                let buffers = [
                    format!("{dtype} read {strides}"),
                    format!("{result} write [1 0]"),
                ];
                let body =
                    format!("%0 {dtype} = load 0  %1 {result} = reduce {op} %0  store outer 1 %1");
                let buffers = buffers.each_ref().map(String::as_str);
                let nest = nest("outer 1 inner 1 words 4", &buffers, &body);
                let specials = !matches!(op, ReduceOp::Sum | ReduceOp::Prod);
                let mut values = elements(dtype, (rows * len) as usize, 7, specials);
                if *op == ReduceOp::Prod && dtype.is_float() {
                    // Around one, so that the product stays finite.
                    let size = dtype.size();
                    for (index, chunk) in values.chunks_mut(size).enumerate() {
                        let near = 1.0 + (index % 7) as f64 / 1000.0 - 0.003;
                        let bits = Number::Float(near).bits(dtype);
                        chunk.copy_from_slice(&bits.to_le_bytes()[..size]);
                    }
                }
                let buffers = [values, vec![0; rows as usize * result.size()]];
                let sums = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && dtype.is_float();
                // For sums of both signs an absolute error would say more, but these are small and exact enough.
                let units = if sums { 2_000 } else { 0 };
                check_within(&nest, &buffers, &[], &[rows, len, stride, other], units);
            });
        }
    }
}

#[test]
fn softmax_matches_the_reference() {
    let short = SHAPES.into_iter().filter(|(rows, len)| rows * len <= 8000);
    // A row whose maximum is found at once, and then processed further.
    for (rows, len) in short.chain([(1, 40_000)]) {
        for (strides, stride) in [(ROW, len), ("[1 w2]", rows)] {
            let buffers = ["read", "write"].map(|mode| format!("f32 {mode} {strides}"));
            let nest = nest(
                "outer 1 inner 1 words 4",
                &buffers.each_ref().map(String::as_str),
                "%0 f32 = load 0  %1 f32 = reduce max %0  %2 f32 = sub %0 %1  %3 f32 = exp %2
                %4 f32 = reduce sum %3  %5 f32 = const 0x3f800000  %6 f32 = div %5 %4
                %7 f32 = mul %3 %6  store inner 1 %7",
            );
            let buffers =
                [0, 1].map(|seed| elements(DType::F32, (rows * len) as usize, seed, false));
            let words = [rows, len, stride, 1];
            check_within(&nest, &buffers, &[], &words, 8);
            check_within(&nest, &buffers, &[0, 0], &words, 8);
        }
    }
}

/// The index of a reduction counts all inner axes, in their order.
#[test]
fn reduction_index_counts_through_several_inner_axes() {
    let nest = nest(
        "outer 1 inner 2 words 6",
        &["i32 read [w3 w4 w5]", "i64 write [1 0 0]"],
        "%0 i32 = load 0  %1 i64 = reduce argmax %0  store outer 1 %1",
    );
    for strides in [[35, 5, 1], [1, 4, 28], [35, 1, 7]] {
        let buffers = [elements(DType::I32, 140, 3, true), vec![0; 32]];
        check(&nest, &buffers, &[[4, 7, 5], strides].concat());
    }
}

/// A value that is the same for a whole row is reduced once per element, and stored for each element.
#[test]
fn row_values_are_reduced_and_stored_for_each_element() {
    let nest = nest(
        "outer 1 inner 1 words 3",
        &["i32 read [1 0]", "i32 write [w2 1]", "i32 write [1 0]"],
        "%0 i32 = load 0  %1 i32 = reduce sum %0  %2 i32 = const 0x1  %3 i32 = reduce sum %2
        store inner 1 %1  store outer 2 %3",
    );
    for (rows, len) in [(3_u64, 70_u64), (500, 3), (4, 0)] {
        let buffers = [
            elements(DType::I32, rows as usize, 5, false),
            vec![0; (rows * len) as usize * 4],
            vec![0; rows as usize * 4],
        ];
        check(&nest, &buffers, &[rows, len, len]);
    }
}

#[test]
fn long_row_sums_are_identical_over_tiles_and_in_machine_code() {
    // So many live values that a tile is shorter than the row, which machine code could process whole.
    let buffers = ["f32 read [w2 1]", "f32 write [1 0]"];
    let mut draft = Draft::new("outer 1 inner 1 words 3", &buffers);
    let x = draft.value(DType::F32, "load 0");
    let scaled: Vec<usize> = (1..13)
        .map(|factor| {
            let bits = (0.1 * factor as f32).to_bits();
            let factor = draft.value(DType::F32, format!("const {bits:#x}"));
            draft.value(DType::F32, format!("mul %{x} %{factor}"))
        })
        .collect();
    let sum = scaled.into_iter().rev();
    let sum = sum.reduce(|sum, value| draft.value(DType::F32, format!("add %{sum} %{value}")));
    let sum = sum.expect("there are twelve values");
    let total = draft.value(DType::F32, format!("reduce sum %{sum}"));
    draft.store("outer", 1, total);
    let nest = draft.nest();
    let len = 4000;
    let buffers = [
        elements(DType::F32, 2 * len, 3, false),
        elements(DType::F32, 2, 0, false),
    ];
    for level in levels() {
        let code = Code::compile_for(&Program::Nest(nest.clone()), level, Options::default())
            .expect("the program compiles");
        let words = [2, len as u64, len as u64];
        let run = || run_code(&code, &buffers, &[], &words).expect("the launch runs");
        let (over_tiles, by_code) = (run(), run());
        assert!(over_tiles == by_code, "{level:?}");
    }
}

/// With 256 bits, machine code has registers for one of the two.
#[test]
fn two_reductions_of_one_pass_are_identical_over_tiles_and_in_machine_code() {
    for (rows, len) in [(3_u64, 40_u64), (2, 1000), (1, 5000)] {
        let nest = nest(
            "outer 1 inner 1 words 3",
            &["f32 read [w2 1]", "f32 write [1 0]", "f32 write [1 0]"],
            "%0 f32 = load 0  %1 f32 = add %0 %0  %2 f32 = reduce sum %1  %3 f32 = reduce max %0
            store outer 1 %2  store outer 2 %3",
        );
        let count = (rows * len) as usize;
        let result = vec![0; rows as usize * 4];
        let values = elements(DType::F32, count, 3, false);
        let buffers = [values, result.clone(), result];
        check_within(&nest, &buffers, &[], &[rows, len, len], 2_000);
    }
}

/// Without inner axes a row is one element: its own sum, and at index 0.
#[test]
fn row_of_one_element_is_reduced_to_that_element() {
    for dtype in DType::ALL {
        for op in ReduceOp::ALL {
            let result = op.output(dtype);
            let buffers = [format!("{dtype} read [1]"), format!("{result} write [1]")];
            let nest = nest(
                "outer 1 inner 0 words 1",
                &buffers.each_ref().map(String::as_str),
                &format!("%0 {dtype} = load 0  %1 {result} = reduce {op} %0  store outer 1 %1"),
            );
            if nest.check().is_err() {
                continue;
            }
            let buffers = [elements(dtype, 100, 1, true), vec![0; 100 * result.size()]];
            check(&nest, &buffers, &[100]);
        }
    }
}

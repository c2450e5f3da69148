//! Nests with inner axes.

use millstream_ir::nest::{Level, Op, Stride};
use millstream_ir::scalar::Number;
use millstream_ir::{BinaryOp, DType, Program, ReduceOp, UnaryOp};

use super::{Draft, all_cases, check, check_within, elements, levels, run_code};
use crate::{Code, Options};

const ROW: [Stride; 2] = [Stride::Word(2), Stride::One];
const ROWS: [Stride; 2] = [Stride::One, Stride::Zero];

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
fn both_ways(mut test: impl FnMut([Stride; 2], u64, u64, u64, u64)) {
    for (rows, len) in SHAPES {
        test(ROW, rows, len, len, 1);
        test([Stride::Word(3), Stride::Word(2)], rows, len, rows, 1);
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
                let mut draft = Draft::new(2 - 1, 1);
                draft.0.words = 4;
                let a = draft.load(dtype, &strides);
                let result = draft.reduce(*op, a);
                draft.store(Level::Outer, result, &ROWS);
                let specials = !matches!(op, ReduceOp::Sum | ReduceOp::Prod);
                let out = op.output(dtype).size();
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
                let buffers = [values, vec![0; rows as usize * out]];
                let sums = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && dtype.is_float();
                // For sums of both signs an absolute error would say more, but these are small and exact enough.
                let units = if sums { 2_000 } else { 0 };
                check_within(&draft.0, &buffers, &[], &[rows, len, stride, other], units);
            });
        }
    }
}

fn softmax(strides: [Stride; 2]) -> Draft {
    let mut draft = Draft::new(1, 1);
    draft.0.words = 4;
    let x = draft.load(DType::F32, &strides);
    let greatest = draft.reduce(ReduceOp::Max, x);
    let below = draft.binary(BinaryOp::Sub, x, greatest);
    let power = draft.unary(UnaryOp::Exp, below);
    let sum = draft.reduce(ReduceOp::Sum, power);
    let one = draft.value(DType::F32, Op::Const(1_f32.to_bits().into()));
    let inverse = draft.binary(BinaryOp::Div, one, sum);
    let result = draft.binary(BinaryOp::Mul, power, inverse);
    draft.store(Level::Inner, result, &strides);
    draft
}

#[test]
fn softmax_matches_the_reference() {
    let short = SHAPES.into_iter().filter(|(rows, len)| rows * len <= 8000);
    // A row whose maximum is found at once, and then processed further.
    for (rows, len) in short.chain([(1, 40_000)]) {
        for (strides, stride) in [(ROW, len), ([Stride::One, Stride::Word(2)], rows)] {
            let draft = softmax(strides);
            let buffers =
                [0, 1].map(|seed| elements(DType::F32, (rows * len) as usize, seed, false));
            let words = [rows, len, stride, 1];
            check_within(&draft.0, &buffers, &[], &words, 8);
            check_within(&draft.0, &buffers, &[0, 0], &words, 8);
        }
    }
}

/// The index of a reduction counts all inner axes, in their order.
#[test]
fn reduction_index_counts_through_several_inner_axes() {
    let mut draft = Draft::new(1, 2);
    let words: Vec<u16> = (0..3).map(|_| draft.word()).collect();
    let strides = [
        Stride::Word(words[0]),
        Stride::Word(words[1]),
        Stride::Word(words[2]),
    ];
    let a = draft.load(DType::I32, &strides);
    let index = draft.reduce(ReduceOp::ArgMax, a);
    draft.store(
        Level::Outer,
        index,
        &[Stride::One, Stride::Zero, Stride::Zero],
    );
    for strides in [[35, 5, 1], [1, 4, 28], [35, 1, 7]] {
        let buffers = [elements(DType::I32, 140, 3, true), vec![0; 32]];
        check(&draft.0, &buffers, &[[4, 7, 5], strides].concat());
    }
}

/// A value that is the same for a whole row is reduced once per element, and stored for each element.
#[test]
fn row_values_are_reduced_and_stored_for_each_element() {
    let mut draft = Draft::new(1, 1);
    let stride = draft.word();
    let a = draft.load(DType::I32, &ROWS);
    let sum = draft.reduce(ReduceOp::Sum, a);
    let one = draft.value(DType::I32, Op::Const(1));
    let count = draft.reduce(ReduceOp::Sum, one);
    draft.store(Level::Inner, sum, &[Stride::Word(stride), Stride::One]);
    draft.store(Level::Outer, count, &ROWS);
    for (rows, len) in [(3_u64, 70_u64), (500, 3), (4, 0)] {
        let buffers = [
            elements(DType::I32, rows as usize, 5, false),
            vec![0; (rows * len) as usize * 4],
            vec![0; rows as usize * 4],
        ];
        check(&draft.0, &buffers, &[rows, len, len]);
    }
}

#[test]
fn long_row_sums_are_identical_over_tiles_and_in_machine_code() {
    // So many live values that a tile is shorter than the row, which machine code could process whole.
    let mut draft = Draft::new(1, 1);
    let row = Stride::Word(draft.word());
    let x = draft.load(DType::F32, &[row, Stride::One]);
    let scaled: Vec<u16> = (1..13)
        .map(|factor| {
            let bits = (0.1 * factor as f32).to_bits();
            let factor = draft.value(DType::F32, Op::Const(bits.into()));
            draft.binary(BinaryOp::Mul, x, factor)
        })
        .collect();
    let sum = scaled.into_iter().rev();
    let sum = sum.reduce(|sum, value| draft.binary(BinaryOp::Add, sum, value));
    let total = draft.reduce(ReduceOp::Sum, sum.expect("there are twelve values"));
    draft.store(Level::Outer, total, &ROWS);
    let len = 4000;
    let buffers = [
        elements(DType::F32, 2 * len, 3, false),
        elements(DType::F32, 2, 0, false),
    ];
    for level in levels() {
        let code = Code::compile_for(&Program::Nest(draft.0.clone()), level, Options::default())
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
        let mut draft = Draft::new(1, 1);
        draft.0.words = 3;
        let x = draft.load(DType::F32, &ROW);
        let twice = draft.binary(BinaryOp::Add, x, x);
        let sum = draft.reduce(ReduceOp::Sum, twice);
        let greatest = draft.reduce(ReduceOp::Max, x);
        draft.store(Level::Outer, sum, &ROWS);
        draft.store(Level::Outer, greatest, &ROWS);
        let count = (rows * len) as usize;
        let result = vec![0; rows as usize * 4];
        let values = elements(DType::F32, count, 3, false);
        let buffers = [values, result.clone(), result];
        check_within(&draft.0, &buffers, &[], &[rows, len, len], 2_000);
    }
}

/// Without inner axes a row is one element: its own sum, and at index 0.
#[test]
fn row_of_one_element_is_reduced_to_that_element() {
    for dtype in DType::ALL {
        let ops = [
            ReduceOp::Sum,
            ReduceOp::Prod,
            ReduceOp::Min,
            ReduceOp::Max,
            ReduceOp::ArgMin,
            ReduceOp::ArgMax,
        ];
        for op in ops {
            let mut draft = Draft::new(1, 0);
            let x = draft.load(dtype, &[Stride::One]);
            let reduced = draft.reduce(op, x);
            draft.store(Level::Outer, reduced, &[Stride::One]);
            if draft.0.check().is_err() {
                continue;
            }
            let out = op.output(dtype).size();
            let buffers = [elements(dtype, 100, 1, true), vec![0; 100 * out]];
            check(&draft.0, &buffers, &[100]);
        }
    }
}

//! Nests without inner axes.

use millstream_ir::nest::{Level, Op, Stride};
use millstream_ir::scalar::Number;
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};

use super::{Draft, check, check_within, elements};

const WIDTHS: [usize; 9] = [0, 1, 31, 32, 33, 64, 1000, 4096, 5000];
const ONE: [Stride; 1] = [Stride::One];

fn all(buffers: &[DType], count: usize) -> Vec<Vec<u8>> {
    let fill = |(index, dtype): (usize, &DType)| elements(*dtype, count, index as u64, true);
    buffers.iter().enumerate().map(fill).collect()
}

/// Two as a word, or true for booleans.
fn two(dtype: DType) -> u64 {
    match dtype {
        DType::Bool => 1,
        dtype => Number::Float(2.0).bits(dtype),
    }
}

#[test]
fn chain_matches_the_reference_at_every_width() {
    let mut draft = Draft::new(1, 0);
    let [a, b, c] = [0; 3].map(|_| draft.load(DType::F32, &ONE));
    let product = draft.binary(BinaryOp::Mul, a, b);
    let sum = draft.binary(BinaryOp::Add, product, c);
    let result = draft.unary(UnaryOp::Exp, sum);
    draft.store(Level::Inner, result, &ONE);
    for width in WIDTHS {
        check_within(
            &draft.0,
            &all(&[DType::F32; 4], width),
            &[],
            &[width as u64],
            1,
        );
    }
}

#[test]
fn unary_operations_match_the_reference_for_every_type() {
    for dtype in DType::ALL {
        for op in UnaryOp::ALL.iter().filter(|op| op.takes(dtype)) {
            let mut draft = Draft::new(1, 0);
            let a = draft.load(dtype, &ONE);
            let result = draft.unary(*op, a);
            draft.store(Level::Inner, result, &ONE);
            check_within(&draft.0, &all(&[dtype; 2], 300), &[], &[300], op.units());
        }
    }
}

/// Operands are two tiles, a tile and a word, a word and a tile, and two words.
#[test]
fn binary_operations_match_the_reference_for_every_type() {
    for dtype in DType::ALL {
        for op in BinaryOp::ALL.iter().filter(|op| op.takes(dtype)) {
            let mut draft = Draft::new(1, 0);
            let (a, b, word) = (
                draft.load(dtype, &ONE),
                draft.load(dtype, &ONE),
                draft.word(),
            );
            let scalar = draft.value(dtype, Op::Word(word));
            for (a, b) in [(a, b), (a, scalar), (scalar, b), (scalar, scalar)] {
                let result = draft.binary(*op, a, b);
                draft.store(Level::Inner, result, &ONE);
            }
            let two = two(dtype);
            let buffers = all(&[dtype; 6], 333);
            check_within(&draft.0, &buffers, &[], &[333, two], op.units());
        }
    }
}

#[test]
fn comparisons_match_the_reference_for_every_type() {
    for dtype in DType::ALL {
        if matches!(dtype, DType::F16 | DType::Bf16) {
            continue;
        }
        for op in &CompareOp::ALL {
            let mut draft = Draft::new(1, 0);
            let (a, b, word) = (
                draft.load(dtype, &ONE),
                draft.load(dtype, &ONE),
                draft.word(),
            );
            let scalar = draft.value(dtype, Op::Word(word));
            for (a, b) in [(a, b), (a, scalar), (scalar, b), (scalar, scalar)] {
                let is = draft.value(DType::Bool, Op::Compare(*op, a, b));
                draft.store(Level::Inner, is, &ONE);
                let chosen = draft.value(dtype, Op::Select(is, a, b));
                draft.store(Level::Inner, chosen, &ONE);
            }
            let two = two(dtype);
            let mut buffers = all(&[dtype; 2], 99);
            for _ in 0..4 {
                buffers.extend([vec![0; 99], vec![0; 99 * dtype.size()]]);
            }
            check(&draft.0, &buffers, &[99, two]);
        }
    }
}

#[test]
fn casts_match_the_reference() {
    for from in DType::ALL {
        let mut draft = Draft::new(1, 0);
        let a = draft.load(from, &ONE);
        let mut buffers = all(&[from], 400);
        for to in DType::ALL {
            let result = draft.value(to, Op::Cast(a));
            draft.store(Level::Inner, result, &ONE);
            buffers.push(vec![0; 400 * to.size()]);
        }
        check(&draft.0, &buffers, &[400]);
    }
}

#[test]
fn nest_in_place_matches_the_reference() {
    let mut draft = Draft::new(1, 0);
    let a = draft.load(DType::F32, &ONE);
    let one = draft.value(DType::F32, Op::Const(1_f32.to_bits().into()));
    let sum = draft.binary(BinaryOp::Add, a, one);
    let product = draft.binary(BinaryOp::Mul, sum, a);
    draft.store(Level::Inner, product, &ONE);
    for width in [1, 100, 5000] {
        check_within(
            &draft.0,
            &all(&[DType::F32; 2], width),
            &[0, 0],
            &[width as u64],
            0,
        );
    }
}

/// Rows and columns: transposed, repeated, with gaps and reversed, over axes of many lengths.
#[test]
fn every_order_of_strides_matches_the_reference() {
    for (rows, columns) in [
        (1, 7),
        (3, 5),
        (130, 3),
        (2, 300),
        (40, 129),
        (5000, 1),
        (1, 5000),
    ] {
        let mut draft = Draft::new(2, 0);
        let words: Vec<u16> = (0..5).map(|_| draft.word()).collect();
        let word = |index: usize| Stride::Word(words[index]);
        let walks = [
            [word(0), Stride::One],
            [Stride::One, word(1)],
            [Stride::Zero, Stride::One],
            [Stride::One, Stride::Zero],
            [word(2), word(3)],
            [Stride::Zero, Stride::Zero],
        ];
        let count = rows * columns * 4;
        let mut sum = draft.value(DType::I32, Op::Const(3));
        for strides in walks {
            let loaded = draft.load(DType::I32, &strides);
            sum = draft.binary(BinaryOp::Add, sum, loaded);
        }
        draft.0.accesses[4].offset = Some(words[4]);
        for axis in 0..2 {
            let index = draft.value(DType::I64, Op::Index(axis));
            let index = draft.value(DType::I32, Op::Cast(index));
            sum = draft.binary(BinaryOp::Xor, sum, index);
        }
        draft.store(Level::Inner, sum, &[word(0), Stride::One]);
        draft.store(Level::Outer, sum, &[Stride::One, word(1)]);
        let negative = (-2_i64) as u64;
        let (rows, columns) = (rows as u64, columns as u64);
        let words = [
            rows,
            columns,
            columns,
            rows,
            2 * columns,
            negative,
            2 * columns - 2,
        ];
        check(&draft.0, &all(&[DType::I32; 8], count), &words);
    }
}

#[test]
fn access_outside_its_binding_is_refused_and_touches_nothing() {
    let mut draft = Draft::new(1, 0);
    let a = draft.load(DType::F32, &ONE);
    draft.store(Level::Inner, a, &ONE);
    let buffers = [vec![1; 40], vec![2; 36]];
    let error =
        super::run(&draft.0, &buffers, &[], &[10]).expect_err("the access is out of bounds");
    assert_eq!(
        error.to_string(),
        "access 1 reaches elements 0 to 9 of binding 1, which has 9; check the launch's lengths, strides and offsets"
    );
    for len in [u64::MAX, 1 << 62, 1 << 63] {
        assert!(super::run(&draft.0, &buffers, &[], &[len]).is_err());
    }
}

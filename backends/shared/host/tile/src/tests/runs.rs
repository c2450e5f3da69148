//! Gathers in runs, and gathers whose index does not advance by a constant step.

use millstream_ir::nest::{BufferMode, Level, Op, Stride};
use millstream_ir::{BinaryOp, DType, ReduceOp};

use super::{Draft, all_cases, check, check_within, elements, random};

/// Adds a gather from a table of `len` elements at a distance of `stride`, with this index.
fn gather(
    draft: &mut Draft,
    dtype: DType,
    index: u16,
    access: &[Stride],
    stride: Stride,
    len: u16,
) -> u16 {
    let table = draft.buffer(dtype, BufferMode::Read);
    let access = draft.access(table, access);
    let op = Op::Gather {
        access,
        index,
        stride,
        len,
    };
    draft.value(dtype, op)
}

#[test]
fn rolled_reversed_and_strided_gathers_match_the_reference() {
    for dtype in [DType::F32, DType::U8, DType::I16, DType::F64] {
        for len in [0_u64, 1, 31, 33, 1000, 5000] {
            for (factor, from, modulus) in [
                (1_i64, 7_i64, len as i64),
                (1, len as i64 - 1, len as i64),
                (-1, len as i64 - 1, i64::MAX),
                (-3, 2 * len as i64, 100),
                (2, -5, i64::MAX),
                (1, 0, 4),
                (0, 3, 9),
                (1, i64::MAX - 40, 50),
                (5, 3, 0),
                (1, 3, -7),
                (i64::MIN, 1, 13),
            ] {
                let mut draft = Draft::new(1, 0);
                let words = [(); 4].map(|()| draft.word());
                let position = draft.value(DType::I64, Op::Index(0));
                let [factor_word, from_word, modulus_word, len_word] = words;
                let of = |draft: &mut Draft, word| draft.value(DType::I64, Op::Word(word));
                let by = of(&mut draft, factor_word);
                let scaled = draft.binary(BinaryOp::Mul, position, by);
                let offset = of(&mut draft, from_word);
                let moved = draft.binary(BinaryOp::Add, scaled, offset);
                let by = of(&mut draft, modulus_word);
                let index = draft.binary(BinaryOp::Rem, moved, by);
                let found = gather(
                    &mut draft,
                    dtype,
                    index,
                    &[Stride::Zero],
                    Stride::One,
                    len_word,
                );
                // Stored once unchanged, and once computed with.
                let twice = draft.binary(BinaryOp::Add, found, found);
                draft.store(Level::Inner, found, &[Stride::One]);
                draft.store(Level::Inner, twice, &[Stride::One]);
                let bytes = len as usize * dtype.size();
                let buffers = [
                    elements(dtype, len as usize, len, true),
                    vec![0; bytes],
                    vec![0; bytes],
                ];
                let words = [len, factor as u64, from as u64, modulus as u64, len];
                check(&draft.0, &buffers, &words);
            }
        }
    }
}

/// Returns a random index of up to some steps, which may or may not be trackable.
fn any_index(draft: &mut Draft, axes: u16, state: &mut u64, depth: u32) -> u16 {
    let draw = random(state);
    if depth == 0 || draw.is_multiple_of(4) {
        let axis = (draw >> 8) as u16 % axes;
        return match (draw >> 16) % 5 {
            0 => draft.value(DType::I64, Op::Const(draw >> 24 & 0xff)),
            1 => draft.value(DType::I64, Op::Const(0_u64.wrapping_sub(draw >> 24 & 0x1f))),
            2 => {
                let mut strides = vec![Stride::Zero; usize::from(axes)];
                strides[usize::from(axis)] = Stride::One;
                let dtype =
                    [DType::I64, DType::I32, DType::U32, DType::I16][(draw >> 40) as usize % 4];
                let loaded = draft.load(dtype, &strides);
                match dtype {
                    DType::I64 => loaded,
                    _ => draft.value(DType::I64, Op::Cast(loaded)),
                }
            }
            _ => draft.value(DType::I64, Op::Index(axis)),
        };
    }
    let a = any_index(draft, axes, state, depth - 1);
    let b = any_index(draft, axes, state, depth - 1);
    let ops = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Rem,
        BinaryOp::Max,
    ];
    draft.binary(ops[(draw >> 32) as usize % ops.len()], a, b)
}

#[test]
fn random_gather_indices_match_the_reference() {
    let mut state = 17;
    let rounds = if all_cases() { 300 } else { 100 };
    for round in 0..rounds {
        let lens = match round % 4 {
            0 => [3, 5, 40],
            1 => [2, 33, 31],
            2 => [1, 70, 17],
            _ => [40, 3, 2],
        };
        // Reductions are walked along rows and across them.
        let inner = (random(&mut state) % 3) as usize;
        let mut draft = Draft::new(3 - inner, inner);
        let len_word = draft.word();
        let index = any_index(&mut draft, 3, &mut state, 3);
        let along = match random(&mut state) % 3 {
            0 => [Stride::Zero, Stride::Zero, Stride::One],
            1 => [Stride::Zero, Stride::One, Stride::Zero],
            _ => [Stride::Zero; 3],
        };
        let found = gather(&mut draft, DType::F32, index, &along, Stride::One, len_word);
        let mut out = vec![Stride::Zero; 3];
        let strides = [(); 3].map(|()| draft.word());
        (0..3 - inner).for_each(|axis| out[axis] = Stride::Word(strides[axis]));
        let (level, value) = match inner {
            0 => (Level::Inner, found),
            _ => (Level::Outer, draft.reduce(ReduceOp::Max, found)),
        };
        draft.store(level, value, &out);
        let transposed = random(&mut state).is_multiple_of(2);
        let strides = match (inner, transposed) {
            (0, false) => [lens[1] * lens[2], lens[2], 1],
            (0, true) => [1, lens[0], lens[0] * lens[1]],
            (1, _) => [lens[1], 1, 0],
            _ => [1, 0, 0],
        };
        let words = [lens.as_slice(), &[60], &strides].concat();
        let buffers: Vec<Vec<u8>> = draft
            .0
            .buffers
            .iter()
            .enumerate()
            .map(|(seed, buffer)| elements(buffer.dtype, 8000, seed as u64, false))
            .collect();
        check_within(&draft.0, &buffers, &[], &words, 0);
    }
}

/// A table that is written while it is read must be read before.
#[test]
fn gather_from_a_stored_buffer_does_not_read_in_place() {
    let mut draft = Draft::new(1, 0);
    let len = draft.word();
    let position = draft.value(DType::I64, Op::Index(0));
    let found = gather(
        &mut draft,
        DType::F32,
        position,
        &[Stride::Zero],
        Stride::One,
        len,
    );
    let twice = draft.binary(BinaryOp::Add, found, found);
    draft.store(Level::Inner, twice, &[Stride::One]);
    let buffers = [elements(DType::F32, 4000, 1, false), vec![0; 16_000]];
    check_within(&draft.0, &buffers, &[0, 0], &[4000, 4000], 0);
}

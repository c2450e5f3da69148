//! Gathers in runs, and gathers whose index does not advance by a constant step.

use millstream_ir::DType;

use super::{Draft, all_cases, check, check_within, elements, nest, random};

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
                // Stored once unchanged, and once computed with.
                let body = format!(
                    "%0 i64 = index 0  %1 i64 = word w1  %2 i64 = mul %0 %1  %3 i64 = word w2
                    %4 i64 = add %2 %3  %5 i64 = word w3  %6 i64 = rem %4 %5
                    %7 {dtype} = gather 0 %6 1 w4  %8 {dtype} = add %7 %7
                    store inner 1 %7  store inner 2 %8"
                );
                let buffers = ["read [0]", "write [1]", "write [1]"];
                let buffers = buffers.map(|of| format!("{dtype} {of}"));
                let buffers = buffers.each_ref().map(String::as_str);
                let nest = nest("outer 1 inner 0 words 5", &buffers, &body);
                let bytes = len as usize * dtype.size();
                let buffers = [
                    elements(dtype, len as usize, len, true),
                    vec![0; bytes],
                    vec![0; bytes],
                ];
                let words = [len, factor as u64, from as u64, modulus as u64, len];
                check(&nest, &buffers, &words);
            }
        }
    }
}

/// Returns a random index of up to some steps, which may or may not be trackable.
fn any_index(draft: &mut Draft, axes: u64, state: &mut u64, depth: u32) -> usize {
    let draw = random(state);
    if depth == 0 || draw.is_multiple_of(4) {
        let axis = (draw >> 8) % axes;
        let op = match (draw >> 16) % 5 {
            0 => format!("const {:#x}", draw >> 24 & 0xff),
            1 => format!("const {:#x}", 0_u64.wrapping_sub(draw >> 24 & 0x1f)),
            2 => {
                let strides = ["1 0 0", "0 1 0", "0 0 1"][axis as usize];
                let dtypes = [DType::I64, DType::I32, DType::U32, DType::I16];
                let dtype = dtypes[(draw >> 40) as usize % 4];
                let buffer = draft.buffer(format!("{dtype} read [{strides}]"));
                match dtype {
                    DType::I64 => format!("load {buffer}"),
                    _ => {
                        let loaded = draft.value(dtype, format!("load {buffer}"));
                        format!("cast %{loaded}")
                    }
                }
            }
            _ => format!("index {axis}"),
        };
        return draft.value(DType::I64, op);
    }
    let a = any_index(draft, axes, state, depth - 1);
    let b = any_index(draft, axes, state, depth - 1);
    let op = ["add", "sub", "mul", "rem", "max"][(draw >> 32) as usize % 5];
    draft.value(DType::I64, format!("{op} %{a} %{b}"))
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
        let outer = 3 - inner;
        let mut draft = Draft::new(format!("outer {outer} inner {inner} words 7"), &[]);
        let index = any_index(&mut draft, 3, &mut state, 3);
        let along = ["0 0 1", "0 1 0", "0 0 0"][(random(&mut state) % 3) as usize];
        let table = draft.buffer(format!("f32 read [{along}]"));
        let mut value = draft.value(DType::F32, format!("gather {table} %{index} 1 w3"));
        if inner > 0 {
            value = draft.value(DType::F32, format!("reduce max %{value}"));
        }
        let out = ["w4 w5 w6", "w4 w5 0", "w4 0 0"][inner];
        let out = draft.buffer(format!("f32 write [{out}]"));
        draft.store(["inner", "outer", "outer"][inner], out, value);
        let nest = draft.nest();
        let transposed = random(&mut state).is_multiple_of(2);
        let strides = match (inner, transposed) {
            (0, false) => [lens[1] * lens[2], lens[2], 1],
            (0, true) => [1, lens[0], lens[0] * lens[1]],
            (1, _) => [lens[1], 1, 0],
            _ => [1, 0, 0],
        };
        let words = [lens.as_slice(), &[60], &strides].concat();
        let buffers = nest.buffers.iter().zip(0..);
        let buffers = buffers.map(|(buffer, seed)| elements(buffer.dtype, 8000, seed, false));
        check_within(&nest, &buffers.collect::<Vec<_>>(), &[], &words, 0);
    }
}

/// A table that is written while it is read must be read before.
#[test]
fn gather_from_a_stored_buffer_does_not_read_in_place() {
    let nest = nest(
        "outer 1 inner 0 words 2",
        &["f32 read [0]", "f32 write [1]"],
        "%0 i64 = index 0  %1 f32 = gather 0 %0 1 w1  %2 f32 = add %1 %1  store inner 1 %2",
    );
    let buffers = [elements(DType::F32, 4000, 1, false), vec![0; 16_000]];
    check_within(&nest, &buffers, &[0, 0], &[4000, 4000], 0);
}

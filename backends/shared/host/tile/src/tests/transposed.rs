//! Inputs read across memory, in blocks.

use millstream_ir::nest::{Level, Op, Stride};
use millstream_ir::{BinaryOp, DType};

use super::{Draft, all_cases, check, elements};

/// A copy, and computations with other inputs, of matrices with any order of axes.
#[test]
fn matrices_with_any_order_of_axes_match_the_reference() {
    for dtype in [DType::F32, DType::U8, DType::I16, DType::F64] {
        for (m, n) in [
            (0_u64, 40_u64),
            (1, 300),
            (300, 1),
            (15, 70),
            (16, 16),
            (17, 33),
            (31, 64),
            (33, 31),
            (64, 200),
            (130, 100),
            (5, 1000),
        ] {
            for batch in [1_u64, 3] {
                // Types differ in their size only, and a batch of one in one axis less.
                let repeats = match dtype {
                    DType::F32 => batch == 1 && m * n > 2_500,
                    _ => batch == 1 || m * n > 1_500 || m < 17,
                };
                if repeats && !all_cases() {
                    continue;
                }
                let plain = [m * n, n, 1];
                let transposed = [m * n, 1, m];
                let last = [1, n * batch, batch];
                for (a, b, out) in [
                    (transposed, plain, plain),
                    (plain, transposed, transposed),
                    (transposed, transposed, plain),
                    (last, transposed, plain),
                    (transposed, [0, 0, 1], plain),
                    (transposed, [0, 1, 0], plain),
                    (plain, plain, last),
                    ([0, 1, m], plain, plain),
                ] {
                    let mut draft = Draft::new(3, 0);
                    let mut strides = || [(); 3].map(|()| Stride::Word(draft.word()));
                    let (sa, sb, so) = (strides(), strides(), strides());
                    let x = draft.load(dtype, &sa);
                    let y = draft.load(dtype, &sb);
                    let sum = draft.binary(BinaryOp::Add, x, y);
                    let more = draft.binary(BinaryOp::Mul, sum, x);
                    let row = draft.value(DType::I64, Op::Index(1));
                    draft.store(Level::Inner, x, &so);
                    draft.store(Level::Inner, more, &so);
                    draft.store(Level::Inner, row, &so);
                    let count = (batch * m * n).max(m).max(n) as usize;
                    let mut buffers: Vec<Vec<u8>> = (0..2)
                        .map(|seed| elements(dtype, count, seed, true))
                        .collect();
                    buffers.extend([vec![0; count * dtype.size()], vec![0; count * dtype.size()]]);
                    buffers.push(vec![0; count * 8]);
                    let words = [&[batch, m, n], &a[..], &b, &out].concat();
                    check(&draft.0, &buffers, &words);
                }
            }
        }
    }
}

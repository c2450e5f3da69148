//! Scatters that threads share by index give the result of one thread.

use millstream_ir::nest::{BufferMode, Level, Scatter, Stride};
use millstream_ir::{DType, Program};

use super::nests::ReverseOrder;
use super::{Draft, elements, levels, run_code, run_code_by};
use crate::{Code, Options};

/// Scatters `picks` indices to rows of a table: `width` elements each, `apart` from each other, for `rows` indices
/// with a distance of `stride`.
struct Case {
    picks: u64,
    width: u64,
    apart: u64,
    rows: u64,
    stride: u64,
}

#[test]
fn scatter_does_not_depend_on_how_it_is_shared() {
    let plain = |picks, width, rows| Case {
        picks,
        width,
        apart: 1,
        rows,
        stride: width,
    };
    let cases = [
        plain(40_000, 1, 1000),
        plain(40_000, 1, 2),
        plain(400, 100, 70),
        plain(2, 30_000, 5),
        plain(40_000, 1, 0),
        // Columns one after the other.
        Case {
            picks: 900,
            width: 40,
            apart: 50,
            rows: 50,
            stride: 1,
        },
        // Different indices lead to the same places, so one thread scatters all.
        Case {
            picks: 400,
            width: 100,
            apart: 1,
            rows: 70,
            stride: 1,
        },
        Case {
            picks: 400,
            width: 100,
            apart: 1,
            rows: 70,
            stride: 0,
        },
    ];
    for Case {
        picks,
        width,
        apart,
        rows,
        stride,
    } in cases
    {
        for (adds, dtype) in [(false, DType::F32), (true, DType::F32), (true, DType::I16)] {
            let mut draft = Draft::new(2, 0);
            let words = [(); 3].map(|()| draft.word());
            let index = draft.load(DType::I64, &[Stride::One, Stride::Zero]);
            let value = draft.load(dtype, &[Stride::Word(1), Stride::One]);
            let table = draft.buffer(dtype, BufferMode::Update);
            let scatter = Scatter {
                index,
                stride: Stride::Word(words[0]),
                len: words[1],
                adds,
            };
            let to = [Stride::Zero, Stride::Word(words[2])];
            draft.store_to(table, Level::Inner, value, &to, Some(scatter));
            // Some indices are out of range, and most occur more than once.
            let indices = (0..picks as i64).map(|pick| pick * 7919 % (rows as i64 + 3) - 1);
            let bytes = (rows * stride.max(1) + width * apart + 1) as usize;
            let buffers = [
                indices.flat_map(i64::to_le_bytes).collect(),
                elements(dtype, (picks * width) as usize, 5, false),
                elements(dtype, bytes, 6, false),
            ];
            let words = [picks, width, stride, rows, apart];
            for level in levels() {
                let code =
                    Code::compile_for(&Program::Nest(draft.0.clone()), level, Options::default());
                let code = code.expect("the program compiles");
                let alone = run_code(&code, &buffers, &[], &words).expect("the launch runs");
                let shared = run_code_by(&code, &buffers, &[], &words, &mut ReverseOrder);
                assert!(
                    alone == shared.expect("the launch runs"),
                    "{adds} {dtype} {words:?}"
                );
            }
        }
    }
}

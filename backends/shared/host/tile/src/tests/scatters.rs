//! Scatters that threads share by index give the result of one thread.

use millstream_ir::{DType, Program};

use super::nests::ReverseOrder;
use super::{elements, levels, nest, run_code, run_code_by};
use crate::{Code, Options};

/// Scatters `picks` indices to rows of a table: `width` elements each, `apart` from each other, for `rows` indices
/// with a distance of `stride`.
#[test]
fn scatter_does_not_depend_on_how_it_is_shared() {
    for [picks, width, apart, rows, stride] in [
        [40_000_u64, 1, 1, 1000, 1],
        [40_000, 1, 1, 2, 1],
        [400, 100, 1, 70, 100],
        [2, 30_000, 1, 5, 30_000],
        [40_000, 1, 1, 0, 1],
        // Columns one after the other.
        [900, 40, 50, 50, 1],
        // Different indices lead to the same places, so one thread scatters all.
        [400, 100, 1, 70, 1],
        [400, 100, 1, 70, 0],
    ] {
        for (how, dtype) in [
            ("set", DType::F32),
            ("add", DType::F32),
            ("add", DType::I16),
        ] {
            let (values, table) = (
                format!("{dtype} read [w1 1]"),
                format!("{dtype} update [0 w4]"),
            );
            let nest = nest(
                "outer 2 inner 0 words 5",
                &["i64 read [1 0]", &values, &table],
                &format!(
                    "%0 i64 = load 0  %1 {dtype} = load 1  store inner 2 %1 scatter {how} %0 w2 w3"
                ),
            );
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
                    Code::compile_for(&Program::Nest(nest.clone()), level, Options::default());
                let code = code.expect("the program compiles");
                let alone = run_code(&code, &buffers, &[], &words).expect("the launch runs");
                let shared = run_code_by(&code, &buffers, &[], &words, &mut ReverseOrder);
                assert!(
                    alone == shared.expect("the launch runs"),
                    "{how} {dtype} {words:?}"
                );
            }
        }
    }
}

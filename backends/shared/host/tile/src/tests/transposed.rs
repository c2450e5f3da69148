//! Inputs read across memory, in blocks.

use millstream_ir::DType;

use super::{all_cases, check, elements, nest};

/// A copy, and computations with other inputs, of matrices with any order of axes.
#[test]
fn matrices_with_any_order_of_axes_match_the_reference() {
    for dtype in [DType::F32, DType::U8, DType::I16, DType::F64] {
        let dtypes = [dtype, dtype, dtype, dtype, DType::I64];
        let accesses = [
            "read [w3 w4 w5]",
            "read [w6 w7 w8]",
            "write [w9 w10 w11]",
            "write [w9 w10 w11]",
            "write [w9 w10 w11]",
        ];
        let buffers = dtypes.iter().zip(accesses);
        let buffers: Vec<_> = buffers
            .map(|(dtype, access)| format!("{dtype} {access}"))
            .collect();
        let buffers: Vec<_> = buffers.iter().map(String::as_str).collect();
        let body = format!(
            "%0 {dtype} = load 0  %1 {dtype} = load 1  %2 {dtype} = add %0 %1  %3 {dtype} = mul %2 %0
            %4 i64 = index 1  store inner 2 %0  store inner 3 %3  store inner 4 %4"
        );
        let nest = nest("outer 3 inner 0 words 12", &buffers, &body);
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
                    let count = (batch * m * n).max(m).max(n) as usize;
                    let mut buffers: Vec<Vec<u8>> = (0..2)
                        .map(|seed| elements(dtype, count, seed, true))
                        .collect();
                    buffers.extend([vec![0; count * dtype.size()], vec![0; count * dtype.size()]]);
                    buffers.push(vec![0; count * 8]);
                    let words = [&[batch, m, n], &a[..], &b, &out].concat();
                    check(&nest, &buffers, &words);
                }
            }
        }
    }
}

//! The crate `gemm`, with its kernels for AVX-512.

use crate::contenders::{Contender, Into, Offer, What};
use crate::work::{Input, Work};

pub(crate) struct Gemm;

impl Contender for Gemm {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        let (Work::Product(side), What::Run) = (work, what) else {
            return Ok(None);
        };
        let (left, right) = (&inputs[0].numbers, &inputs[1].numbers);
        Into::offer(work, move |out| multiply(out, left, right, [side; 3]))
    }
}

/// Multiplies row-major matrices; `sizes` is `[rows, inner, columns]`.
pub(crate) fn multiply(out: &mut [f32], left: &[f32], right: &[f32], sizes: [usize; 3]) {
    let [rows, inner, columns] = sizes;
    assert_eq!(
        [out.len(), left.len(), right.len()],
        [rows * columns, rows * inner, inner * columns]
    );
    let (out_row, left_row) = (columns as isize, inner as isize);
    // SAFETY: the lengths match the reach of the strides, as asserted above, and `out` is borrowed exclusively.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            out_row,
            false,
            left.as_ptr(),
            1,
            left_row,
            right.as_ptr(),
            1,
            out_row,
            0.0_f32,
            1.0_f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

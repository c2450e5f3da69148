//! Products by `gemm`, of floats and of halves widened to `f32`. The modules `dots` and `integers` have the other
//! loops.

use gemm_common::Parallelism;

use super::{Matrix, Product};
use crate::kernels::by_size;
use crate::scratch::Scratch;

/// The signature of a product of one float type in `gemm`. Each matrix is followed by the strides between its
/// columns, and between its rows.
#[rustfmt::skip]
pub(super) type Gemm<T> = unsafe fn(
    usize, usize, usize,
    *mut T, isize, isize, bool,
    *const T, isize, isize,
    *const T, isize, isize,
    T, T, bool, bool, bool, Parallelism,
);

impl Product<'_> {
    pub(super) unsafe fn gemm_floats<T>(&self, gemm: Gemm<T>, zero: T, one: T) {
        // `gemm` is fastest if the columns of its output are contiguous.
        let is_transposed = self.out.column.unsigned_abs() < self.out.row.unsigned_abs();
        let product = if is_transposed {
            self.transposed()
        } else {
            *self
        };
        let Self { lhs, rhs, out, .. } = product;
        // SAFETY: the caller's promises.
        unsafe {
            gemm(
                product.m,
                product.n,
                product.k,
                out.base.cast(),
                out.column,
                out.row,
                false,
                lhs.base.cast_const().cast(),
                lhs.column,
                lhs.row,
                rhs.base.cast_const().cast(),
                rhs.column,
                rhs.row,
                zero,
                one,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }

    /// Computes halves as `f32`, in memory of this thread.
    pub(super) unsafe fn gemm_halves<T: Copy>(&self, widen: fn(T) -> f32, narrow: fn(f32) -> T) {
        let Self { m, n, k, .. } = *self;
        let dense = |base: *mut f32, columns: usize| Matrix {
            base: base.cast(),
            batch: &[],
            row: columns as isize,
            column: 1,
            bytes: (0, 0),
        };
        let wide = |matrix: &Matrix<'_>, to: *mut f32, rows: usize, columns: usize| {
            for row in 0..rows {
                for column in 0..columns {
                    // SAFETY: the caller's promises.
                    unsafe {
                        let value = widen(*matrix.at::<T>(row, column));
                        to.add(row * columns + column).write(value);
                    }
                }
            }
        };
        Scratch::with(|scratch| {
            let memory = scratch.reserve((m * k + k * n + m * n) * 4, 0).memory;
            let memory = memory.cast::<f32>();
            let (a, b, c) = (
                memory,
                memory.wrapping_add(m * k),
                memory.wrapping_add(m * k + k * n),
            );
            wide(&self.lhs, a, m, k);
            wide(&self.rhs, b, k, n);
            let block = Self {
                lhs: dense(a, k),
                rhs: dense(b, n),
                out: dense(c, n),
                ..*self
            };
            // SAFETY: there is room for the three matrices, which do not overlap; the caller's promises.
            unsafe {
                block.gemm_floats(gemm_f32::gemm::f32::get_gemm_fn(), 0.0, 1.0);
                for row in 0..m {
                    for column in 0..n {
                        let value = narrow(*c.add(row * n + column));
                        self.out.at::<T>(row, column).write(value);
                    }
                }
            }
        });
    }

    /// Fills the output with zeros, for every type.
    pub(super) unsafe fn clear(&self, size: usize) {
        by_size!(size, T => for row in 0..self.m {
            for column in 0..self.n {
                // SAFETY: the caller's promises.
                unsafe { self.out.at::<T>(row, column).write_bytes(0, 1) };
            }
        });
    }
}

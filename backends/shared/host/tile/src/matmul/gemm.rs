//! Products by `gemm`, of floats and of halves widened to `f32`. The modules `dots` and `integers` have the other
//! loops.

use gemm_common::Parallelism;

use super::{Matrix, Product};
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

impl Matrix<'_> {
    fn transposed(self) -> Self {
        Self {
            row: self.column,
            column: self.row,
            ..self
        }
    }
}

impl Product<'_> {
    pub(super) unsafe fn gemm_floats<T>(&self, gemm: Gemm<T>, zero: T, one: T) {
        let Self {
            mut m,
            mut n,
            k,
            mut lhs,
            mut rhs,
            mut out,
            ..
        } = *self;
        // `gemm` is fastest if the columns of its output are contiguous.
        if out.column.unsigned_abs() < out.row.unsigned_abs() {
            (m, n) = (n, m);
            (lhs, rhs) = (rhs.transposed(), lhs.transposed());
            out = out.transposed();
        }
        let (left, right) = (lhs.base.cast_const().cast(), rhs.base.cast_const().cast());
        // SAFETY: the caller's promises.
        unsafe {
            gemm(
                m,
                n,
                k,
                out.base.cast(),
                out.column,
                out.row,
                false,
                left,
                lhs.column,
                lhs.row,
                right,
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
        let Self {
            m,
            n,
            k,
            lhs,
            rhs,
            out,
            ..
        } = *self;
        let dense = |base: *mut f32, columns: usize| Matrix {
            base: base.cast(),
            batch: &[],
            row: columns as isize,
            column: 1,
            bytes: (0, 0),
        };
        let wide = |matrix: Matrix<'_>, to: *mut f32, rows: usize, columns: usize| {
            for row in 0..rows {
                for column in 0..columns {
                    let place = row as isize * matrix.row + column as isize * matrix.column;
                    // SAFETY: the caller's promises.
                    unsafe {
                        let value = widen(*matrix.base.cast::<T>().offset(place));
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
            wide(lhs, a, m, k);
            wide(rhs, b, k, n);
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
                        let place = row as isize * out.row + column as isize * out.column;
                        out.base
                            .cast::<T>()
                            .offset(place)
                            .write(narrow(*c.add(row * n + column)));
                    }
                }
            }
        });
    }

    /// Fills the output with zeros, for every type.
    pub(super) unsafe fn clear(&self, size: usize) {
        for row in 0..self.m as isize {
            for column in 0..self.n as isize {
                let place = row * self.out.row + column * self.out.column;
                // SAFETY: the caller's promises.
                unsafe {
                    self.out
                        .base
                        .offset(place * size as isize)
                        .write_bytes(0, size);
                };
            }
        }
    }
}

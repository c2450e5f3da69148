//! Products of integers: blocks of few rows and columns, whose sums stay in registers.
//!
//! Sums wrap, so their order does not affect the result.

use super::{Matrix, Product, run_loop};
use crate::scratch::Scratch;
use millstream_ir::scalar::arith::Number;
use millstream_loops::level::{Arithmetic, Level, Loop};

/// Rows and columns of a block.
const ROWS: usize = 4;
const COLUMNS: usize = 16;

impl Product<'_> {
    /// Computes the product block by block.
    ///
    /// # Safety
    /// Every element lies in its binding, and the output overlaps neither side; the processor has the level.
    pub(super) unsafe fn integers<T: Number>(&self, level: Level) {
        Scratch::with(|scratch| {
            let memory = scratch.reserve(self.k * COLUMNS * size_of::<T>(), 0).memory;
            let panel = memory.cast::<T>();
            // SAFETY: there is room for the columns of a block; the caller's promises.
            unsafe {
                let product = self;
                run_loop(level, IntegerProduct { product, panel });
            }
        });
    }
}

/// A product, and memory for `k` rows of a block's columns.
struct IntegerProduct<'a, T> {
    product: &'a Product<'a>,
    panel: *mut T,
}

impl<T: Number> Loop for IntegerProduct<'_, T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(_: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: usize) {
        // SAFETY: `run_loop` passes the product.
        let Self { product, panel } = *unsafe { &*a.cast::<Self>() };
        let (m, n, k) = (product.m, product.n, product.k);
        for column in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - column);
            // SAFETY: these rows and columns exist; the panel has room for `k` rows of a block's columns.
            unsafe {
                pack(&product.rhs, panel, k, column, columns);
                for row in (0..m).step_by(ROWS) {
                    let at = [row, column];
                    match (m - row).min(ROWS) {
                        1 => block::<T, 1>(product, panel, at, columns),
                        2 => block::<T, 2>(product, panel, at, columns),
                        3 => block::<T, 3>(product, panel, at, columns),
                        _ => block::<T, ROWS>(product, panel, at, columns),
                    }
                }
            }
        }
    }
}

/// Copies some columns of the right side row by row, padded with zeros to the width of a block.
#[inline(always)]
unsafe fn pack<T: Number>(
    matrix: &Matrix<'_>,
    panel: *mut T,
    k: usize,
    column: usize,
    columns: usize,
) {
    // SAFETY: the caller's promises.
    unsafe {
        for depth in 0..k {
            let from = matrix.at::<T>(depth, column);
            let to = panel.add(depth * COLUMNS);
            if matrix.column == 1 && columns == COLUMNS {
                to.copy_from_nonoverlapping(from, COLUMNS);
                continue;
            }
            for index in 0..COLUMNS {
                let is_there = index < columns;
                to.add(index).write(match is_there {
                    true => *from.offset(index as isize * matrix.column),
                    false => T::ZERO,
                });
            }
        }
    }
}

/// Computes the elements of some rows in the columns of a panel.
#[inline(always)]
unsafe fn block<T: Number, const R: usize>(
    product: &Product<'_>,
    panel: *const T,
    [row, column]: [usize; 2],
    columns: usize,
) {
    let Product { lhs, out, .. } = product;
    let mut sums = [[T::ZERO; COLUMNS]; R];
    // SAFETY: the caller's promises.
    unsafe {
        let left = lhs.base.cast::<T>().offset(row as isize * lhs.row);
        for depth in 0..product.k {
            let right = &*panel.add(depth * COLUMNS).cast::<[T; COLUMNS]>();
            let left = left.offset(depth as isize * lhs.column);
            for (row, sums) in sums.iter_mut().enumerate() {
                // Volatile: otherwise the compiler vectorizes the loop over depths, whose sums may be reordered, and
                // the sums leave the registers.
                let factor = left.offset(row as isize * lhs.row).read_volatile();
                // By index: with iterators two of the sums leave the registers (8.0 ms instead of 5.9 ms for 512 x
                // 512 x 512).
                for lane in 0..COLUMNS {
                    sums[lane] = sums[lane].plus(factor.times(right[lane]));
                }
            }
        }
        for (index, sums) in sums.iter().enumerate() {
            let to = out.at::<T>(row + index, column);
            for (index, sum) in sums[..columns].iter().enumerate() {
                to.offset(index as isize * out.column).write(*sum);
            }
        }
    }
}

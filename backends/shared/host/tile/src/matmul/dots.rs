//! Matrix products of few rows or few columns, as dot products that read the large matrix in place.
//!
//! Either the left side has few rows and the columns of the right side are contiguous (a transposed matrix, as in
//! decoding), or the right side has few columns and the rows of the left side are contiguous. Each element of the large
//! matrix is used only a few times, so most of the time goes into reading it. Packing it first, as `gemm` does, would
//! read and write it once more.
//!
//! The order in which an element is summed does not depend on the elements that are computed with it. So results do not
//! depend on how a product is split.

use super::{Product, run_loop};
use crate::scratch::Scratch;
use millstream_ir::scalar::arith::Number;
use millstream_loops::level::{Arithmetic, Level, Loop};

/// The maximum number of rows, or columns, of the small side. With more, packing is cheap compared to the arithmetic.
const ROWS_MAX: usize = 16;

/// The small side of a product that is computed by dot products.
#[derive(Clone, Copy)]
pub(super) enum Dots {
    /// The left side has few rows.
    Rows,
    /// The right side has few columns.
    Columns,
}

impl Dots {
    /// Returns the small side of a product; `None` if dot products do not suit the product.
    pub(super) fn of(product: &Product<'_>) -> Option<Self> {
        if product.m <= ROWS_MAX && product.rhs.row == 1 {
            Some(Self::Rows)
        } else if product.n <= ROWS_MAX && product.lhs.column == 1 {
            Some(Self::Columns)
        } else {
            None
        }
    }
}

impl Product<'_> {
    /// Computes the product by dot products with `L` partial sums each.
    ///
    /// # Safety
    /// Every element lies in its binding, and the output overlaps neither side. The processor supports `level`. `dots`
    /// is [`Dots::of`] this product, or of a product that contains this one.
    pub(super) unsafe fn dots<T: Number, const L: usize>(&self, dots: Dots, level: Level) {
        // SAFETY: the caller's promises, for the product or its transpose.
        unsafe {
            match dots {
                Dots::Rows => self.dots_of_rows::<T, L>(level),
                Dots::Columns => self.transposed().dots_of_rows::<T, L>(level),
            }
        }
    }

    /// Computes the product for [`Dots::Rows`]. Copies the left rows first if they are not contiguous.
    ///
    /// # Safety
    /// As for [`Product::dots`].
    unsafe fn dots_of_rows<T: Number, const L: usize>(&self, level: Level) {
        let (m, k, lhs) = (self.m, self.k, self.lhs);
        if lhs.column == 1 {
            let dots = Rows::<T, L> {
                product: self,
                left: lhs.base.cast(),
                step: lhs.row,
            };
            // SAFETY: the caller's promises.
            return unsafe { run_loop(level, dots) };
        }
        Scratch::with(|scratch| {
            let memory = scratch.reserve(m * k * size_of::<T>(), 0).memory;
            let left = memory.cast::<T>();
            // SAFETY: there is room for the rows; the caller's promises.
            unsafe {
                for row in 0..m {
                    for depth in 0..k {
                        left.add(row * k + depth).write(*lhs.at::<T>(row, depth));
                    }
                }
                let dots = Rows::<T, L> {
                    product: self,
                    left,
                    step: k as isize,
                };
                run_loop(level, dots);
            }
        });
    }
}

/// A product with contiguous left rows.
struct Rows<'a, T, const L: usize> {
    product: &'a Product<'a>,
    /// The first element of the first left row.
    left: *const T,
    /// The distance from one left row to the next, in elements.
    step: isize,
}

impl<T: Number, const L: usize> Loop for Rows<'_, T, L> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(_: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: usize) {
        const COLUMNS: usize = 4;
        // SAFETY: `run_loop` passes the rows.
        let this = unsafe { &*a.cast::<Self>() };
        let (m, n) = (this.product.m, this.product.n);
        for column in (0..n).step_by(COLUMNS) {
            let columns = (n - column).min(COLUMNS);
            let mut row = 0;
            // The columns stay in the cache for the next rows. The sums of a larger block would not fit in registers.
            while row < m {
                let rows = (m - row).min(4);
                // SAFETY: these rows and columns exist.
                unsafe {
                    match (rows, columns) {
                        (1, COLUMNS) => this.block::<A, 1, COLUMNS>(row, column),
                        (2, COLUMNS) => this.block::<A, 2, COLUMNS>(row, column),
                        (3, COLUMNS) => this.block::<A, 3, COLUMNS>(row, column),
                        (4, COLUMNS) => {
                            this.block::<A, 4, 2>(row, column);
                            this.block::<A, 4, 2>(row, column + 2);
                        }
                        _ => {
                            for (row, column) in (row..row + rows)
                                .flat_map(|row| (column..n).map(move |column| (row, column)))
                            {
                                this.block::<A, 1, 1>(row, column);
                            }
                        }
                    }
                }
                row += rows;
            }
        }
    }
}

impl<T: Number, const L: usize> Rows<'_, T, L> {
    /// Computes the elements of `R` rows and `C` columns.
    ///
    /// # Safety
    /// As for [`Product::dots`]; the rows and columns exist.
    #[inline(always)]
    unsafe fn block<A: Arithmetic, const R: usize, const C: usize>(
        &self,
        row: usize,
        column: usize,
    ) {
        let Product { k, rhs, out, .. } = self.product;
        let mut sums = [[[T::ZERO; L]; C]; R];
        let rest = k % L;
        // SAFETY: the caller's promises.
        unsafe {
            let left = |index: usize| self.left.offset((row + index) as isize * self.step);
            let right = |index: usize| rhs.at::<T>(0, column + index);
            let (lefts, rights) = (
                std::array::from_fn::<_, R, _>(left),
                std::array::from_fn::<_, C, _>(right),
            );
            for depth in (0..k - rest).step_by(L) {
                let rights = rights.map(|from| *from.add(depth).cast::<[T; L]>());
                for (left, sums) in lefts.iter().zip(&mut sums) {
                    let left = *left.add(depth).cast::<[T; L]>();
                    for (right, sums) in rights.iter().zip(sums) {
                        for lane in 0..L {
                            sums[lane] = A::mul_add(left[lane], right[lane], sums[lane]);
                        }
                    }
                }
            }
            for (index, (left, sums)) in lefts.iter().zip(&sums).enumerate() {
                for (at, (right, sums)) in rights.iter().zip(sums).enumerate() {
                    let mut sums = *sums;
                    for depth in k - rest..*k {
                        let lane = depth % L;
                        sums[lane] = A::mul_add(*left.add(depth), *right.add(depth), sums[lane]);
                    }
                    let mut width = L / 2;
                    while width > 0 {
                        for lane in 0..width {
                            sums[lane] = sums[lane].plus(sums[lane + width]);
                        }
                        width /= 2;
                    }
                    out.at::<T>(row + index, column + at).write(sums[0]);
                }
            }
        }
    }
}

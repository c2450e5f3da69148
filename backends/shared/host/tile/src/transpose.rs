//! Transposes a matrix in blocks, so that several elements of each cache line are read and written at a time.

use millstream_loops::level::Level;

/// A block of a matrix to be transposed.
#[derive(Clone, Copy)]
pub(crate) struct Transpose {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// The distance between columns where they are read, in elements; each column is contiguous.
    pub(crate) step: isize,
    /// The distance between rows where they are written, in elements; each row is contiguous.
    pub(crate) apart: isize,
}

/// Rows and columns that are transposed at once.
const SIDE: usize = 8;

impl Transpose {
    /// Transposes the block.
    ///
    /// # Safety
    /// The elements exist, and there is memory for the rows that overlaps nothing else.
    pub(crate) unsafe fn run<T: Copy>(self, from: *const T, to: *mut T) {
        // SAFETY: the caller's promises; the processor has the level.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if size_of::<T>() == 4 && Level::of_processor() >= Level::V3 {
                return wide::run(self, from.cast(), to.cast());
            }
            self.run_by(from, to, |from, to| {
                for row in 0..SIDE as isize {
                    for column in 0..SIDE as isize {
                        let value = *from.offset(row + column * self.step);
                        to.offset(row * self.apart + column).write(value);
                    }
                }
            });
        }
    }

    /// Transposes the block, in squares of [`SIDE`] rows and columns by `transpose`.
    ///
    /// # Safety
    /// As for [`Transpose::run`].
    #[inline(always)]
    unsafe fn run_by<T: Copy>(
        self,
        from: *const T,
        to: *mut T,
        mut transpose: impl FnMut(*const T, *mut T),
    ) {
        // SAFETY: both lie in their blocks, by the caller's promises.
        let at = |row: usize, column: usize| unsafe {
            let (row, column) = (row as isize, column as isize);
            let from = from.offset(row + column * self.step);
            (from, to.offset(row * self.apart + column))
        };
        let one = |row: usize, column: usize| {
            let (from, to) = at(row, column);
            // SAFETY: as above.
            unsafe { to.write(*from) };
        };
        let (row_end, column_end) = (
            self.rows - self.rows % SIDE,
            self.columns - self.columns % SIDE,
        );
        for column in (0..column_end).step_by(SIDE) {
            for row in (0..row_end).step_by(SIDE) {
                let (from, to) = at(row, column);
                transpose(from, to);
            }
            for row in row_end..self.rows {
                (column..column + SIDE).for_each(|column| one(row, column));
            }
        }
        for column in column_end..self.columns {
            (0..self.rows).for_each(|row| one(row, column));
        }
    }
}

/// Elements of four bytes, with AVX: each column of a square is one register.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{SIDE, Transpose};

    /// As [`Transpose::run`].
    ///
    /// # Safety
    /// As for [`Transpose::run`]; the processor has AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn run(transpose: Transpose, from: *const f32, to: *mut f32) {
        // SAFETY: the caller's promises.
        unsafe { transpose.run_by(from, to, |from, to| block(&transpose, from, to)) }
    }

    /// Interleaves single elements, then pairs, and then swaps halves.
    ///
    /// # Safety
    /// As for [`run`], for a whole square.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn block(transpose: &Transpose, from: *const f32, to: *mut f32) {
        let mut columns = [_mm256_setzero_ps(); SIDE];
        for (index, column) in columns.iter_mut().enumerate() {
            // SAFETY: the caller's promises.
            *column = unsafe { _mm256_loadu_ps(from.offset(index as isize * transpose.step)) };
        }
        let [a, b, c, d, e, f, g, h] = columns;
        let of_two = |a, b| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let of_four = |(a, b): (__m256, __m256), (c, d): (__m256, __m256)| {
            [
                _mm256_shuffle_ps::<0b01_00_01_00>(a, c),
                _mm256_shuffle_ps::<0b11_10_11_10>(a, c),
                _mm256_shuffle_ps::<0b01_00_01_00>(b, d),
                _mm256_shuffle_ps::<0b11_10_11_10>(b, d),
            ]
        };
        let low = of_four(of_two(a, b), of_two(c, d));
        let high = of_four(of_two(e, f), of_two(g, h));
        for (row, (low, high)) in low.into_iter().zip(high).enumerate() {
            let first = _mm256_permute2f128_ps::<0x20>(low, high);
            let second = _mm256_permute2f128_ps::<0x31>(low, high);
            let row = row as isize;
            // SAFETY: the caller's promises.
            unsafe {
                _mm256_storeu_ps(to.offset(row * transpose.apart), first);
                _mm256_storeu_ps(to.offset((row + 4) * transpose.apart), second);
            }
        }
    }
}

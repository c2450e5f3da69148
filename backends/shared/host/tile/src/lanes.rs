//! The lanes of one path: copies elements into registers and back, whatever their places.

use crate::space::Axes;
use crate::transpose::Transpose;

/// The lanes of one path.
pub(crate) struct Lanes<'a> {
    pub(crate) axes: &'a Axes,
    pub(crate) strides: &'a [isize],
    pub(crate) start: usize,
    pub(crate) n: usize,
    /// The offset along the axes that do not move.
    pub(crate) still: isize,
}

/// Prefetches the cache line of an address. Only timing changes.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which accesses no memory architecturally.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

impl Lanes<'_> {
    #[inline(always)]
    pub(crate) fn first(&self) -> isize {
        self.axes.offset(self.strides, self.start)
    }

    #[inline(always)]
    pub(crate) fn step(&self) -> isize {
        match self.axes.rank {
            0 => 0,
            rank => self.strides[rank - 1],
        }
    }

    /// Transposes a block with contiguous columns into rows that are `apart` elements from each other.
    ///
    /// # Safety
    /// The elements exist, and there is memory for the rows.
    pub(crate) unsafe fn transpose<T: Copy>(&self, base: *const T, to: *mut T, apart: isize) {
        let transpose = Transpose {
            rows: self.axes.lens[0],
            columns: self.axes.lens[1],
            step: self.step(),
            apart,
        };
        // SAFETY: the caller's promises.
        unsafe { transpose.run(base, to) };
    }

    /// Copies elements into a register.
    pub(crate) unsafe fn load<T: Copy>(&self, base: *const T, staging: *mut T) {
        let step = self.step();
        if self.axes.rank == 2 && self.strides[0] == 1 && self.n == self.axes.total && step > 1 {
            let columns = self.axes.lens[1];
            // SAFETY: the caller's promises.
            return unsafe { self.transpose(base, staging, columns as isize) };
        }
        self.axes
            .runs(self.strides, self.start, self.n, |lane, len, offset| {
                // SAFETY: the caller's promises.
                unsafe {
                    let (from, to) = (base.offset(offset), staging.add(lane));
                    match step {
                        1 => to.copy_from_nonoverlapping(from, len),
                        0 => std::slice::from_raw_parts_mut(to, len).fill(*from),
                        _ => {
                            for index in 0..len {
                                to.add(index).write(*from.offset(index as isize * step));
                            }
                        }
                    }
                }
            });
    }

    /// Writes the offsets of the elements into a register.
    pub(crate) unsafe fn store_offsets(&self, staging: *mut i64, origin: isize) {
        let step = self.step();
        self.axes
            .runs(self.strides, self.start, self.n, |lane, len, offset| {
                for index in 0..len {
                    let value = origin + offset + self.still + index as isize * step;
                    // SAFETY: the caller's promises.
                    unsafe { staging.add(lane + index).write(value as i64) };
                }
            });
    }

    /// Copies elements out of a register.
    pub(crate) unsafe fn store<T: Copy>(&self, staging: *const T, base: *mut T) {
        let step = self.step();
        self.axes
            .runs(self.strides, self.start, self.n, |lane, len, offset| {
                // SAFETY: the caller's promises.
                unsafe {
                    let (from, to) = (staging.add(lane), base.offset(offset));
                    match step {
                        1 => to.copy_from_nonoverlapping(from, len),
                        _ => {
                            for index in 0..len {
                                to.offset(index as isize * step).write(*from.add(index));
                            }
                        }
                    }
                }
            });
    }
}

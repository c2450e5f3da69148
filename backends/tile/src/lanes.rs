//! The lanes of one walk: elements brought into registers and put back, wherever they lie.

use crate::space::{Axes, Strides};

/// Lanes of one walk.
pub(crate) struct Lanes<'a> {
    pub(crate) axes: &'a Axes,
    pub(crate) strides: &'a Strides,
    pub(crate) start: usize,
    pub(crate) n: usize,
    /// Offset of the axes that do not move.
    pub(crate) still: isize,
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

    /// Elements into a register.
    pub(crate) unsafe fn bring<T: Copy>(&self, base: *const T, home: *mut T) {
        let step = self.step();
        self.axes
            .runs(self.strides, self.start, self.n, |lane, len, offset| {
                // SAFETY: the caller's promises.
                unsafe {
                    let (from, to) = (base.offset(offset), home.add(lane));
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

    /// The offsets themselves into a register.
    pub(crate) unsafe fn count(&self, home: *mut i64, origin: isize) {
        let step = self.step();
        self.axes
            .runs(self.strides, self.start, self.n, |lane, len, offset| {
                for index in 0..len {
                    let value = origin + offset + self.still + index as isize * step;
                    // SAFETY: the caller's promises.
                    unsafe { home.add(lane + index).write(value as i64) };
                }
            });
    }

    /// Elements out of a register.
    pub(crate) unsafe fn put<T: Copy>(&self, home: *const T, base: *mut T) {
        let step = self.step();
        self.axes
            .runs(self.strides, self.start, self.n, |lane, len, offset| {
                // SAFETY: the caller's promises.
                unsafe {
                    let (from, to) = (home.add(lane), base.offset(offset));
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

//! The lanes of one walk: elements brought into registers and put back, wherever they lie.

use crate::space::Axes;

/// Lanes of one walk.
pub(crate) struct Lanes<'a> {
    pub(crate) axes: &'a Axes,
    pub(crate) strides: &'a [isize],
    pub(crate) start: usize,
    pub(crate) n: usize,
    /// Offset of the axes that do not move.
    pub(crate) still: isize,
}

/// Asks for the line of the cache that something lies in. Changes nothing but how long it takes to read.
#[inline(always)]
pub(crate) fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: an instruction of every such processor, which touches nothing, wherever that is.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Rows and columns that are turned at once.
const SIDE: usize = 8;

/// A block of [`SIDE`] columns of as many elements, so far apart, into as many rows.
#[inline(always)]
unsafe fn turn_block<T: Copy>(from: *const T, step: isize, to: *mut T, columns: usize) {
    // SAFETY: the caller's promises.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if size_of::<T>() == 4 {
            use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_loadu_ps, _mm_storeu_ps};
            for (row, column) in [(0, 0), (4, 0), (0, 4), (4, 4)] {
                let read = |index: isize| {
                    _mm_loadu_ps(from.offset(row + (column + index) * step).cast::<f32>())
                };
                let [mut a, mut b, mut c, mut d] = [read(0), read(1), read(2), read(3)];
                _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
                for (index, four) in [a, b, c, d].into_iter().enumerate() {
                    let place = (row as usize + index) * columns + column as usize;
                    _mm_storeu_ps(to.add(place).cast::<f32>(), four);
                }
            }
            return;
        }
        for row in 0..SIDE {
            for column in 0..SIDE {
                let value = *from.offset(row as isize + column as isize * step);
                to.add(row * columns + column).write(value);
            }
        }
    }
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
        if self.axes.rank == 2 && self.strides[0] == 1 && self.n == self.axes.total && step > 1 {
            // SAFETY: the caller's promises.
            return unsafe { self.turn(base, home) };
        }
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

    /// A block whose columns lie each in one piece: some rows of some columns at a time, so that each line of the cache is read once.
    unsafe fn turn<T: Copy>(&self, base: *const T, home: *mut T) {
        const AHEAD: usize = 3 * SIDE;
        let (rows, columns, step) = (self.axes.lens[0], self.axes.lens[1], self.step());
        let one = |row: usize, column: usize| {
            // SAFETY: the caller's promises.
            unsafe {
                let value = *base.offset(row as isize + column as isize * step);
                home.add(row * columns + column).write(value);
            }
        };
        let (row_end, column_end) = (rows - rows % SIDE, columns - columns % SIDE);
        for column in (0..column_end).step_by(SIDE) {
            // Columns lie further apart than the processor looks by itself.
            for ahead in column + AHEAD..column + AHEAD + SIDE {
                for row in (0..rows).step_by(64 / size_of::<T>()) {
                    fetch(base.wrapping_offset(row as isize + ahead as isize * step));
                }
            }
            for row in (0..row_end).step_by(SIDE) {
                // SAFETY: the caller's promises; both are blocks with as many rows and columns.
                unsafe {
                    let from = base.offset(row as isize + column as isize * step);
                    let to = home.add(row * columns + column);
                    turn_block::<T>(from, step, to, columns);
                }
            }
            for row in row_end..rows {
                (column..column + SIDE).for_each(|column| one(row, column));
            }
        }
        for column in column_end..columns {
            (0..rows).for_each(|row| one(row, column));
        }
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

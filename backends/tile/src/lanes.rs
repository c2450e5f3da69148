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
        const SIDE: usize = 8;
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
            for row in (0..row_end).step_by(SIDE) {
                // SAFETY: the caller's promises.
                unsafe {
                    let from = base.offset(row as isize + column as isize * step);
                    let read =
                        |index: usize| *from.offset(index as isize * step).cast::<[T; SIDE]>();
                    let block: [[T; SIDE]; SIDE] = std::array::from_fn(read);
                    for index in 0..SIDE {
                        let to = home.add((row + index) * columns + column);
                        to.cast::<[T; SIDE]>()
                            .write(block.map(|column| column[index]));
                    }
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

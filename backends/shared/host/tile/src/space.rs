//! Index spaces, and the places of elements over them.

use crate::AXES_MAX;

/// Some axes that are walked as one, the last one fastest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axes {
    pub(crate) rank: usize,
    pub(crate) lens: [usize; AXES_MAX],
    pub(crate) total: usize,
}

impl Default for Axes {
    fn default() -> Self {
        Self::NONE
    }
}

/// The distances between neighbours along each axis, in elements.
pub(crate) type Strides = [isize; AXES_MAX];

impl Axes {
    pub(crate) const NONE: Axes = Axes {
        rank: 0,
        lens: [1; AXES_MAX],
        total: 1,
    };

    /// Returns the axes with these lengths, or `None` if their product overflows.
    #[inline]
    pub(crate) fn of(lens: &[u64]) -> Option<Self> {
        let mut axes = Self::NONE;
        axes.rank = lens.len();
        let mut is_empty = false;
        for (to, len) in axes.lens.iter_mut().zip(lens) {
            *to = isize::try_from(*len).ok()? as usize;
            is_empty |= *len == 0;
            axes.total = axes.total.checked_mul((*to).max(1))?;
        }
        isize::try_from(axes.total).ok()?;
        if is_empty {
            axes.total = 0;
        }
        Some(axes)
    }

    /// Returns the length of the fastest axis.
    #[inline]
    pub(crate) fn last(&self) -> usize {
        match self.rank {
            0 => 1,
            rank => self.lens[rank - 1],
        }
    }

    /// Returns the offset of the element with this index.
    #[inline]
    pub(crate) fn offset(&self, strides: &[isize], index: usize) -> isize {
        match self.rank {
            0 => 0,
            1 => index as isize * strides[0],
            rank => {
                let (mut index, mut offset) = (index, 0);
                for axis in (1..rank).rev() {
                    let len = self.lens[axis];
                    offset += (index % len) as isize * strides[axis];
                    index /= len;
                }
                offset + index as isize * strides[0]
            }
        }
    }

    /// Returns the lengths of the axes, with these strides.
    #[inline]
    pub(crate) fn steps(&self, strides: &Strides) -> impl Iterator<Item = (usize, isize)> {
        let lens = self.lens.iter().take(self.rank);
        lens.copied().zip(strides.iter().copied())
    }

    /// Returns `true` if consecutive elements are contiguous.
    #[inline]
    pub(crate) fn is_dense(&self, strides: &[isize]) -> bool {
        let mut expected = 1;
        for axis in (0..self.rank).rev() {
            if strides[axis] != expected {
                return false;
            }
            expected *= self.lens[axis] as isize;
        }
        true
    }

    /// Calls `run` with each stretch of the indices from `start` along the fastest axis: its first lane, its length,
    /// and the offset of its first element.
    #[inline(always)]
    pub(crate) fn runs(
        &self,
        strides: &[isize],
        start: usize,
        n: usize,
        mut run: impl FnMut(usize, usize, isize),
    ) {
        let last = self.last();
        let mut index = [0; AXES_MAX];
        let mut rest = start;
        let mut offset = 0;
        for axis in (0..self.rank).rev() {
            index[axis] = rest % self.lens[axis];
            rest /= self.lens[axis];
            offset += index[axis] as isize * strides[axis];
        }
        let fast = self.rank.saturating_sub(1);
        let mut done = 0;
        while done < n {
            let len = (last - index[fast]).min(n - done);
            run(done, len, offset);
            done += len;
            // Advances to the next stretch, like an odometer.
            offset -= index[fast] as isize * strides[fast];
            index[fast] = 0;
            for axis in (0..fast).rev() {
                index[axis] += 1;
                offset += strides[axis];
                if index[axis] < self.lens[axis] {
                    break;
                }
                offset -= index[axis] as isize * strides[axis];
                index[axis] = 0;
            }
        }
    }
}

/// The places of an input or a target over the outer and inner axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The first element; null if the offsets themselves are the input.
    pub(crate) base: *mut u8,
    /// The start of the window, in elements, if only a part of the index space is walked.
    pub(crate) origin: isize,
    pub(crate) outer: Strides,
    pub(crate) inner: Strides,
    /// Whether its memory is used in place, tile by tile.
    pub(crate) is_direct: bool,
    /// The range of addresses that it may touch.
    pub(crate) bytes: (usize, usize),
}

impl Path {
    pub(crate) const NONE: Path = Path {
        base: std::ptr::null_mut(),
        origin: 0,
        outer: [0; AXES_MAX],
        inner: [0; AXES_MAX],
        is_direct: false,
        bytes: (0, 0),
    };
}

/// Merges neighbouring axes where every path allows it, and drops axes of length 1. The order stays. Axes without
/// elements become no axes: they have no index, and no length is divided by zero.
pub(crate) fn collapse(
    axes: &mut Axes,
    paths: &mut [Path],
    strides_of: impl Fn(&mut Path) -> &mut Strides,
) {
    if axes.total == 0 {
        axes.rank = 0;
        return;
    }
    let mut rank = 0;
    for axis in 0..axes.rank {
        let len = axes.lens[axis];
        if len == 1 {
            continue;
        }
        let joins = rank > 0
            && paths.iter_mut().all(|path| {
                let strides = strides_of(path);
                strides[rank - 1] == strides[axis].wrapping_mul(len as isize)
            });
        if joins {
            axes.lens[rank - 1] *= len;
        } else {
            rank += 1;
            axes.lens[rank - 1] = len;
        }
        if rank - 1 != axis {
            for path in paths.iter_mut() {
                let strides = strides_of(path);
                strides[rank - 1] = strides[axis];
            }
        }
    }
    axes.rank = rank;
}

/// Orders axes so that a path's strides decrease.
pub(crate) fn order(
    axes: &mut Axes,
    paths: &mut [Path],
    key: usize,
    strides_of: impl Fn(&mut Path) -> &mut Strides,
) {
    for end in 1..axes.rank {
        let mut axis = end;
        while axis > 0 {
            let steps = strides_of(&mut paths[key]);
            let (before, this) = (steps[axis - 1].unsigned_abs(), steps[axis].unsigned_abs());
            // Axes along which the path does not move stay in place.
            if before >= this || before == 0 || axes.lens[axis - 1] == 1 || axes.lens[axis] == 1 {
                break;
            }
            axes.lens.swap(axis - 1, axis);
            for path in paths.iter_mut() {
                strides_of(path).swap(axis - 1, axis);
            }
            axis -= 1;
        }
    }
}

//! The tiling of lanes.

use crate::space::Axes;

/// The tiling of the lanes of a launch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tiles {
    /// The greatest number of lanes of a tile; a multiple of 64, so that every register begins at a cache line.
    pub(crate) lanes: usize,
    pub(crate) count: usize,
    /// Tiles per stretch along the fastest axis; 0 if tiles cross its end.
    in_stretch: usize,
    /// The lanes along the last two axes, if tiles are blocks of them.
    pub(crate) block: Option<[usize; 2]>,
}

/// Tiles do not cross the end of a fastest axis at least this long, so that most inputs can be used in place.
const STRETCH_MIN: usize = 128;

/// Lanes of a tile that is only moved.
const MOVED_LANES: usize = 1 << 14;

/// Lanes along the axes of a block: at least a cache line, at most several.
const BLOCK_MIN: usize = 16;
const BLOCK_MAX: usize = 64;

impl Tiles {
    /// Returns tiles of up to about `lanes_max` lanes.
    #[inline]
    pub(crate) fn of(axes: &Axes, lanes_max: usize) -> Self {
        let (last, total) = (axes.last().max(1), axes.total);
        if axes.rank <= 1 || last >= STRETCH_MIN {
            let in_stretch = last.div_ceil(lanes_max);
            let lanes = last.div_ceil(in_stretch).next_multiple_of(64);
            let in_stretch = last.div_ceil(lanes);
            let count = total / last * in_stretch;
            return Self {
                lanes,
                count,
                in_stretch,
                ..Self::default()
            };
        }
        Self::across(axes, lanes_max)
    }

    /// Returns tiles that cross the ends of axes.
    fn across(axes: &Axes, lanes_max: usize) -> Self {
        let lanes = lanes_max.min(axes.total.next_multiple_of(64));
        Self {
            lanes,
            count: axes.total.div_ceil(lanes),
            ..Self::default()
        }
    }

    /// Returns tiles of many lanes that cross the ends of axes, for plans that only move elements: they have no
    /// registers that must fit the L1 cache.
    pub(crate) fn of_moves(axes: &Axes) -> Self {
        Self::across(axes, MOVED_LANES)
    }

    /// Returns the same number of lanes as blocks of the last two axes.
    pub(crate) fn in_blocks(self, axes: &Axes) -> Self {
        let across = (self.lanes / BLOCK_MIN).min(BLOCK_MAX);
        let down = self.lanes / across;
        let [rows, columns] = [axes.lens[axes.rank - 2], axes.last()];
        let above = axes.total / (rows * columns);
        Self {
            count: above * rows.div_ceil(down) * columns.div_ceil(across),
            block: Some([down, across]),
            ..self
        }
    }

    /// Returns the first lane of a block, and its lengths.
    pub(crate) fn block(
        &self,
        axes: &Axes,
        [down, across]: [usize; 2],
        index: usize,
    ) -> (usize, [usize; 2]) {
        let [rows, columns] = [axes.lens[axes.rank - 2], axes.last()];
        let (high, wide) = (rows.div_ceil(down), columns.div_ceil(across));
        let (row, column) = (index / wide % high * down, index % wide * across);
        let first = (index / wide / high * rows + row) * columns + column;
        (first, [down.min(rows - row), across.min(columns - column)])
    }

    /// Returns the first lane of a tile, and its number of lanes.
    #[inline]
    pub(crate) fn tile(&self, axes: &Axes, index: usize) -> (usize, usize) {
        match self.in_stretch {
            0 => {
                let start = index * self.lanes;
                (start, self.lanes.min(axes.total - start))
            }
            in_stretch => {
                let last = axes.last();
                let (stretch, part) = match axes.rank {
                    0 | 1 => (0, index),
                    _ => (index / in_stretch, index % in_stretch),
                };
                let start = part * self.lanes;
                (stretch * last + start, self.lanes.min(last - start))
            }
        }
    }

    /// Returns `true` if elements with these strides can be used in place.
    #[inline]
    pub(crate) fn uses_directly(&self, axes: &Axes, strides: &[isize]) -> bool {
        match (self.in_stretch, axes.rank) {
            _ if self.block.is_some() => false,
            (_, 0) => true,
            (0, _) => axes.is_dense(strides),
            (_, rank) => strides[rank - 1] == 1,
        }
    }
}

//! How lanes are cut into tiles.

use crate::space::Axes;

/// How lanes are cut into tiles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tiles {
    /// Most lanes of a tile; a multiple of 64, so that every register begins at a line of the cache.
    pub(crate) lanes: usize,
    pub(crate) count: usize,
    /// Tiles of one stretch along the fastest axis; 0 if tiles go on over its end.
    in_stretch: usize,
    /// Tiles are blocks of the last two axes, of a bounded number of lanes along each.
    pub(crate) block: Option<[usize; 2]>,
}

/// A fastest axis that is longer than this is not crossed by tiles, so that most of what is walked can be used as it lies.
const STRETCH_MIN: usize = 128;

/// Lanes of a tile that are only moved.
const MOVED_LANES: usize = 1 << 14;

/// Lanes along the axes of a block: a line of the cache at least, some of them at most.
const BLOCK_MIN: usize = 16;
const BLOCK_MAX: usize = 64;

impl Tiles {
    /// Tiles of up to about this many lanes.
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
                block: None,
            };
        }
        let lanes = lanes_max.min(total.next_multiple_of(64));
        let count = total.div_ceil(lanes);
        Self {
            lanes,
            count,
            in_stretch: 0,
            block: None,
        }
    }

    /// Tiles of many lanes, over the ends of axes, for what only moves elements: there are no registers to fit the first cache.
    pub(crate) fn of_moves(axes: &Axes) -> Self {
        let lanes = MOVED_LANES.min(axes.total.next_multiple_of(64));
        Self {
            lanes,
            count: axes.total.div_ceil(lanes),
            in_stretch: 0,
            block: None,
        }
    }

    /// The same lanes in blocks of the last two axes.
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

    /// The first lane of a block, and its lengths.
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

    /// The first lane of a tile, and how many it has.
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

    /// Can a walk be used as it lies?
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

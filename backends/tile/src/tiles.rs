//! How lanes are cut into tiles.

use crate::space::{Axes, Strides};

/// How lanes are cut into tiles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tiles {
    /// Most lanes of a tile; a multiple of 64, so that every register begins at a line of the cache.
    pub(crate) lanes: usize,
    pub(crate) count: usize,
    /// Tiles of one stretch along the fastest axis; 0 if tiles go on over its end.
    in_stretch: usize,
}

/// A fastest axis that is longer than this is not crossed by tiles, so that most of what is walked can be used as it lies.
const STRETCH_MIN: usize = 128;

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
            };
        }
        let lanes = lanes_max.min(total.next_multiple_of(64));
        let count = total.div_ceil(lanes);
        Self {
            lanes,
            count,
            in_stretch: 0,
        }
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
    pub(crate) fn uses_directly(&self, axes: &Axes, strides: &Strides) -> bool {
        match (self.in_stretch, axes.rank) {
            (_, 0) => true,
            (0, _) => axes.is_dense(strides),
            (_, rank) => strides[rank - 1] == 1,
        }
    }
}

//! Which plan of a nest suits a launch, and how its lanes are cut.

use millstream_ir::Rows;
use millstream_ir::nest::Stride;

use super::NestCode;
use crate::launch::{Launch, resolve};
use crate::plan::{Plan, Template};
use crate::plans::Plans;
use crate::tiles::Tiles;

/// Bytes of registers that a tile should fill: most of the first cache. More for rows, which want to be one tile.
const TILE_BYTES: usize = 32 << 10;
const ROW_TILE_BYTES: usize = 128 << 10;

/// Bytes of values that are kept from pass to pass: along rows they should stay in the second cache. Across rows they may be more, as
/// they are read in the order in which they were written; a softmax over the first axis of 1024 x 1024 took 1.35 ms with them and 1.67 ms
/// where exponentials were computed again.
const RETAINED_BYTES_MAX: usize = 512 << 10;
const RETAINED_COLUMNS_BYTES_MAX: usize = 2 << 20;

/// In 1/16 nanoseconds: an instruction besides its elements, and an element that does not lie beside its neighbour.
const CALL_COST: usize = 80;
const STRIDED_COST: usize = 16;

/// Lanes of a tile of columns, at most: stretches of a page, since the processor fetches ahead within one alone. And at least, where what is
/// needed again is kept.
const COLUMN_LANES: usize = 1024;
const RETAINED_COLUMNS_MIN: usize = 256;

impl NestCode {
    /// The plan that suits a launch best.
    pub(super) fn choose(&self, plans: &Plans, launch: &Launch, words: &[u64]) -> usize {
        let [row, _, column, _] = plans.over_tiles() else {
            return 0;
        };
        let len = launch.inner.total;
        let is_along = match self.rows {
            Some(rows) => rows == Rows::Along,
            None => self.is_cheaper_along(launch, words, row, column),
        };
        if is_along {
            let is_short = row.retained as usize * len <= RETAINED_BYTES_MAX;
            usize::from(!is_short)
        } else {
            // In narrower tiles, what is not computed again costs more than that.
            let bytes = column.retained as usize * len * RETAINED_COLUMNS_MIN;
            let is_short = bytes <= RETAINED_COLUMNS_BYTES_MAX;
            2 + usize::from(!is_short)
        }
    }

    /// Are rows walked along, rather than many at once across?
    fn is_cheaper_along(&self, launch: &Launch, words: &[u64], row: &Plan, column: &Plan) -> bool {
        let (rows, len) = (launch.outer.total, launch.inner.total);
        let [along, across] = self.costs(launch, words);
        let code = |plan: &Plan| {
            plan.passes
                .iter()
                .map(|pass| pass.body.len() + 1)
                .sum::<usize>()
        };
        let elements = rows.saturating_mul(len);
        let by_row = elements.saturating_mul(along)
            + rows.saturating_mul((code(row) + len / 2048) * CALL_COST);
        let by_column = elements.saturating_mul(across)
            + (len * rows.div_ceil(COLUMN_LANES)).saturating_mul(code(column) * CALL_COST);
        by_row <= by_column
    }

    /// What an element costs to read and write along the inner axes, and across them, in parts of a nanosecond.
    fn costs(&self, launch: &Launch, words: &[u64]) -> [usize; 2] {
        let mut costs = [1, 1];
        for access in &self.nest.accesses {
            let (outer, inner) = access.strides.split_at(self.nest.outer);
            if inner.iter().all(|stride| *stride == Stride::Zero) {
                continue;
            }
            for (cost, (strides, axes)) in costs
                .iter_mut()
                .zip([(inner, &launch.inner), (outer, &launch.outer)])
            {
                let mut moving = strides.iter().zip(&axes.lens).filter(|(_, len)| **len > 1);
                let is_unit = match strides.len() == inner.len() && std::ptr::eq(strides, inner) {
                    // Inner axes stay in their order.
                    true => moving
                        .next_back()
                        .is_none_or(|(stride, _)| resolve(*stride, words).unsigned_abs() <= 1),
                    false => {
                        let mut all = moving
                            .map(|(stride, _)| resolve(*stride, words).unsigned_abs())
                            .peekable();
                        all.peek().is_none() || all.any(|stride| stride == 1)
                    }
                };
                *cost += if is_unit { 1 } else { STRIDED_COST };
            }
        }
        costs
    }
}

/// How the lanes of a launch are cut into tiles, and lanes of what is kept. Rows are cut as they would be over tiles.
pub(super) fn tile_lanes(plan: &Plan, over_tiles: &Plan, launch: &Launch) -> (Tiles, usize) {
    let unit = (plan.unit as usize).max(1);
    match plan.template {
        Template::Flat => {
            let lanes = (TILE_BYTES / unit / 64 * 64).clamp(256, 2048);
            (Tiles::of(&launch.outer, lanes), 0)
        }
        Template::Row => {
            let unit = (over_tiles.unit as usize).max(1);
            let lanes = (ROW_TILE_BYTES / unit / 64 * 64).clamp(512, 4096);
            (
                Tiles::of(&launch.inner, lanes),
                launch.inner.total.next_multiple_of(64),
            )
        }
        Template::Column => {
            let steps = launch.inner.total;
            let retained = RETAINED_COLUMNS_BYTES_MAX / (plan.retained as usize * steps).max(1);
            let lanes = (TILE_BYTES / unit).min(retained) / 64 * 64;
            let tiles = Tiles::of(&launch.outer, lanes.clamp(64, COLUMN_LANES));
            (tiles, tiles.lanes * steps)
        }
    }
}

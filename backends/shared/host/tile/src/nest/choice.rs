//! Chooses the plan of a nest for a launch, and the tiling of its lanes.

use millstream_ir::Rows;
use millstream_ir::nest::Stride;

use super::NestCode;
use crate::launch::{Launch, resolve};
use crate::plan::{Plan, Template};
use crate::plans::Variant;
use crate::space::Axes;
use crate::tiles::Tiles;

/// Bytes of registers that a tile should fill: most of the L1 cache. More for rows, because a row should be one tile.
const TILE_BYTES: usize = 32 << 10;
const ROW_TILE_BYTES: usize = 128 << 10;

/// Bytes of values that are retained between passes. Along rows they should stay in the L2 cache. Across rows there
/// may be more, because they are read in the order in which they were written: a softmax over the first axis of 1024
/// x 1024 took 1.35 ms with them, and 1.67 ms when exponentials were computed again.
const RETAINED_BYTES_MAX: usize = 512 << 10;
const RETAINED_COLUMNS_BYTES_MAX: usize = 2 << 20;

/// In 1/16 nanoseconds: the overhead of an instruction, and the cost of an element that is not next to its neighbour.
const CALL_COST: usize = 80;
const STRIDED_COST: usize = 16;

/// The greatest number of lanes of a tile of columns: one page, because the processor prefetches only within a page.
/// And the least number of lanes where values are retained.
const COLUMN_LANES: usize = 1024;
const RETAINED_COLUMNS_MIN: usize = 256;

impl NestCode {
    /// Returns the plan that suits a launch best.
    pub(super) fn choose(&self, plans: &[Variant], launch: &Launch, words: &[u64]) -> usize {
        let [row, _, column, _] = plans else {
            return 0;
        };
        let (row, column) = (&row.over_tiles, &column.over_tiles);
        let len = launch.inner.total;
        let is_along = match self.rows {
            Some(rows) => rows == Rows::Along,
            None => self.is_cheaper_along(launch, words, row, column),
        };
        if is_along {
            let is_short = row.retained as usize * len <= RETAINED_BYTES_MAX;
            usize::from(!is_short)
        } else {
            // In narrower tiles, retaining values costs more than it saves.
            let bytes = column.retained as usize * len * RETAINED_COLUMNS_MIN;
            let is_short = bytes <= RETAINED_COLUMNS_BYTES_MAX;
            2 + usize::from(!is_short)
        }
    }

    /// Returns `true` if it is cheaper to walk along rows than across many rows at once.
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

    /// Returns the cost to read and write an element along the inner axes, and across them, in 1/16 nanoseconds.
    fn costs(&self, launch: &Launch, words: &[u64]) -> [usize; 2] {
        let mut costs = [1, 1];
        for access in &self.nest.accesses {
            let (outer, inner) = access.strides.split_at(self.nest.outer);
            if inner.iter().all(|stride| *stride == Stride::Zero) {
                continue;
            }
            // Inner axes stay in their order, so only the last one counts.
            let last = steps(inner, &launch.inner, words).last();
            let mut outer = steps(outer, &launch.outer, words).peekable();
            let is_unit = [
                last.is_none_or(|step| step <= 1),
                outer.peek().is_none() || outer.any(|step| step == 1),
            ];
            for (cost, is_unit) in costs.iter_mut().zip(is_unit) {
                *cost += if is_unit { 1 } else { STRIDED_COST };
            }
        }
        costs
    }
}

/// Returns the distances between neighbours along axes that have any.
fn steps<'a>(
    strides: &'a [Stride],
    axes: &'a Axes,
    words: &'a [u64],
) -> impl Iterator<Item = u64> + 'a {
    let moving = strides.iter().zip(&axes.lens).filter(|(_, len)| **len > 1);
    moving.map(|(stride, _)| resolve(*stride, words).unsigned_abs())
}

/// Tiles the lanes of a launch. Rows are tiled as the plan over tiles would, so that results do not depend on machine
/// code.
pub(super) fn tile(launch: &mut Launch, plan: &Plan, over_tiles: &Plan) {
    let lanes_of = |plan: &Plan, bytes: usize| bytes / (plan.unit as usize).max(1) / 64 * 64;
    let steps = launch.inner.total;
    launch.transposes_only = false;
    launch.tiles = match plan.template {
        Template::Row => {
            let lanes = lanes_of(over_tiles, ROW_TILE_BYTES);
            Tiles::of(&launch.inner, lanes.clamp(512, 4096))
        }
        Template::Column if launch.inner.rank == 0 => {
            let lanes = lanes_of(plan, TILE_BYTES).clamp(256, 2048);
            let tiles = Tiles::of(&launch.outer, lanes);
            match launch.arrange_blocks(plan) {
                true => {
                    launch.transposes_only = launch.transposes_only(plan);
                    tiles.in_blocks(&launch.outer)
                }
                false if launch.moves_densely(plan) => Tiles::of_moves(&launch.outer),
                false => tiles,
            }
        }
        Template::Column => {
            let retained = RETAINED_COLUMNS_BYTES_MAX / (plan.retained as usize * steps).max(1);
            let lanes = lanes_of(plan, TILE_BYTES).min(retained / 64 * 64);
            Tiles::of(&launch.outer, lanes.clamp(64, COLUMN_LANES))
        }
    };
    launch.retained_lanes = match plan.template {
        Template::Row => steps.next_multiple_of(64),
        Template::Column => launch.tiles.lanes * steps,
    };
    launch.mark_direct_paths(plan);
    launch.streams = launch.streams(plan);
}

//! Inputs read across memory. Tiles along the fastest axis would use one element of each cache line and evict the
//! rest unused.

use super::Launch;
use crate::plan::{InputKind, Plan};

/// Shorter axes are fast enough as they are.
const LEN_MIN: usize = 16;

impl Launch {
    /// If an input of a launch without inner axes is read across memory, moves the axis along which its elements are contiguous next to the fastest
    /// axis, so that tiles can be blocks of the two. Returns `true` if it did.
    pub(crate) fn arrange_blocks(&mut self, plan: &Plan) -> bool {
        let rank = self.outer.rank;
        if rank < 2 || self.outer.last() < LEN_MIN {
            return false;
        }
        let is_read = |index: &usize| matches!(plan.inputs[*index].kind, InputKind::Elements(_));
        let across = |index: usize| {
            let strides = &self.paths[index].outer[..rank];
            let is_across = strides[rank - 1].unsigned_abs() > 1;
            let side_by_side =
                |axis: &usize| strides[*axis] == 1 && self.outer.lens[*axis] >= LEN_MIN;
            (0..rank - 1).find(side_by_side).filter(|_| is_across)
        };
        let mut inputs = (0..plan.inputs.len()).filter(is_read);
        let Some(axis) = inputs.find_map(across) else {
            return false;
        };
        // Rows that overlap must keep their order.
        if !self.rows_are_disjoint(plan) {
            return false;
        }
        self.outer.lens[axis..rank - 1].rotate_left(1);
        for path in &mut self.paths {
            path.outer[axis..rank - 1].rotate_left(1);
        }
        true
    }

    /// Returns `true` if the launch only moves one matrix, from contiguous columns into contiguous rows.
    pub(crate) fn transposes_only(&self, plan: &Plan) -> bool {
        let fast = self.outer.rank - 1;
        match (&plan.inputs[..], &plan.targets[..], &self.paths[..]) {
            ([input], [target], [from, to]) => {
                let lies_in_columns = from.outer[fast - 1] == 1 && from.outer[fast] > 1;
                let is_read =
                    matches!(input.kind, InputKind::Elements(_)) && input.size == target.size;
                plan.moves && is_read && lies_in_columns && to.is_direct && to.outer[fast] == 1
            }
            _ => false,
        }
    }
}

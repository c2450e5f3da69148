//! What is read across memory: tiles along the fastest axis would take one element of each line of the cache, and throw away the rest.

use super::Launch;
use crate::plan::{Plan, Template, Walked};

/// Shorter axes are read soon enough.
const LEN_MIN: usize = 16;

impl Launch {
    /// Brings the axis along which a walk reads elements side by side next to the fastest one, if there is such a walk: tiles
    /// are to be blocks of the two. Answers whether it is so.
    pub(crate) fn turn(&mut self, plan: &Plan) -> bool {
        let rank = self.outer.rank;
        if plan.template != Template::Flat || rank < 2 || self.outer.last() < LEN_MIN {
            return false;
        }
        let is_read = |index: &usize| matches!(plan.walks[*index].walked, Walked::Elements(_));
        let across = |index: usize| {
            let strides = &self.paths[index].outer[..rank];
            let is_across = strides[rank - 1].unsigned_abs() > 1;
            let side_by_side =
                |axis: &usize| strides[*axis] == 1 && self.outer.lens[*axis] >= LEN_MIN;
            (0..rank - 1).find(side_by_side).filter(|_| is_across)
        };
        let mut walks = (0..plan.walks.len()).filter(is_read);
        let Some(axis) = walks.find_map(across) else {
            return false;
        };
        // Rows that are not apart stay in their order.
        if !self.rows_are_apart(plan) {
            return false;
        }
        self.outer.lens[axis..rank - 1].rotate_left(1);
        for path in &mut self.paths {
            path.outer[axis..rank - 1].rotate_left(1);
        }
        true
    }

    /// Of what was turned: is it one matrix that is only moved, from columns into rows that each lie in one piece?
    pub(crate) fn turns_only(&self, plan: &Plan) -> bool {
        let fast = self.outer.rank - 1;
        match (&plan.walks[..], &plan.targets[..], &self.paths[..]) {
            ([walk], [target], [from, to]) => {
                let lies_in_columns = from.outer[fast - 1] == 1 && from.outer[fast] > 1;
                let is_read =
                    matches!(walk.walked, Walked::Elements(_)) && walk.size == target.size;
                plan.moves && is_read && lies_in_columns && to.is_direct && to.outer[fast] == 1
            }
            _ => false,
        }
    }
}

//! Overlaps in memory: which stores may be computed in place, and whether rows may run concurrently.

use super::Launch;
use crate::AXES_MAX;
use crate::plan::{Plan, Scope};
use crate::space::Path;

/// Returns `true` if two ranges of addresses overlap.
pub(crate) fn overlap(one: (usize, usize), other: (usize, usize)) -> bool {
    one.0 < other.1 && other.0 < one.1
}

/// Returns `true` if axes with these lengths and strides provably lead to different places.
#[inline]
pub(crate) fn never_collide(axes: impl Iterator<Item = (usize, isize)>) -> bool {
    let mut steps = [(0, 1); 2 * AXES_MAX + 1];
    let mut count = 0;
    for (len, stride) in axes.filter(|(len, _)| *len > 1) {
        steps[count] = (stride.unsigned_abs(), len);
        count += 1;
    }
    let steps = &mut steps[..count];
    // Axes usually come in order already, with the greatest stride first.
    steps.reverse();
    if !steps.is_sorted() {
        steps.sort_unstable();
    }
    let mut extent = 0_usize;
    for (stride, len) in steps {
        if *stride <= extent {
            return false;
        }
        extent = extent.saturating_add(stride.saturating_mul(*len - 1));
    }
    true
}

impl Launch {
    /// Computes a store in place only if nothing else of the launch overlaps it. Rows may run concurrently only if no
    /// two of them overlap.
    #[inline]
    pub(super) fn find_overlaps(&mut self, plan: &Plan) {
        let inputs = plan.inputs.len();
        let (outer, inner) = (self.outer.rank, self.inner.rank);
        for target in inputs..self.paths.len() {
            let this = &self.paths[target];
            let mut lies_alone = true;
            for (other, path) in self.paths.iter().enumerate() {
                if other == target || !overlap(path.bytes, this.bytes) {
                    continue;
                }
                lies_alone = false;
                let is_same = path.base == this.base
                    && path.outer[..outer] == this.outer[..outer]
                    && path.inner[..inner] == this.inner[..inner];
                self.rows_are_independent &= is_same && other < inputs;
            }
            self.paths[target].is_direct = lies_alone;
        }
    }

    /// Returns `true` if rows may be computed in any order, concurrently.
    pub(crate) fn rows_are_disjoint(&self, plan: &Plan) -> bool {
        let paths = &self.paths[plan.inputs.len()..];
        let mut targets = plan.targets.iter().zip(paths);
        self.rows_are_independent
            && targets.all(|(target, path)| self.is_injective(path, target.scope))
    }

    /// Returns `true` if all places of a path are provably different.
    #[inline]
    fn is_injective(&self, path: &Path, scope: Scope) -> bool {
        let inner = (scope == Scope::Inner).then(|| self.inner.steps(&path.inner));
        let outer = self.outer.steps(&path.outer);
        never_collide(outer.chain(inner.into_iter().flatten()))
    }
}

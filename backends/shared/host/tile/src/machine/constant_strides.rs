//! Slots whose addresses advance by a constant stride from row to row, or from step to step: then only the first one
//! is placed, and the others are additions.

use super::{At, Machine};
use crate::kernels::reduce::{LONG, ROWS_AT_ONCE, Stack};
use crate::plan::{DirectFold, InputKind, Pass, Prefetch, Scope};
use crate::slot::Slot;
use crate::space::{Axes, Path};

impl Machine<'_> {
    /// Finds the stride of each slot from row to row. Returns `true` if all strides are constant.
    pub(super) fn rows_have_constant_strides(&mut self) -> bool {
        let job = self.job;
        self.strides.fill(0);
        let is_one_tile = job.launch.tiles.count == 1 && job.launch.inner.total > 0;
        let targets = 0..job.plan.targets.len();
        let step = |path: &Path| path.outer[0];
        is_one_tile
            && self.find_constant_strides(
                &job.launch.outer,
                step,
                &job.plan.row_inputs,
                targets,
                job.launch.inner.total,
            )
    }

    /// Finds the stride of each slot from step to step across rows. Returns `true` if all strides are constant.
    pub(super) fn steps_have_constant_strides(&mut self) -> bool {
        let job = self.job;
        for (stride, slot) in self.strides.iter_mut().zip(&job.plan.slots) {
            *stride = match slot {
                Slot::Retained { size, .. } => *size as isize * job.launch.tiles.lanes as isize,
                _ => 0,
            };
        }
        // Targets of rows are placed at the end of the rows.
        let is_in_steps = |index: &usize| job.plan.targets[*index].scope == Scope::Inner;
        let targets = (0..job.plan.targets.len()).filter(is_in_steps);
        self.find_constant_strides(
            &job.launch.inner,
            |path| path.inner[0],
            &[],
            targets,
            job.launch.tiles.lanes,
        )
    }

    /// Finds the strides of these inputs, the inputs of all passes, and these targets, for one step along the axes.
    fn find_constant_strides(
        &mut self,
        axes: &Axes,
        step: impl Fn(&Path) -> isize,
        inputs: &[u16],
        mut targets: impl Iterator<Item = usize>,
        lanes: usize,
    ) -> bool {
        let (plan, launch) = (self.job.plan, self.job.launch);
        let (of_inputs, of_targets) = launch.paths.split_at(plan.inputs.len());
        let stride = |path: &Path, size: usize| match axes.rank {
            0 => 0,
            _ => step(path) * size as isize,
        };
        let mut all = inputs
            .iter()
            .chain(plan.passes.iter().flat_map(|pass| &pass.inputs));
        let inputs_do = all.all(|index| {
            let index = usize::from(*index);
            let (input, path) = (&plan.inputs[index], &of_inputs[index]);
            self.strides[usize::from(input.slot)] = stride(path, input.size);
            input.is_in_place(path, lanes)
        });
        let targets_do = targets.all(|index| {
            let (target, path) = (&plan.targets[index], &of_targets[index]);
            self.strides[usize::from(target.slot)] = stride(path, target.size);
            path.is_direct
        });
        for &(what, slot) in plan.passes.iter().flat_map(|pass| &pass.prefetches) {
            let (path, size) = match what {
                Prefetch::Input(input) => {
                    let index = usize::from(input);
                    (&of_inputs[index], plan.inputs[index].size)
                }
                Prefetch::Target(target) => {
                    let index = usize::from(target);
                    (&of_targets[index], plan.targets[index].size)
                }
            };
            self.strides[usize::from(slot)] = stride(path, size);
        }
        axes.rank <= 1 && inputs_do && targets_do
    }

    /// Folds all steps of a pass but the first into the accumulators; the input's slot is still at the first step.
    pub(super) unsafe fn fold_steps(&mut self, fold: &DirectFold, n: usize) {
        let slot = usize::from(self.job.plan.inputs[usize::from(fold.input)].slot);
        let (apart, steps) = (self.strides[slot], self.job.launch.inner.total);
        let accumulator = self.slots[usize::from(fold.accumulator)];
        let mut from = self.slots[slot];
        let mut step = 1;
        while step < steps {
            let count = ROWS_AT_ONCE.min(steps - step);
            from = from.wrapping_offset(apart);
            let stack = Stack { apart, count };
            let stack = std::ptr::from_ref(&stack).cast::<u8>();
            // SAFETY: the input is used in place, and the launch was checked; the plan gives the accumulators their
            // type.
            unsafe { (fold.run)(accumulator, from, stack, stack, n) };
            from = from.wrapping_offset(apart * (count as isize - 1));
            step += count;
        }
    }

    /// Returns the fold of a pass that only folds long, contiguous rows.
    #[inline]
    pub(super) fn long_fold(&self, pass: &Pass) -> Option<DirectFold> {
        let inner = &self.job.launch.inner;
        let lies_in_one = |fold: &DirectFold| {
            let index = usize::from(fold.input);
            let is_read = matches!(self.job.plan.inputs[index].kind, InputKind::Elements(_));
            is_read && self.job.launch.paths[index].is_direct && inner.rank == 1
        };
        pass.direct_fold
            .filter(|fold| inner.total >= LONG && lies_in_one(fold))
    }

    /// Folds a row into its accumulator.
    pub(super) unsafe fn fold_long_row(&mut self, fold: &DirectFold, row: usize) {
        let n = self.job.launch.inner.total;
        let input = &self.job.plan.inputs[usize::from(fold.input)];
        // SAFETY: the caller's promises; the launch was checked, and the row is contiguous.
        unsafe {
            self.place_input(fold.input, At::new((row, 1), (0, n)));
            let from = self.slots[usize::from(input.slot)];
            let to = self.slots[usize::from(fold.accumulator)];
            (fold.run)(to, from, from, from, n);
        }
    }

    /// Advances to the next row.
    #[inline]
    pub(super) fn advance(&mut self) {
        for (slot, stride) in self.slots.iter_mut().zip(&*self.strides) {
            *slot = slot.wrapping_offset(*stride);
        }
    }

    /// Advances to the next step across rows, which is `step`.
    #[inline]
    pub(super) unsafe fn advance_to(&mut self, step: usize) {
        self.advance();
        self.retained_lane = step * self.job.launch.tiles.lanes;
        // SAFETY: slot 0 is a scalar, the position.
        unsafe { self.slots[0].cast::<i64>().write(step as i64) };
    }
}

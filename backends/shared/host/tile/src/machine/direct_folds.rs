//! Passes that only fold an input in place: many elements at once, instead of step by step.

use super::{At, Machine};
use crate::kernels::reduce::{LONG, ROWS_AT_ONCE, Stack};
use crate::plan::{InputKind, Pass, Template};

impl Machine<'_> {
    /// Folds all elements of a pass: a long row at once, or several steps across rows. Returns `false` if it must be done
    /// step by step.
    ///
    /// # Safety
    /// As for [`Machine::run`]; `outer` are the outer indices of a piece.
    #[inline]
    pub(super) unsafe fn fold_directly(&mut self, pass: &Pass, outer: (usize, usize)) -> bool {
        let Some(fold) = pass.direct_fold else {
            return false;
        };
        let (plan, launch) = (self.job.plan, self.job.launch);
        let is_row = plan.template == Template::Row;
        let index = usize::from(fold.input);
        let (input, path) = (&plan.inputs[index], &launch.paths[index]);
        let (rank, len) = (launch.inner.rank, launch.inner.total);
        let is_read = matches!(input.kind, InputKind::Elements(_)) && path.is_direct;
        if !is_read || rank != 1 || (is_row && len < LONG) {
            return false;
        }
        let accumulator = self.slots[usize::from(fold.accumulator)];
        // SAFETY: the caller's promises; the input is used in place, and the launch was checked; the plan gives the
        // accumulators their type.
        unsafe {
            self.place_input(
                fold.input,
                At::new(outer, (0, if is_row { len } else { 1 })),
            );
            let from = self.slots[usize::from(input.slot)];
            if is_row {
                (fold.run)(accumulator, from, from, from, len);
                return true;
            }
            let apart = path.inner[0].wrapping_mul(input.size as isize);
            for step in (0..len).step_by(ROWS_AT_ONCE) {
                let count = ROWS_AT_ONCE.min(len - step);
                let stack = Stack { apart, count };
                let stack = std::ptr::from_ref(&stack).cast::<u8>();
                let from = from.wrapping_offset(apart.wrapping_mul(step as isize));
                (fold.run)(accumulator, from, stack, stack, outer.1);
            }
        }
        true
    }
}

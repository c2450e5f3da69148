//! Reductions: the accumulator of a thread, and the combination of the threads of a team.

use crate::scalar::{combines, neutral};
use crate::ssa::{Builder, MemoryRef, Scope, Val};
use crate::{CompareOp, DType, ReduceOp};

/// The index of a thread that has seen no element. No element has it.
const NO_INDEX: i64 = i64::MAX;

/// The accumulator of a reduction.
pub(super) struct Accumulator<'k> {
    k: &'k Builder,
    op: ReduceOp,
    /// The result so far, one for each lane.
    best: MemoryRef<'k>,
    /// The index of the result, for reductions that return it.
    index: Option<MemoryRef<'k>>,
    lanes: u8,
}

impl<'k> Accumulator<'k> {
    /// Creates an accumulator with the neutral element.
    pub(super) fn new(k: &'k Builder, op: ReduceOp, dtype: DType, lanes: u8) -> Self {
        let best = k.local("reduced", dtype, lanes.into());
        best.set(0, k.bits(dtype, neutral(op, dtype)).splat(lanes));
        let index = combines(op).is_none().then(|| {
            let index = k.local("place", DType::I64, lanes.into());
            index.set(0, k.constant(NO_INDEX).splat(lanes));
            index
        });
        Self {
            k,
            op,
            best,
            index,
            lanes,
        }
    }

    /// Adds element number `nth` of the row.
    pub(super) fn add(&self, value: Val<'k>, nth: Val<'k>) {
        let value = if value.of().lanes == self.lanes {
            value
        } else {
            value.splat(self.lanes)
        };
        let best = self.best.get_wide(0, self.lanes);
        if let Some(by) = combines(self.op) {
            self.best.set(0, best.binary(by, value));
        }
        let Some(index) = self.index else { return };
        let so_far = index.get_wide(0, self.lanes);
        let better = match self.op {
            ReduceOp::ArgMin => value.lt(best),
            _ => value.compare(CompareOp::Gt, best),
        };
        let none = so_far.eq(self.k.constant(NO_INDEX).splat(self.lanes));
        let nan = is_nan(value) & !is_nan(best);
        let taken = better | nan | none;
        self.best.set(0, taken.select(value, best));
        index.set(0, taken.select(nth.splat(self.lanes), so_far));
    }

    /// Returns the result of all threads of the team, known to all of them; without a team, of this thread.
    pub(super) fn result(&self, team: Option<Scope>) -> Val<'k> {
        let together = |value: Val<'k>, op| match team {
            None => value,
            Some(Scope::Cube) => value.reduce(op),
            Some(Scope::Row) => value.reduce_row(op),
        };
        let best = self.best.get_wide(0, self.lanes);
        let Some(index) = self.index else {
            return together(best, self.op);
        };
        let index = index.get_wide(0, self.lanes);
        let none = self.k.constant(NO_INDEX).splat(self.lanes);
        let found = match team {
            None => index,
            Some(_) => {
                let op = match self.op {
                    ReduceOp::ArgMin => ReduceOp::Min,
                    _ => ReduceOp::Max,
                };
                let all = together(best, op);
                // The first index with the best value. NaN equals nothing, itself included.
                let has = best.eq(all) | (is_nan(best) & is_nan(all));
                together(has.select(index, none), ReduceOp::Min)
            }
        };
        let zero = self.k.constant(0).splat(self.lanes);
        found.eq(none).select(zero, found)
    }
}

fn is_nan(value: Val<'_>) -> Val<'_> {
    value.compare(CompareOp::Ne, value)
}

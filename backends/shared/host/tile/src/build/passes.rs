//! Builds the passes over the inner axes: what each computes for every element, and what it folds.

use millstream_ir::ReduceOp;
use millstream_ir::nest::{Op, Store, ValueId};

use super::{Builder, Class};
use crate::kernels::place;
use crate::kernels::reduce::Reducer;
use crate::plan::{DirectFold, Pass};
use crate::prepare_error::{CompileError, unsupported};
use crate::slot::SlotId;

/// The accumulator of a reduction.
pub(super) struct Accumulator {
    /// The reduction, its operation and its operand.
    pub(super) value: usize,
    pub(super) op: ReduceOp,
    pub(super) of: ValueId,
    pub(super) reducer: Reducer,
    pub(super) slot: SlotId,
    /// The best element, if the accumulator is an index.
    best: SlotId,
}

impl Builder<'_> {
    /// Builds one pass: its body, its reductions, and what follows from them.
    pub(super) fn pass(&mut self, pass: usize) -> Result<(), CompileError> {
        self.now = pass;
        let mut made = Pass::default();
        let is_last = pass + 1 == self.shape.passes;
        let (nest, shape) = (self.nest, self.shape);
        let reductions = shape.reductions_of(nest, pass);
        let accumulators = reductions.map(|value| self.accumulator(value));
        let accumulators = accumulators.collect::<Result<Vec<_>, _>>()?;
        made.begin = std::mem::take(&mut self.code);

        self.in_body = true;
        let stores = nest.stores.iter();
        let stores = stores.filter(|store| is_last && self.is_in_body(store.level));
        let stored: Vec<ValueId> = stores.flat_map(Store::values).collect();
        let mut roots = stored.clone();
        roots.extend(accumulators.iter().map(|accumulator| accumulator.of));
        let body = self.body_values(&roots);
        if is_last {
            self.body_targets(&body);
        }
        self.body(&body, &accumulators, &stored)?;
        if is_last {
            self.body_stores()?;
        }
        if stored.is_empty() {
            made.direct_fold = self.direct_fold(&accumulators, &body);
        }
        made.body = std::mem::take(&mut self.code);
        made.inputs = std::mem::take(&mut self.inputs);
        made.prefetches = std::mem::take(&mut self.prefetches);
        self.directs.clear();
        self.forget(&body);

        self.in_body = false;
        for Accumulator {
            value,
            reducer,
            slot,
            ..
        } in accumulators
        {
            let d = self.outer_register(nest.values[value].dtype.size());
            self.places[value] = Some(d);
            let zero = self.slots.scalar(0);
            self.push(reducer.end, d, slot, zero, slot, self.rows_are_uniform());
        }
        self.outer_values(pass + 1)?;
        made.end = std::mem::take(&mut self.code);
        self.plan.passes.push(made);
        Ok(())
    }

    /// Emits the values of a body, and their folds. `stored`: the values that stores and scatters take.
    fn body(
        &mut self,
        body: &[ValueId],
        accumulators: &[Accumulator],
        stored: &[ValueId],
    ) -> Result<(), CompileError> {
        let nest = self.nest;
        let parts = self.parts(body, accumulators);
        let order: Vec<ValueId> = parts.iter().flat_map(|part| part.values.clone()).collect();
        let mut left: Vec<&Accumulator> = accumulators.iter().collect();
        let mut last_use = self.last_uses(&order);
        // A loop may fold values of parts before it.
        let folded = parts.iter().any(|part| part.fuses).then_some(accumulators);
        let folded = folded.into_iter().flatten().map(|fold| &fold.of);
        for value in stored.iter().chain(folded) {
            last_use[usize::from(*value)] = usize::MAX;
        }
        let mut position = 0;
        for (number, part) in parts.iter().enumerate() {
            let users = order.iter().filter(|id| !part.values.contains(id));
            let used = users.flat_map(|id| nest.values[usize::from(*id)].op.operands().to_vec());
            let needed: Vec<ValueId> = used.chain(stored.iter().copied()).collect();
            let is_fused = part.fuses && self.fuse(&part.values, &mut left, &needed);
            let is_last = !parts[number + 1..].iter().any(|part| part.fuses);
            for &value in &part.values {
                if !is_fused {
                    self.value(value)?;
                }
                if is_last {
                    self.fold(&mut left)?;
                }
                self.free_after(position, value, &last_use);
                position += 1;
            }
        }
        self.fold(&mut left)
    }

    /// Returns the fold of an input, if the pass does nothing else.
    fn direct_fold(&self, accumulators: &[Accumulator], body: &[ValueId]) -> Option<DirectFold> {
        let ([accumulator], [input]) = (accumulators, &self.inputs[..]) else {
            return None;
        };
        let (of, reducer) = (accumulator.of, &accumulator.reducer);
        let slot = self.plan.inputs[usize::from(*input)].slot;
        let run = match self.rows_are_uniform() {
            true => reducer.long_row,
            false => reducer.stack,
        };
        let is_read = self.places[usize::from(of)] == Some(slot) && !self.is_uniform(of);
        (body == [of] && is_read).then_some(DirectFold {
            run: run?,
            accumulator: accumulator.slot,
            input: *input,
        })
    }

    /// Allocates the accumulator of a reduction, and emits what begins it.
    fn accumulator(&mut self, value: usize) -> Result<Accumulator, CompileError> {
        let Op::Reduce(op, of) = self.nest.values[value].op else {
            return Err(unsupported(self.nest, value));
        };
        let dtype = self.nest.values[usize::from(of)].dtype;
        let reducer = crate::kernels::reducer(op, dtype, self.level);
        let reducer = reducer.ok_or_else(|| unsupported(self.nest, value))?;
        let slot = self.outer_register(reducer.accumulator_bytes);
        let best = match reducer.is_index {
            true => self.outer_register(dtype.size()),
            false => slot,
        };
        let neutral = self.slots.scalar(reducer.neutral);
        let run = place::fill(reducer.accumulator_bytes, self.level);
        self.push(
            run,
            slot,
            neutral,
            neutral,
            neutral,
            self.rows_are_uniform(),
        );
        Ok(Accumulator {
            value,
            op,
            of,
            reducer,
            slot,
            best,
        })
    }

    /// Returns the values that a pass computes for each element, in order.
    fn body_values(&self, roots: &[ValueId]) -> Vec<ValueId> {
        // Retained values, and values computed once a row, exist already.
        let is_new =
            |index: usize| self.shape.class[index] == Class::Inner && self.places[index].is_none();
        // The index of a gather in runs is not computed.
        let is_computed = |index: usize| is_new(index) && !self.is_in_runs(index as ValueId);
        let needed = self.nest.needed(roots.iter().copied(), is_computed);
        let body = (0..needed.len()).filter(|index| needed[*index] && is_new(*index));
        body.map(|index| index as ValueId).collect()
    }

    /// Returns for each value the position in `body` after which it is unused.
    fn last_uses(&self, body: &[ValueId]) -> Vec<usize> {
        let mut last = vec![0; self.nest.values.len()];
        for (position, value) in body.iter().enumerate() {
            last[usize::from(*value)] = position;
            for operand in self.nest.values[usize::from(*value)].op.operands().iter() {
                last[usize::from(*operand)] = position;
            }
        }
        last
    }

    /// Frees the registers last used at this position: those of the operands, or of the value itself.
    fn free_after(&mut self, position: usize, value: ValueId, last: &[usize]) {
        let operands = self.nest.values[usize::from(value)].op.operands();
        for id in operands.iter().copied().chain([value]).map(usize::from) {
            if last[id] == position
                && let Some(slot) = self.places[id]
            {
                self.slots.free(slot);
            }
        }
    }

    /// Removes the slots of the pass's values, except retained ones.
    fn forget(&mut self, body: &[ValueId]) {
        for &value in body {
            if !self.is_retained(value) {
                self.places[usize::from(value)] = None;
            }
        }
        self.slots.free_all();
    }

    /// Emits the folds whose operands exist, and removes them.
    fn fold(&mut self, left: &mut Vec<&Accumulator>) -> Result<(), CompileError> {
        let exists = |fold: &mut &Accumulator| self.places[usize::from(fold.of)].is_some();
        let ready: Vec<&Accumulator> = left.extract_if(.., exists).collect();
        for accumulator in ready {
            let a = self.lanes_of(accumulator.of)?;
            let run = match self.rows_are_uniform() {
                true => accumulator.reducer.row,
                false => accumulator.reducer.lanes,
            };
            let position = self.slots.position();
            self.push(run, accumulator.slot, a, accumulator.best, position, false);
        }
        Ok(())
    }
}

//! Builds the passes over the inner axes: what each computes for every element, and what it folds.

use millstream_ir::nest::{Op, Store, ValueId};

use super::fusing::{Arranged, Reduces};
use super::{Builder, target_of};
use crate::compile_error::{CompileError, unsupported};
use crate::kernels::place;
use crate::kernels::reduce::Reducer;
use crate::plan::{Accumulator, DirectFold, Pass};

impl Builder<'_> {
    /// Builds one pass: its body, its reductions, and what follows from them.
    pub(super) fn pass(&mut self, pass: usize) -> Result<(), CompileError> {
        self.now = pass;
        let mut made = Pass::default();
        let is_last = pass + 1 == self.shape.passes;
        let (nest, shape) = (self.nest, self.shape);
        let reduces: Vec<usize> = shape.reductions_of(nest, pass).collect();
        for &value in &reduces {
            made.accumulators.push(self.accumulator(value)?);
        }
        for accumulator in &made.accumulators {
            let Reducer {
                neutral,
                accumulator_bytes,
                ..
            } = accumulator.reducer;
            let neutral = self.slots.scalar(neutral);
            let run = place::fill(accumulator_bytes, self.level);
            let is_uniform = self.rows_are_uniform();
            self.push(run, accumulator.slot, neutral, neutral, neutral, is_uniform);
        }
        made.begin = std::mem::take(&mut self.code);

        self.in_body = true;
        let stores = nest.stores.iter();
        let stores = stores.filter(|store| is_last && self.is_in_body(store.level));
        let stored: Vec<ValueId> = stores.flat_map(Store::values).collect();
        let mut roots = stored.clone();
        for &value in &reduces {
            roots.extend(nest.values[value].op.operands().iter());
        }
        let body = self.body_values(&roots);
        let Arranged { body, fused } = self.arranged(body, &roots, &reduces);
        let mut last_use = self.last_uses(&body);
        for value in &stored {
            last_use[usize::from(*value)] = usize::MAX;
        }
        let directs = if is_last {
            self.body_targets(&body)
        } else {
            Vec::new()
        };
        let start = fused.as_ref().map_or(0, |fused| fused.start);
        let (early, inside) = body.split_at(start);
        for &value in &reduces {
            // The loop may fold values that are computed before it, so they stay in use.
            let of = nest.values[value].op.operands();
            for of in of.iter().filter(|of| early.contains(of)) {
                last_use[usize::from(*of)] = usize::MAX;
            }
        }
        let mut folded = Vec::new();
        for position in 0..=body.len() {
            if position == start {
                if let Some(fused) = &fused {
                    let reduces = Reduces {
                        values: &reduces,
                        accumulators: &made.accumulators,
                        stored: &stored,
                    };
                    folded = self.fuse(&body, fused.clone(), &reduces, &directs)?;
                }
                // Values that existed before the loop.
                let folds = |by: usize, of: ValueId| !inside.contains(&of) && !folded.contains(&by);
                self.fold(&made.accumulators, &reduces, folds)?;
            }
            let Some(&value) = body.get(position) else {
                break;
            };
            if !fused
                .as_ref()
                .is_some_and(|fused| fused.contains(&position))
            {
                self.value(value, target_of(&directs, value))?;
            }
            let folds =
                |by: usize, of: ValueId| position >= start && of == value && !folded.contains(&by);
            self.fold(&made.accumulators, &reduces, folds)?;
            self.free_after(position, value, &last_use);
        }
        if is_last {
            self.body_stores(&directs)?;
        }
        if stored.is_empty() {
            made.direct_fold = self.direct_fold(&made, &body, &reduces);
        }
        made.body = std::mem::take(&mut self.code);
        made.inputs = std::mem::take(&mut self.inputs);
        made.prefetches = std::mem::take(&mut self.prefetches);
        self.forget(&body);

        self.in_body = false;
        for (accumulator, &value) in made.accumulators.iter().zip(&reduces) {
            let size = nest.values[value].dtype.size();
            let d = self.outer_register(size);
            self.places[value] = Some(d);
            let (slot, is_uniform) = (accumulator.slot, self.rows_are_uniform());
            let zero = self.slots.scalar(0);
            self.push(accumulator.reducer.end, d, slot, zero, slot, is_uniform);
        }
        self.outer_values(pass + 1)?;
        made.end = std::mem::take(&mut self.code);
        self.plan.passes.push(made);
        Ok(())
    }

    /// Returns the fold of an input, if the pass does nothing else.
    fn direct_fold(&self, made: &Pass, body: &[ValueId], reduces: &[usize]) -> Option<DirectFold> {
        let ([value], [accumulator], [input]) = (reduces, &made.accumulators[..], &self.inputs[..])
        else {
            return None;
        };
        let Op::Reduce(_, of) = self.nest.values[*value].op else {
            return None;
        };
        let slot = self.plan.inputs[usize::from(*input)].slot;
        let reducer = &accumulator.reducer;
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

    fn accumulator(&mut self, value: usize) -> Result<Accumulator, CompileError> {
        let Op::Reduce(op, of) = self.nest.values[value].op else {
            return Err(unsupported(self.nest, value));
        };
        let dtype = self.nest.values[usize::from(of)].dtype;
        let reducer = crate::kernels::reducers::reducer(op, dtype, self.level);
        let reducer = reducer.ok_or_else(|| unsupported(self.nest, value))?;
        let slot = self.outer_register(reducer.accumulator_bytes);
        let best = if reducer.is_index {
            self.outer_register(dtype.size())
        } else {
            slot
        };
        Ok(Accumulator {
            reducer,
            slot,
            best,
        })
    }

    /// Returns the values that a pass computes for each element, in order.
    fn body_values(&self, roots: &[ValueId]) -> Vec<ValueId> {
        // Retained values, and values computed once a row, exist already.
        let is_new = |index: usize| {
            self.shape.class[index] == self.body_class() && self.places[index].is_none()
        };
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

    /// Emits the folds of values into the accumulators of their reductions.
    fn fold(
        &mut self,
        accumulators: &[Accumulator],
        reduces: &[usize],
        folds: impl Fn(usize, ValueId) -> bool,
    ) -> Result<(), CompileError> {
        for (accumulator, &reduce) in accumulators.iter().zip(reduces) {
            let Op::Reduce(_, of) = self.nest.values[reduce].op else {
                continue;
            };
            if !folds(reduce, of) {
                continue;
            }
            let a = self.lanes_of(of)?;
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

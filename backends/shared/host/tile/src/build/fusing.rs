//! Chooses the values of a body that become one loop of machine code.
//!
//! The body is split into three parts: values that need nothing of the loop, the loop, and values that need something
//! of it. Values that machine code does not support run before or after the loop, tile by tile.

use std::ops::Range;

use millstream_ir::nest::ValueId;

use super::Builder;
use crate::compile_error::CompileError;
use crate::plan::Accumulator;

/// A body in the order of its computation.
pub(super) struct Arranged {
    pub(super) body: Vec<ValueId>,
    /// The part that may become one loop; an empty part only folds.
    pub(super) fused: Option<Range<usize>>,
}

/// The reductions and stores of a pass.
pub(super) struct Reduces<'a> {
    /// The reductions.
    pub(super) values: &'a [usize],
    pub(super) accumulators: &'a [Accumulator],
    /// The values that stores and scatters take.
    pub(super) stored: &'a [ValueId],
}

#[cfg(not(all(feature = "machine-code", target_arch = "x86_64")))]
impl Builder<'_> {
    pub(super) fn arranged(&self, body: Vec<ValueId>, _: &[ValueId], _: &[usize]) -> Arranged {
        Arranged { body, fused: None }
    }

    pub(super) fn fuse(
        &mut self,
        _: &[ValueId],
        _: Range<usize>,
        _: &Reduces<'_>,
        _: &[(ValueId, usize)],
    ) -> Result<Vec<usize>, CompileError> {
        Ok(Vec::new())
    }
}

#[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
mod here {
    use std::sync::Arc;

    use millstream_ir::nest::{Level, Op, Stride};
    use millstream_ir::{DType, ReduceOp};

    use super::*;
    use crate::build::target_of;
    use crate::compile_error::unsupported;
    use crate::fuse::{self, Fused, Node, NodeId, PrefetchKind, Recipe};
    use crate::plan::{InputKind, Instruction, Prefetch, Scope, Template};
    use crate::slot::SlotId;

    /// A loop with fewer operations is not worth machine code, unless it folds.
    const OPERATIONS_MIN: usize = 2;

    impl Builder<'_> {
        /// Moves the values that can be fused next to each other.
        pub(in crate::build) fn arranged(
            &self,
            body: Vec<ValueId>,
            roots: &[ValueId],
            reduces: &[usize],
        ) -> Arranged {
            if !self.way.fuses || !fuse::is_for(self.level) {
                return Arranged { body, fused: None };
            }
            let mut fits = vec![false; self.nest.values.len()];
            for &id in &body {
                fits[usize::from(id)] = self.can_be_fused(id);
            }
            let mut runs_after;
            loop {
                let before = fits.clone();
                self.keep_masks_inside(&body, roots, &mut fits);
                runs_after = self.split_late(&body, &mut fits);
                if fits == before {
                    break;
                }
            }
            if !self.is_worth_it(&body, &fits, reduces) {
                return Arranged { body, fused: None };
            }
            let of = |wanted: fn(bool, bool) -> bool| {
                let flags =
                    |id: &&ValueId| wanted(fits[usize::from(**id)], runs_after[usize::from(**id)]);
                body.iter().filter(flags).copied().collect::<Vec<_>>()
            };
            let mut arranged = of(|fits, runs_after| !fits && !runs_after);
            let start = arranged.len();
            arranged.extend(of(|fits, _| fits));
            let end = arranged.len();
            arranged.extend(of(|fits, runs_after| !fits && runs_after));
            Arranged {
                body: arranged,
                fused: Some(start..end),
            }
        }

        /// Marks the values that need something of the loop without being part of it, and all values that need those:
        /// they run after the loop. Returns them.
        fn split_late(&self, body: &[ValueId], fits: &mut [bool]) -> Vec<bool> {
            let mut runs_after = vec![false; fits.len()];
            for &id in body {
                let index = usize::from(id);
                let operands = self.nest.values[index].op.operands();
                let mut of = operands.iter().map(|operand| usize::from(*operand));
                runs_after[index] =
                    of.any(|operand| runs_after[operand] || (fits[operand] && !fits[index]));
                fits[index] &= !runs_after[index];
            }
            runs_after
        }

        fn is_worth_it(&self, body: &[ValueId], fits: &[bool], reduces: &[usize]) -> bool {
            let operations = body.iter().filter(|id| fits[usize::from(**id)]);
            let folds = reduces.iter().filter_map(|value| self.foldable(*value));
            operations.count() >= OPERATIONS_MIN || folds.count() > 0
        }

        /// Returns the operation and the operand of a reduction, if the loop can compute it once its operand is known.
        fn foldable(&self, value: usize) -> Option<(ReduceOp, ValueId)> {
            let Op::Reduce(op, of) = self.nest.values[value].op else {
                return None;
            };
            let is_f32 = self.nest.values[usize::from(of)].dtype == DType::F32;
            let can = self.rows_are_uniform() && is_f32 && fuse::has_fold(op);
            (can && !self.is_uniform(of)).then_some((op, of))
        }

        fn can_be_fused(&self, id: ValueId) -> bool {
            let value = &self.nest.values[usize::from(id)];
            let dtype = |id: ValueId| self.nest.values[usize::from(id)].dtype;
            let does = match value.op {
                Op::Unary(op, _) => fuse::has_unary(op),
                Op::Binary(op, ..) => fuse::has_binary(op),
                Op::Compare(_, a, _) => return !self.is_uniform(id) && dtype(a) == DType::F32,
                // `keep_masks_inside` checks its condition.
                Op::Select(..) => true,
                _ => false,
            };
            does && value.dtype == DType::F32 && !self.is_uniform(id)
        }

        /// Comparisons stay in mask registers: only selections of the loop may use them, and such selections need a
        /// comparison of the loop.
        fn keep_masks_inside(&self, body: &[ValueId], roots: &[ValueId], fits: &mut [bool]) {
            let values = &self.nest.values;
            let is_mask = |id: usize| values[id].dtype == DType::Bool;
            for &id in body {
                let index = usize::from(id);
                match values[index].op {
                    Op::Select(condition, ..) => fits[index] &= fits[usize::from(condition)],
                    Op::Compare(..) => {
                        fits[index] &= !roots.contains(&id) && !self.is_retained(id);
                    }
                    _ => {}
                }
            }
            let outside: Vec<ValueId> = body
                .iter()
                .copied()
                .filter(|id| !fits[usize::from(*id)])
                .collect();
            for id in outside {
                for operand in values[usize::from(id)].op.operands().iter() {
                    let operand = usize::from(*operand);
                    fits[operand] &= !is_mask(operand);
                }
            }
        }

        /// Emits the loop, or its values one by one if it cannot be compiled. Returns the reductions that the loop
        /// folds.
        pub(in crate::build) fn fuse(
            &mut self,
            body: &[ValueId],
            fused: Range<usize>,
            reduces: &Reduces<'_>,
            directs: &[(ValueId, usize)],
        ) -> Result<Vec<usize>, CompileError> {
            // All folds, which take registers of their own, or none: a part of them gains nothing. An attempt that fails
            // leaves nothing behind.
            for folds in [usize::MAX, 0] {
                let before = (
                    self.slots.clone(),
                    self.places.clone(),
                    self.prefetches.len(),
                );
                let folded = self.fuse_with(body, fused.clone(), reduces, directs, folds)?;
                if let Some(folded) = folded {
                    return Ok(folded);
                }
                (self.slots, self.places) = (before.0, before.1);
                self.prefetches.truncate(before.2);
            }
            for &id in &body[fused] {
                self.value(id, target_of(directs, id))?;
            }
            Ok(Vec::new())
        }

        /// Emits the loop, and returns the reductions that it folds, at most `folds`; `None` if it cannot be compiled.
        fn fuse_with(
            &mut self,
            body: &[ValueId],
            fused: Range<usize>,
            reduces: &Reduces<'_>,
            directs: &[(ValueId, usize)],
            folds: usize,
        ) -> Result<Option<Vec<usize>>, CompileError> {
            let inside = &body[fused.clone()];
            let mut recipe = Recipe::default();
            let mut nodes: Vec<Option<NodeId>> = vec![None; self.nest.values.len()];
            for &id in inside {
                let op = &self.nest.values[usize::from(id)].op;
                let mut of = |id: ValueId| self.node_of(id, &mut recipe, &mut nodes);
                let node = match *op {
                    Op::Unary(op, a) => Node::Unary(op, of(a)?),
                    Op::Binary(op, a, b) => Node::Binary(op, of(a)?, of(b)?),
                    Op::Compare(op, a, b) => Node::Compare(op, of(a)?, of(b)?),
                    Op::Select(condition, a, b) => Node::Select(of(condition)?, of(a)?, of(b)?),
                    _ => return Err(unsupported(self.nest, usize::from(id))),
                };
                nodes[usize::from(id)] = Some(push_node(&mut recipe, node));
            }
            let mut folded = Vec::new();
            for (&value, accumulator) in reduces.values.iter().zip(reduces.accumulators) {
                let Some((op, of)) = self.foldable(value) else {
                    continue;
                };
                let index = usize::from(of);
                let is_there = nodes[index].is_some() || self.places[index].is_some();
                if folded.len() < folds && is_there {
                    let node = self.node_of(of, &mut recipe, &mut nodes)?;
                    // Two scalars of eight bytes have room for the partial results.
                    let partials = self.slots.scalar(0);
                    self.slots.scalar(0);
                    recipe.folds.push((op, node, partials));
                    folded.push((value, accumulator));
                }
            }
            let is_folded = |value: &usize| folded.iter().any(|(of, _)| of == value);
            let outside = body.iter().enumerate();
            let outside = outside.filter(|(at, _)| !fused.contains(at));
            let mut needed: Vec<ValueId> = outside
                .flat_map(|(_, id)| self.nest.values[usize::from(*id)].op.operands().to_vec())
                .collect();
            needed.extend(reduces.stored);
            for value in reduces.values.iter().filter(|value| !is_folded(value)) {
                needed.extend(self.nest.values[*value].op.operands().iter());
            }
            let mut is_direct = true;
            for &id in inside {
                if needed.contains(&id) || self.is_retained(id) {
                    let target = target_of(directs, id);
                    is_direct &= target.is_some();
                    let slot = self.destination(id, false, target);
                    let node = nodes[usize::from(id)].unwrap_or_default();
                    recipe.outputs.push((node, slot));
                }
            }
            // The streaming loop is only worthwhile if everything is stored directly. Several buffers are streamed
            // only if the loop is light: otherwise the processor evicts half-written lines of one buffer while it
            // computes the other (`exp(x)` and `x + 1` of 16 M took 19 ms instead of 10).
            recipe.may_stream = self.plan.template == Template::Flat
                && is_direct
                && (recipe.outputs.len() == 1 || fuse::is_light(&recipe));
            recipe.prefetched = self.prefetched(fuse::is_light(&recipe));
            let partials: Vec<_> = recipe.folds.iter().map(|(_, _, slot)| *slot).collect();
            let Some(code) = Fused::compile(recipe, self.level) else {
                return Ok(None);
            };
            self.code.push(Instruction::Fused(Arc::new(code)));
            self.plan.is_fused = true;
            for ((_, accumulator), partials) in folded.iter().zip(partials) {
                let (run, slot) = (accumulator.reducer.partials, accumulator.slot);
                self.push(run, slot, partials, slot, slot, true);
            }
            Ok(Some(folded.into_iter().map(|(value, _)| value).collect()))
        }

        /// Returns what a loop over a row prefetches, because a row is computed faster than its memory arrives: the
        /// lines written next, and the lines read in the next row. The last pass but one prefetches if it computes
        /// enough to hide the cost; otherwise the last pass, which waits for memory anyway, prefetches the reads.
        fn prefetched(&mut self, is_light: bool) -> Vec<(PrefetchKind, SlotId)> {
            let passes = self.shape.passes;
            let is_before = !is_light && self.now + 2 == passes;
            let has_fetched = self
                .plan
                .passes
                .iter()
                .any(|pass| !pass.prefetches.is_empty());
            let is_last = passes > 1 && self.now + 1 == passes && !has_fetched;
            if !self.rows_are_uniform() || !(is_before || is_last) {
                return Vec::new();
            }
            let nest = self.nest;
            let moves = |access: u16| {
                let access = &nest.accesses[usize::from(access)];
                let is_f32 = nest.buffers[usize::from(access.buffer)].dtype == DType::F32;
                let mut outer = access.strides.iter().take(nest.outer);
                is_f32 && outer.any(|stride| *stride != Stride::Zero)
            };
            let mut found = Vec::new();
            // The targets of the last pass are in this order.
            let stores = nest.stores.iter();
            let stores = stores.filter(|s| s.level == Level::Inner && s.scatter.is_none());
            for (index, store) in stores.enumerate() {
                if is_before && moves(store.access) {
                    found.push((PrefetchKind::Write, Prefetch::Target(index as u16)));
                }
            }
            let mut known = Vec::new();
            for (index, input) in self.plan.inputs.iter().enumerate() {
                if let InputKind::Elements(access) = input.kind
                    && input.scope == Scope::Inner
                    && moves(access)
                    && !known.contains(&access)
                {
                    known.push(access);
                    found.push((PrefetchKind::Read, Prefetch::Input(index as u16)));
                }
            }
            let mut prefetched = Vec::new();
            for (what, prefetch) in found {
                let slot = self.slots.placed();
                self.prefetches.push((prefetch, slot));
                prefetched.push((what, slot));
            }
            prefetched
        }

        /// Returns the node of a value, a new one if the value was computed before the loop.
        fn node_of(
            &self,
            id: ValueId,
            recipe: &mut Recipe,
            nodes: &mut [Option<NodeId>],
        ) -> Result<NodeId, CompileError> {
            let index = usize::from(id);
            if let Some(node) = nodes[index] {
                return Ok(node);
            }
            let slot = self.at(id)?;
            let node = push_node(
                recipe,
                match self.nest.values[index].op {
                    Op::Const(bits) => Node::Const(f32::from_bits(bits as u32)),
                    _ if self.is_uniform(id) => Node::Scalar(slot),
                    _ => Node::Lanes(slot),
                },
            );
            nodes[index] = Some(node);
            Ok(node)
        }
    }

    fn push_node(recipe: &mut Recipe, node: Node) -> NodeId {
        recipe.nodes.push(node);
        (recipe.nodes.len() - 1) as NodeId
    }
}

//! Chooses the values of a body that become loops of machine code.
//!
//! A body is split into parts of values that machine code supports and parts of others, which run tile by tile. A loop
//! also folds the reductions whose operands exist by then.

use millstream_ir::nest::ValueId;

use super::Builder;
use super::passes::Accumulator;

/// Values of a body that need only those before them.
pub(super) struct Part {
    pub(super) values: Vec<ValueId>,
    /// Whether they may become one loop.
    pub(super) fuses: bool,
}

#[cfg(not(all(feature = "machine-code", target_arch = "x86_64")))]
impl Builder<'_> {
    pub(super) fn parts(&self, body: &[ValueId], _: &[Accumulator]) -> Vec<Part> {
        vec![Part {
            values: body.to_vec(),
            fuses: false,
        }]
    }

    pub(super) fn fuse(&mut self, _: &[ValueId], _: &mut Vec<&Accumulator>, _: &[ValueId]) -> bool {
        false
    }
}

#[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
mod here {
    use std::sync::Arc;

    use millstream_ir::DType;
    use millstream_ir::nest::{Level, Op, Stride, Value};

    use super::*;
    use crate::fuse::{self, Fused, Node, PrefetchKind, Recipe};
    use crate::plan::{InputKind, Instruction, Prefetch, Scope};
    use crate::slot::SlotId;

    /// A loop with fewer operations is not worth machine code, unless it folds.
    const OPERATIONS_MIN: usize = 2;

    impl Builder<'_> {
        /// Splits a body into as few parts as possible, of values that can be fused and of others in turn.
        pub(in crate::build) fn parts(
            &self,
            body: &[ValueId],
            accumulators: &[Accumulator],
        ) -> Vec<Part> {
            let mut is_pending = vec![false; self.nest.values.len()];
            for &id in body {
                is_pending[usize::from(id)] = true;
            }
            let (mut parts, mut left) = (Vec::new(), body.to_vec());
            let mut fuses = false;
            while !left.is_empty() {
                let mut values = Vec::new();
                left.retain(|&id| {
                    let operands = self.nest.values[usize::from(id)].op.operands();
                    let waits = operands.iter().any(|of| is_pending[usize::from(*of)]);
                    let is_next = !waits && self.can_be_fused(id) == fuses;
                    if is_next {
                        is_pending[usize::from(id)] = false;
                        values.push(id);
                    }
                    !is_next
                });
                let folds =
                    |fold: &Accumulator| self.can_be_folded(fold) && values.contains(&fold.of);
                let is_worth_it = values.len() >= OPERATIONS_MIN || accumulators.iter().any(folds);
                parts.push(Part {
                    fuses: fuses && is_worth_it,
                    values,
                });
                fuses = !fuses;
            }
            // A loop without values still folds faster: one instruction takes the greater of two where tiles take several.
            let folds = accumulators.iter().any(|fold| self.can_be_folded(fold));
            if folds && self.has_machine_code() && !parts.iter().any(|part| part.fuses) {
                parts.push(Part {
                    values: Vec::new(),
                    fuses: true,
                });
            }
            parts
        }

        fn has_machine_code(&self) -> bool {
            self.way.fuses && fuse::is_for(self.level)
        }

        fn can_be_fused(&self, id: ValueId) -> bool {
            let value = &self.nest.values[usize::from(id)];
            let does = match value.op {
                Op::Unary(op, _) => fuse::has_unary(op),
                Op::Binary(op, ..) => fuse::has_binary(op),
                _ => false,
            };
            self.has_machine_code() && does && value.dtype == DType::F32 && !self.is_uniform(id)
        }

        /// Returns `true` if a loop can compute a reduction once its operand is known.
        fn can_be_folded(&self, fold: &Accumulator) -> bool {
            let is_f32 = self.nest.values[usize::from(fold.of)].dtype == DType::F32;
            let is_tile = self.rows_are_uniform() && !self.is_uniform(fold.of);
            is_tile && is_f32 && !fold.reducer.is_index
        }

        /// Emits the loop of a part. It also folds what it can, and removes that from `left`. Returns `false` if there is
        /// no loop. `needed`: the values that are needed outside of the part.
        pub(in crate::build) fn fuse(
            &mut self,
            part: &[ValueId],
            left: &mut Vec<&Accumulator>,
            needed: &[ValueId],
        ) -> bool {
            let exists = |of: ValueId| self.places[usize::from(of)].is_some() || part.contains(&of);
            let can = |fold: &&&Accumulator| self.can_be_folded(fold) && exists(fold.of);
            let folds: Vec<&Accumulator> = left.iter().filter(can).copied().collect();
            // All folds, which take registers of their own, or none: a part of them gains nothing. An attempt that fails
            // leaves nothing behind.
            for folds in [&folds[..], &[]] {
                if part.is_empty() && folds.is_empty() {
                    // A loop over nothing.
                    return false;
                }
                let before = (
                    self.slots.clone(),
                    self.places.clone(),
                    self.prefetches.len(),
                );
                let others: Vec<&Accumulator> = left.clone();
                let is_folded = |value| folds.iter().any(|fold| fold.value == value);
                left.retain(|fold| !is_folded(fold.value));
                let folded = left.iter().map(|fold| fold.of);
                let needed: Vec<ValueId> = folded.chain(needed.iter().copied()).collect();
                if self.fuse_with(part, folds, &needed) {
                    return true;
                }
                *left = others;
                (self.slots, self.places) = (before.0, before.1);
                self.prefetches.truncate(before.2);
            }
            false
        }

        /// Emits the loop of a part with these folds. Returns `false` if it cannot be compiled.
        fn fuse_with(
            &mut self,
            part: &[ValueId],
            folds: &[&Accumulator],
            needed: &[ValueId],
        ) -> bool {
            let is_inside = |index: usize| part.contains(&(index as ValueId));
            let roots = part.iter().copied().chain(folds.iter().map(|fold| fold.of));
            let used = self.nest.needed(roots, is_inside);
            let node = |(index, value): (usize, &Value)| match (&value.op, self.places[index]) {
                _ if !used[index] => Node::Unused,
                (Op::Unary(op, a), _) if is_inside(index) => Node::Unary(*op, *a),
                (Op::Binary(op, a, b), _) if is_inside(index) => Node::Binary(*op, *a, *b),
                (Op::Const(bits), _) => Node::Const(f32::from_bits(*bits as u32)),
                (_, Some(slot)) if self.is_uniform(index as ValueId) => Node::Scalar(slot),
                (_, Some(slot)) => Node::Lanes(slot),
                (_, None) => Node::Unused,
            };
            let mut recipe = Recipe {
                nodes: self.nest.values.iter().enumerate().map(node).collect(),
                ..Recipe::default()
            };
            for fold in folds {
                // Two scalars of eight bytes have room for the partial results.
                let partials = self.slots.scalar(0);
                self.slots.scalar(0);
                recipe.folds.push((fold.op, fold.of, partials));
            }
            let mut is_direct = true;
            for &id in part {
                if needed.contains(&id) || self.is_retained(id) {
                    is_direct &= self.target_of(id).is_some();
                    recipe.outputs.push((id, self.destination(id, false)));
                }
            }
            // The streaming loop is only worthwhile if everything is stored directly. Several buffers are streamed
            // only if the loop is light: otherwise the processor evicts half-written lines of one buffer while it
            // computes the other (`exp(x)` and `x + 1` of 16 M took 19 ms instead of 10).
            recipe.may_stream = self.nest.inner == 0
                && is_direct
                && (recipe.outputs.len() == 1 || fuse::is_light(&recipe));
            recipe.prefetched = self.prefetched(fuse::is_light(&recipe));
            let partials: Vec<_> = recipe.folds.iter().map(|(_, _, slot)| *slot).collect();
            let Some(code) = Fused::compile(recipe, self.level) else {
                return false;
            };
            self.code.push(Instruction::Fused(Arc::new(code)));
            self.plan.is_fused = true;
            for (fold, partials) in folds.iter().zip(partials) {
                let (run, slot) = (fold.reducer.partials, fold.slot);
                self.push(run, slot, partials, slot, slot, true);
            }
            true
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
    }
}

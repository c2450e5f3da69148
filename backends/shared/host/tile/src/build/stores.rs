//! Targets and stores of values.

use millstream_ir::nest::ValueId;

use super::{Builder, cost, moves};
use crate::plan::{Scope, Target};
use crate::prepare_error::CompileError;

impl Builder<'_> {
    /// Returns the target into which a value of the body is computed directly.
    pub(super) fn target_of(&self, value: ValueId) -> Option<usize> {
        let found = self.directs.iter().find(|(stored, _)| *stored == value);
        found.map(|(_, target)| *target)
    }

    /// Adds the targets of a body, and finds the values that are computed directly into them.
    pub(super) fn body_targets(&mut self, body: &[ValueId]) {
        let nest = self.nest;
        for store in &nest.stores {
            if store.scatter.is_some() || !self.is_in_body(store.level) {
                continue;
            }
            let (target, value) = (self.target(store.access, Scope::Inner, false), store.value);
            let is_computed = body.contains(&value) && !self.is_read(value);
            if is_computed && !self.is_uniform(value) && self.target_of(value).is_none() {
                self.directs.push((value, target));
            }
        }
    }

    fn target(&mut self, access: u16, scope: Scope, is_uniform: bool) -> usize {
        let buffer = self.nest.accesses[usize::from(access)].buffer;
        let size = self.nest.buffers[usize::from(buffer)].dtype.size();
        let slot = self.slots.placed();
        let staging = if is_uniform {
            self.slots.scalar(0)
        } else {
            self.slots.lasting(size)
        };
        self.plan.targets.push(Target {
            access,
            size,
            scope,
            is_uniform,
            slot,
            staging,
        });
        self.plan.targets.len() - 1
    }

    /// Emits the stores of each element that were not computed directly.
    pub(super) fn body_stores(&mut self) -> Result<(), CompileError> {
        let nest = self.nest;
        let mut target = 0;
        for (index, store) in nest.stores.iter().enumerate() {
            if !self.is_in_body(store.level) {
                continue;
            }
            if store.scatter.is_some() {
                self.scatter(index, false)?;
                continue;
            }
            if !self.directs.contains(&(store.value, target)) {
                self.store(store.value, target)?;
                self.set_direct_target(store.value, target);
            }
            target += 1;
        }
        Ok(())
    }

    /// An input of this body that is stored unchanged is loaded directly into its first target.
    fn set_direct_target(&mut self, value: ValueId, target: usize) {
        if self.is_uniform(value) {
            return;
        }
        for &input in &self.inputs {
            let input = &mut self.plan.inputs[usize::from(input)];
            if Some(input.slot) == self.places[usize::from(value)] {
                input.direct_target.get_or_insert(target as u16);
            }
        }
    }

    /// Emits the stores that happen once a row.
    pub(super) fn finish(&mut self) -> Result<(), CompileError> {
        let (nest, is_uniform) = (self.nest, self.rows_are_uniform());
        self.in_body = false;
        for (index, store) in nest.stores.iter().enumerate() {
            if self.is_in_body(store.level) {
                continue;
            }
            if store.scatter.is_some() {
                self.scatter(index, is_uniform)?;
            } else {
                let target = self.target(store.access, Scope::Outer, is_uniform);
                self.store(store.value, target)?;
            }
        }
        self.plan.row_stores = std::mem::take(&mut self.code);
        let slots = std::mem::take(&mut self.slots);
        let plan = &mut self.plan;
        (plan.slots, plan.scalars) = (slots.slots, slots.scalars);
        (plan.unit, plan.registers, plan.retained) = (slots.unit, slots.registers, slots.retained);
        (plan.cost, plan.moves) = (cost(plan), nest.inner == 0 && moves(plan));
        Ok(())
    }
}

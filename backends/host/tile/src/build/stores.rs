//! Where values are stored, and how.

use millstream_ir::nest::ValueId;

use super::{Builder, Unfit, cost, moves};
use crate::plan::{Scope, Target};

impl Builder<'_> {
    /// The stores of a body, and which values are computed right where they are stored.
    pub(super) fn body_targets(&mut self, body: &[ValueId]) -> Vec<(ValueId, usize)> {
        let mut directs: Vec<(ValueId, usize)> = Vec::new();
        let nest = self.nest;
        for store in &nest.stores {
            if store.scatter.is_some() || !self.is_in_body(store.level) {
                continue;
            }
            let target = self.target(store.access, Scope::Inner, false);
            let is_read = self.is_read(store.value);
            let is_taken = directs.iter().any(|(taken, _)| *taken == store.value);
            if body.contains(&store.value) && !is_read && !is_taken && !self.is_one(store.value) {
                directs.push((store.value, target));
            }
        }
        directs
    }

    fn target(&mut self, access: u16, scope: Scope, one: bool) -> usize {
        let buffer = self.nest.accesses[usize::from(access)].buffer;
        let size = self.nest.buffers[usize::from(buffer)].dtype.size();
        let slot = self.slots.placed();
        let home = if one {
            self.slots.scalar(0)
        } else {
            self.slots.lasting(size)
        };
        self.plan.targets.push(Target {
            access,
            size,
            scope,
            one,
            slot,
            home,
        });
        self.plan.targets.len() - 1
    }

    /// What is stored for each element and was not computed in its place.
    pub(super) fn body_stores(&mut self, directs: &[(ValueId, usize)]) -> Result<(), Unfit> {
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
            if !directs.contains(&(store.value, target)) {
                self.store(store.value, target)?;
                self.land(store.value, target);
            }
            target += 1;
        }
        Ok(())
    }

    /// A walk of this body that is stored as it is lands at its first target.
    fn land(&mut self, value: ValueId, target: usize) {
        if self.is_one(value) {
            return;
        }
        for &walk in &self.walks {
            let walk = &mut self.plan.walks[usize::from(walk)];
            if Some(walk.slot) == self.places[usize::from(value)] {
                walk.lands.get_or_insert(target as u16);
            }
        }
    }

    /// What is stored once a row.
    pub(super) fn finish(&mut self) -> Result<(), Unfit> {
        let (nest, one) = (self.nest, self.rows_are_one());
        self.in_body = false;
        for (index, store) in nest.stores.iter().enumerate() {
            if self.is_in_body(store.level) {
                continue;
            }
            if store.scatter.is_some() {
                self.scatter(index, one)?;
            } else {
                let target = self.target(store.access, Scope::Outer, one);
                self.store(store.value, target)?;
            }
        }
        self.plan.finish = std::mem::take(&mut self.code);
        let slots = std::mem::take(&mut self.slots);
        let plan = &mut self.plan;
        (plan.slots, plan.scalars) = (slots.slots, slots.scalars);
        (plan.unit, plan.registers, plan.kept) = (slots.unit, slots.registers, slots.kept);
        (plan.cost, plan.moves) = (cost(plan), moves(plan));
        Ok(())
    }
}

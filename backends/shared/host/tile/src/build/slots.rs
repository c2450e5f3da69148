//! Allocates slots and registers.

use crate::slot::{Slot, SlotId};

/// The slots of a plan under construction.
#[derive(Clone, Default)]
pub(super) struct Slots {
    pub(super) slots: Vec<Slot>,
    pub(super) scalars: Vec<u64>,
    pub(super) unit: u32,
    pub(super) registers: u32,
    pub(super) retained: u32,
    /// Free registers of a body, by size.
    free: [Vec<SlotId>; 4],
    /// Registers in use that can be freed: slot and size.
    used: Vec<(SlotId, usize)>,
}

impl Slots {
    fn push(&mut self, slot: Slot) -> SlotId {
        self.slots.push(slot);
        (self.slots.len() - 1) as SlotId
    }

    /// Allocates a scalar.
    pub(super) fn scalar(&mut self, bits: u64) -> SlotId {
        self.scalars.push(bits);
        self.push(Slot::Scalar((self.scalars.len() - 1) as u32))
    }

    /// Returns the slot of the position, which is the first slot.
    pub(super) fn position(&self) -> SlotId {
        0
    }

    /// Allocates a slot whose address changes.
    pub(super) fn placed(&mut self) -> SlotId {
        self.push(Slot::Placed)
    }

    /// Allocates a register that is never freed.
    pub(super) fn lasting(&mut self, size: usize) -> SlotId {
        let (unit, index) = (self.unit, self.registers);
        self.unit += size as u32;
        self.registers += 1;
        self.push(Slot::Register { unit, index })
    }

    /// Allocates a register that can be freed.
    pub(super) fn register(&mut self, size: usize) -> SlotId {
        let slot = match self.free[size.ilog2() as usize].pop() {
            Some(slot) => slot,
            None => self.lasting(size),
        };
        self.used.push((slot, size));
        slot
    }

    /// Allocates a retained value: one element for every element of a row.
    pub(super) fn retained(&mut self, size: usize) -> SlotId {
        let unit = self.retained;
        self.retained += size as u32;
        self.push(Slot::Retained {
            unit,
            size: size as u32,
        })
    }

    /// Frees the register of a slot, if it is one that can be freed.
    pub(super) fn free(&mut self, slot: SlotId) {
        if let Some(place) = self.used.iter().position(|(used, _)| *used == slot) {
            let (slot, size) = self.used.swap_remove(place);
            self.free[size.ilog2() as usize].push(slot);
        }
    }

    /// Frees all registers that can be freed.
    pub(super) fn free_all(&mut self) {
        for (slot, size) in std::mem::take(&mut self.used) {
            self.free[size.ilog2() as usize].push(slot);
        }
    }
}

//! Slots: where the instructions of a plan find tiles and scalars.

/// The index of a slot: where an instruction finds a tile or a scalar.
pub(crate) type SlotId = u16;

/// Where the memory of a slot lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// One of the scalars, eight bytes each.
    Scalar(u32),
    /// A register: the bytes a lane in front of it, and the number of registers in front of it.
    Register { unit: u32, index: u32 },
    /// As a register, with a part for each step.
    Retained { unit: u32, size: u32 },
    /// Wherever a walk or a store is right now.
    Placed,
}

//! Slots: the addresses of tiles and scalars.

/// The index of a slot.
pub(crate) type SlotId = u16;

/// The memory of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// One of the scalars, of eight bytes each.
    Scalar(u32),
    /// A register: the bytes per lane, and the number, of the registers before it.
    Register { unit: u32, index: u32 },
    /// As a register, with a part for each step.
    Retained { unit: u32, size: u32 },
    /// The current place of an input or a target.
    Placed,
}

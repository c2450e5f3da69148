//! The cube count of a launch, and the pattern of a fill.

use crate::element::Element;

/// The cube count of a launch.
// The order of the variants is their code in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum LaunchCount {
    /// A known count.
    Static([u32; 3]),
    /// The device reads the count from the last binding of the task.
    Dynamic,
}

impl LaunchCount {
    /// Returns `true` if the count is known to be zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        matches!(self, LaunchCount::Static(counts) if counts.contains(&0))
    }
}

/// The value that a fill repeats, of one, two, four or eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The value, in the low bytes, little endian.
    pub value: u64,
    /// The length in bytes.
    pub width: u8,
}

impl Pattern {
    /// Creates the pattern of one element.
    pub fn of<T: Element>(value: T) -> Self {
        let mut bytes = [0_u8; 8];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        Self {
            value: u64::from_le_bytes(bytes),
            width: size_of::<T>() as u8,
        }
    }

    /// Returns the bytes of the pattern, padded with zeros.
    pub fn bytes(&self) -> [u8; 8] {
        self.value.to_le_bytes()
    }

    /// Returns `true` if `len` bytes at `offset` consist of whole patterns.
    pub fn divides(&self, offset: u64, len: u64) -> bool {
        let width = u64::from(self.width);
        offset.is_multiple_of(width) && len.is_multiple_of(width)
    }
}

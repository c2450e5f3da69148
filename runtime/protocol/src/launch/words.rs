//! What launches and fills carry in their words.

use crate::element::Element;

/// The cube count of a launch in a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchCount {
    /// Known.
    Static([u32; 3]),
    /// In the last binding of the task.
    Dynamic,
}

impl LaunchCount {
    /// Whether it is known to be no cube at all.
    #[inline]
    pub fn is_zero(&self) -> bool {
        matches!(self, LaunchCount::Static(counts) if counts.contains(&0))
    }
}

/// A value of one, two, four or eight bytes that a fill repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The value, in the low bytes, little endian.
    pub value: u64,
    /// Its length in bytes.
    pub width: u8,
}

impl Pattern {
    /// The pattern of one element.
    pub fn of<T: Element>(value: T) -> Self {
        let mut bytes = [0_u8; 8];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        Self {
            value: u64::from_le_bytes(bytes),
            width: size_of::<T>() as u8,
        }
    }

    /// The pattern's bytes.
    pub fn bytes(&self) -> [u8; 8] {
        self.value.to_le_bytes()
    }

    /// Are `len` bytes at `offset` whole patterns?
    pub fn divides(&self, offset: u64, len: u64) -> bool {
        let width = u64::from(self.width);
        offset.is_multiple_of(width) && len.is_multiple_of(width)
    }
}

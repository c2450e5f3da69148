//! A short list that lies inside its owner.
//!
//! Unlike a general array vector it has its length in front, and creating, filling and copying it touch only the
//! cache lines in use: a task has 448 bytes, of which most launches use half.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use crate::element::Element;

/// A list of up to `N` plain values.
#[repr(C)]
pub struct Inline<T: Copy, const N: usize> {
    len: u32,
    items: [MaybeUninit<T>; N],
}

impl<T: Copy, const N: usize> Inline<T, N> {
    /// Creates an empty list.
    #[inline]
    pub const fn new() -> Self {
        Self {
            len: 0,
            items: [const { MaybeUninit::uninit() }; N],
        }
    }

    /// Adds `item`, or returns it in `Err` if the list is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.items.get_mut(self.len as usize) {
            Some(place) => {
                place.write(item);
                self.len += 1;
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Empties the list.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Copies the items of `other`, only those in use.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.set(other);
    }

    /// Sets the items of the list; items beyond `N` are ignored.
    #[inline]
    pub fn set(&mut self, items: &[T]) {
        let len = items.len().min(N);
        self.len = len as u32;
        // SAFETY: `len` items fit in both; they are initialized values of a plain type.
        unsafe { copy_few(items.as_ptr(), self.items.as_mut_ptr().cast(), len) }
    }
}

/// Copies `len` items. In parts of fixed lengths, which are a few instructions each: a copy of variable length is a call
/// that takes longer than a few items do.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy_few<T: Copy>(from: *const T, to: *mut T, len: usize) {
    // SAFETY: the parts lie one after the other within `len` items.
    unsafe {
        if len >= 16 {
            return std::ptr::copy_nonoverlapping(from, to, len);
        }
        let mut at = 0;
        macro_rules! part {
            ($($items:literal),*) => {$(
                if len & $items != 0 {
                    std::ptr::copy_nonoverlapping(from.add(at), to.add(at), $items);
                    at += $items;
                }
            )*};
        }
        part!(8, 4, 2);
        if len & 1 != 0 {
            to.add(at).write(from.add(at).read());
        }
    }
}

impl<T: Copy, const N: usize> Default for Inline<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy, const N: usize> Deref for Inline<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `push` and `set` have initialized the first `len` items.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast::<T>(), self.len as usize) }
    }
}

impl<T: Copy, const N: usize> DerefMut for Inline<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `self` is borrowed exclusively.
        unsafe {
            std::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast::<T>(), self.len as usize)
        }
    }
}

impl<T: Copy + std::fmt::Debug, const N: usize> std::fmt::Debug for Inline<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

// The cube count of a launch, and the pattern of a fill.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_list_returns_the_item() {
        let mut list = Inline::<u64, 2>::new();
        assert_eq!(
            (list.push(1), list.push(2), list.push(3)),
            (Ok(()), Ok(()), Err(3))
        );
        let mut copy = Inline::new();
        copy.copy_from(&list);
        assert_eq!(&*copy, [1, 2]);
        copy.set(&[7, 8, 9]);
        assert_eq!(&*copy, [7, 8]);
        copy.clear();
        assert!(copy.is_empty());
    }

    #[test]
    fn lists_of_every_length_are_copied() {
        let items: Vec<u64> = (1..=20).collect();
        for len in 0..=20 {
            let mut list = Inline::<u64, 20>::new();
            list.set(&items[..len]);
            let mut copy = Inline::new();
            copy.copy_from(&list);
            assert_eq!(&*copy, &items[..len]);
        }
    }
}

//! A short list that lies inside its owner.
//!
//! Unlike a general array vector it has its length in front, and creating, filling and copying it touch only the
//! cache lines in use: a task has 448 bytes, of which most launches use half.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

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
        if len > 0 {
            // SAFETY: `len` items fit in both; they are initialized values of a plain type.
            unsafe {
                let target = self.items.as_mut_ptr().cast::<T>();
                std::ptr::copy_nonoverlapping(items.as_ptr(), target, len);
            }
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
}

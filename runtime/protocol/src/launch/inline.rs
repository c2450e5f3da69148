//! A short list inside its owner. Unlike a general array vector its length lies in front, and
//! making, filling and copying one touch only the cache lines in use: a task is 448 bytes, of which
//! most launches use a half.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Up to `N` plain values.
#[repr(C)]
pub struct Inline<T: Copy, const N: usize> {
    len: u32,
    items: [MaybeUninit<T>; N],
}

impl<T: Copy, const N: usize> Inline<T, N> {
    /// An empty list.
    #[inline]
    pub const fn new() -> Self {
        Self {
            len: 0,
            items: [const { MaybeUninit::uninit() }; N],
        }
    }

    /// Adds `item`, or hands it back when the list is full.
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

    /// Makes this list equal to `other`, copying only what is in use.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.set(other);
    }

    /// Makes this list equal to `items`, of which those beyond `N` are left out.
    #[inline]
    pub fn set(&mut self, items: &[T]) {
        let len = items.len().min(N);
        self.len = len as u32;
        if len > 0 {
            // SAFETY: `len` is within both; initialized values of a plain type are copied.
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
        // SAFETY: the first `len` items are initialized, by `push` and `set`.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast::<T>(), self.len as usize) }
    }
}

impl<T: Copy, const N: usize> DerefMut for Inline<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is exclusive.
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
    fn a_full_list_hands_the_item_back() {
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

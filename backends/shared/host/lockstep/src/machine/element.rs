//! One element of memory: plain, or a relaxed atomic.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// The bits of an element.
pub(super) trait Element: Copy + Default {
    /// Reads an element: atomically if `SHARED`.
    ///
    /// # Safety
    /// It is within live, aligned memory, which other threads access by atomics only if `SHARED`, and not at all otherwise.
    unsafe fn load<const SHARED: bool>(from: *const Self) -> Self;

    /// Returns the bits as a word.
    fn word(self) -> u64;

    /// Writes an element: atomically if `SHARED`.
    ///
    /// # Safety
    /// As for [`Element::load`].
    unsafe fn store<const SHARED: bool>(self, to: *mut Self);
}

macro_rules! elements {
    ($($t:ty => $atomic:ty),*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn word(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            unsafe fn load<const SHARED: bool>(from: *const Self) -> Self {
                // SAFETY: the caller's promises.
                unsafe {
                    match SHARED {
                        true => <$atomic>::from_ptr(from.cast_mut()).load(Relaxed),
                        false => *from,
                    }
                }
            }

            #[inline(always)]
            unsafe fn store<const SHARED: bool>(self, to: *mut Self) {
                // SAFETY: the caller's promises.
                unsafe {
                    match SHARED {
                        true => <$atomic>::from_ptr(to).store(self, Relaxed),
                        false => *to = self,
                    }
                }
            }
        }
    )*};
}

elements! { u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64 }

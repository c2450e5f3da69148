//! A slot of the ring that a producer has reserved. Nothing is claimed or published here.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A slot that a producer has reserved, to write a message to.
#[derive(Debug)]
#[must_use = "messages behind it are not received until it is committed"]
pub struct Reserved<T> {
    value: NonNull<MaybeUninit<T>>,
    pub(super) position: u64,
}

impl<T> Reserved<T> {
    pub(super) fn new(value: NonNull<MaybeUninit<T>>, position: u64) -> Self {
        Self { value, position }
    }

    /// Where the message goes. It is the producer's alone until it is committed, and lives as long as a sender of the mailbox.
    #[inline]
    pub fn as_ptr(&self) -> *mut MaybeUninit<T> {
        self.value.as_ptr()
    }

    /// Where the message goes, and its position.
    #[inline(always)]
    pub fn into_parts(self) -> (NonNull<MaybeUninit<T>>, u64) {
        (self.value, self.position)
    }

    /// The slot of these parts.
    ///
    /// # Safety
    /// They come from [`Self::into_parts`], and are made a slot once.
    #[inline(always)]
    pub unsafe fn from_parts(value: NonNull<MaybeUninit<T>>, position: u64) -> Self {
        Self { value, position }
    }
}

//! A claimed slot, to which its producer writes a message. Claiming and publishing are in `ring`.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// A claimed slot, to which its producer writes a message.
#[derive(Debug)]
#[must_use = "later messages are not received before this one is committed"]
pub struct Reserved<T> {
    value: NonNull<MaybeUninit<T>>,
    pub(super) position: u64,
}

impl<T> Reserved<T> {
    pub(super) fn new(value: NonNull<MaybeUninit<T>>, position: u64) -> Self {
        Self { value, position }
    }

    /// Returns the place of the message. It belongs to the producer until it is committed, and
    /// lives as long as a sender of the mailbox.
    #[inline]
    pub fn as_ptr(&self) -> *mut MaybeUninit<T> {
        self.value.as_ptr()
    }

    /// Returns the place of the message and its position.
    #[inline(always)]
    pub fn into_parts(self) -> (NonNull<MaybeUninit<T>>, u64) {
        (self.value, self.position)
    }

    /// Makes a slot of these parts.
    ///
    /// # Safety
    /// The parts come from [`Self::into_parts`] and are used once.
    #[inline(always)]
    pub unsafe fn from_parts(value: NonNull<MaybeUninit<T>>, position: u64) -> Self {
        Self { value, position }
    }
}

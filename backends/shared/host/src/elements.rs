//! Borrowed bindings: the elements, and the state that counts who has borrowed them.
//!
//! ```text
//!            share                        exclude
//!  1 .. MAX ◄─────── 0: not borrowed ──────────────► EXCLUSIVE
//!     readers ─drop─►                ◄────drop──────
//! ```
//! The Release of a drop pairs with the Acquire of the next borrow: another thread that borrows the binding sees what was
//! written. A borrow that is forgotten is never given back.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The state of a binding that is borrowed mutably.
const EXCLUSIVE: u32 = u32::MAX;

/// Who has borrowed a binding.
#[derive(Default)]
pub(crate) struct BorrowState(AtomicU32);

impl BorrowState {
    /// Adds a reader. Returns `None` if the binding is borrowed mutably, or has as many readers as can be counted.
    pub(crate) fn share(&self) -> Option<Shared<'_>> {
        let one_more = |state: u32| state.checked_add(1).filter(|next| *next != EXCLUSIVE);
        // Acquire: pairs with the Release of `Exclusive::drop`. A failure reads nothing else.
        let added = self
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more);
        added.is_ok().then(|| Shared(&self.0))
    }

    /// Borrows the binding mutably. Returns `None` if it is borrowed already.
    pub(crate) fn exclude(&self) -> Option<Exclusive<'_>> {
        // Acquire: pairs with the Release of both drops. A failure reads nothing else.
        let taken = self
            .0
            .compare_exchange(0, EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Exclusive(&self.0))
    }
}

/// One reader.
pub(crate) struct Shared<'a>(&'a AtomicU32);

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        // Release: the reads happen before the writes of the next mutable borrow.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The only borrow.
pub(crate) struct Exclusive<'a>(&'a AtomicU32);

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        // Release: the writes happen before the accesses of the next borrow.
        self.0.store(0, Ordering::Release);
    }
}

/// The elements of a binding, borrowed for reading: a `&[T]`.
pub struct Elements<'a, T> {
    /// No reference: one that is the argument of a function would have to live until the function returns, longer than
    /// the borrow if the function drops it.
    elements: NonNull<[T]>,
    _borrow: Shared<'a>,
    _lifetime: PhantomData<&'a [T]>,
}

// SAFETY: a shared reference to the elements, and to an atomic.
unsafe impl<T: Sync> Send for Elements<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Elements<'_, T> {}

impl<'a, T> Elements<'a, T> {
    /// Creates the borrow.
    ///
    /// # Safety
    /// Until `borrow` is dropped, the elements are initialized, and nothing writes them.
    pub(crate) unsafe fn new(elements: NonNull<[T]>, borrow: Shared<'a>) -> Self {
        Self {
            elements,
            _borrow: borrow,
            _lifetime: PhantomData,
        }
    }
}

impl<T> Deref for Elements<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the contract of `new`.
        unsafe { self.elements.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: PartialEq, O: AsRef<[T]> + ?Sized> PartialEq<O> for Elements<'_, T> {
    fn eq(&self, other: &O) -> bool {
        **self == *other.as_ref()
    }
}

/// The elements of a binding, borrowed for writing: a `&mut [T]`.
pub struct ElementsMut<'a, T> {
    /// No reference, as in [`Elements`].
    elements: NonNull<[T]>,
    _borrow: Exclusive<'a>,
    _lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: a mutable reference to the elements, and one to an atomic.
unsafe impl<T: Send> Send for ElementsMut<'_, T> {}
// SAFETY: shared access is that of a shared reference to the elements.
unsafe impl<T: Sync> Sync for ElementsMut<'_, T> {}

impl<'a, T> ElementsMut<'a, T> {
    /// Creates the borrow.
    ///
    /// # Safety
    /// Until `borrow` is dropped, the elements are initialized, and nothing else accesses them.
    pub(crate) unsafe fn new(elements: NonNull<[T]>, borrow: Exclusive<'a>) -> Self {
        Self {
            elements,
            _borrow: borrow,
            _lifetime: PhantomData,
        }
    }
}

impl<T> Deref for ElementsMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the contract of `new`.
        unsafe { self.elements.as_ref() }
    }
}

impl<T> DerefMut for ElementsMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the contract of `new`; the exclusive borrow of `self` makes the reference the only one.
        unsafe { self.elements.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for ElementsMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

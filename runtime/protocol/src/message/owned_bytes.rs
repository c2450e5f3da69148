//! Owned bytes of the host, on their way to a queue.
//!
//! The value that owns the bytes may be of a user's type. Its code runs on the caller's thread, once: [`HostBytes::bytes`] is
//! called when the upload is made, and its result is used from then on. So whatever that code does, it does not happen on
//! the device's turn, and the bytes are the same for the submission log and for the queue.
//!
//! ```text
//!  HostUpload<H, K> ── erase ──► OwnedBytes ──► message ──► queue ── drop ──► H and K are dropped
//!         └── into_data ──► H, if the upload is not sent
//! ```
//! A backend drops the bytes when it has copied them. If it drops them on the device's turn, because it refuses the copy, the
//! device has them dropped where other users' values are ([`payload::KeptValues`]).
//!
//! The value lives at one address, in a box of which this module has only a pointer, until it is dropped or given back. The
//! borrow that `bytes` returned lasts as long: nothing touches the value meanwhile.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use millstream_sync::payload;

use crate::element::Stored;

/// A value that owns bytes of the host, such as a vector, or memory of another runtime.
pub trait HostBytes: Send + 'static {
    /// Returns the bytes. Called once for each upload, on the thread that makes it.
    fn bytes(&self) -> &[u8];

    /// Frees the bytes before the value is dropped, on the device's thread: for types of this project.
    #[doc(hidden)]
    fn release(&mut self, _: ReleaseToken) {}

    /// Returns the block of the device's own [`HostMemory`](crate::staging::HostMemory) that begins with the bytes. It stays
    /// allocated until they are released. A user's type cannot have one.
    #[doc(hidden)]
    fn host_block(&self, _: sealed::Token) -> Option<&(dyn Any + Send + Sync)> {
        None
    }
}

pub(crate) mod sealed {
    /// The argument of a method that only this crate implements and calls: no other code can name it.
    pub struct Token(pub(crate) ());
}

/// The argument of [`HostBytes::release`], which only this crate calls.
#[doc(hidden)]
pub struct ReleaseToken(());

impl<T: Stored> HostBytes for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn release(&mut self, _: ReleaseToken) {
        *self = Vec::new();
    }
}

impl<T: Stored> HostBytes for Box<[T]> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn release(&mut self, _: ReleaseToken) {
        *self = Box::default();
    }
}

impl<T: Stored> HostBytes for Arc<[T]> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn release(&mut self, _: ReleaseToken) {
        *self = Arc::default();
    }
}

/// A value, the place of its bytes, and what is kept with it.
struct Held<O: ?Sized> {
    /// The bytes that `owner` returned; none once they are released.
    bytes: NonNull<[u8]>,
    /// The block that `owner` returned; none once the bytes are released.
    host_block: Option<NonNull<dyn Any + Send + Sync>>,
    owner: O,
}

/// The value, and what is dropped with it.
struct Kept<H, K> {
    data: H,
    keep: Option<K>,
}

/// A [`Kept`] of unknown types.
trait Owner: Send {
    fn release(&mut self);
}

impl<H: HostBytes, K: Send> Owner for Kept<H, K> {
    fn release(&mut self) {
        self.data.release(ReleaseToken(()));
    }
}

/// No bytes.
const NOTHING: NonNull<[u8]> = NonNull::slice_from_raw_parts(NonNull::<u8>::dangling(), 0);

/// Bytes of a known type that are to be uploaded.
pub struct HostUpload<H: HostBytes, K: Send + 'static = ()> {
    held: NonNull<Held<Kept<H, K>>>,
    _owned: PhantomData<Held<Kept<H, K>>>,
}

// SAFETY: it owns the box at `held`. There `owner` is `Send`: both of its values are. `bytes` is a shared borrow of plain bytes,
// and `host_block` one of a value that is `Sync`.
unsafe impl<H: HostBytes, K: Send> Send for HostUpload<H, K> {}

impl<H: HostBytes, K: Send + 'static> HostUpload<H, K> {
    /// Asks `data` for its bytes.
    pub fn new(data: H) -> Self {
        let held = Box::new(Held {
            bytes: NOTHING,
            host_block: None,
            owner: Kept { data, keep: None },
        });
        // Also after a panic of `bytes` the value is dropped.
        let upload = Self {
            held: NonNull::from(Box::leak(held)),
            _owned: PhantomData,
        };
        // SAFETY: the box is owned by `upload`, and nothing else refers to it. From here on `owner.data` is neither moved nor
        // changed before `bytes` and `host_block` are given up, so what it lends them stays as it is.
        unsafe {
            let held = upload.held.as_ptr();
            let data = &raw const (*held).owner.data;
            (*held).host_block = (*data).host_block(sealed::Token(())).map(NonNull::from);
            (*held).bytes = NonNull::from((*data).bytes());
        }
        upload
    }

    /// Returns the number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        // SAFETY: the box is owned by `self`.
        unsafe { self.held.as_ref() }.bytes.len()
    }

    /// Keeps a value until the bytes are dropped.
    pub fn keep(&mut self, keep: K) {
        // SAFETY: the box is owned by `self`; `bytes` and `host_block` borrow from `owner.data`, and this writes `owner.keep`.
        unsafe { (*self.held.as_ptr()).owner.keep = Some(keep) };
    }

    /// Gives the value back, and drops what is kept with it.
    pub fn into_data(self) -> H {
        let held = self.held;
        std::mem::forget(self);
        // SAFETY: of `Box::leak` in `new`, and the forgotten `self` does not drop it. `bytes` and `host_block` are not used any
        // more.
        let held = unsafe { Box::from_raw(held.as_ptr()) };
        held.owner.data
    }

    /// Forgets the types.
    pub fn erase(self) -> OwnedBytes {
        let held: NonNull<Held<dyn Owner>> = self.held;
        std::mem::forget(self);
        OwnedBytes { held }
    }
}

impl<H: HostBytes, K: Send + 'static> Drop for HostUpload<H, K> {
    fn drop(&mut self) {
        // SAFETY: of `Box::leak` in `new`, and dropped once: `into_data` and `erase` forget `self`.
        drop(unsafe { Box::from_raw(self.held.as_ptr()) });
    }
}

/// Owned bytes that a queue copies from.
pub struct OwnedBytes {
    held: NonNull<Held<dyn Owner>>,
}

// SAFETY: as for `HostUpload`: it owns the box at `held`, whose `owner` is `Send` as `Owner` requires, and whose `bytes` and
// `host_block` borrow values that are `Sync`.
unsafe impl Send for OwnedBytes {}

impl OwnedBytes {
    /// Creates the bytes of a value.
    pub fn new(data: impl HostBytes) -> Self {
        HostUpload::<_, ()>::new(data).erase()
    }

    /// Returns the bytes. Runs no code of the value.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the box is owned by `self`. `owner` lends `bytes` until it is released; `release` clears the field first.
        unsafe { self.held.as_ref().bytes.as_ref() }
    }

    /// Frees the memory of the bytes before the copy to the device ends, after the bytes were copied elsewhere, if their
    /// type is the runtime's. Afterwards the bytes are empty.
    pub fn release(&mut self) {
        // SAFETY: the box is owned by `self`. `bytes` and `host_block`, which borrow from `owner`, are cleared before it changes.
        unsafe {
            let held = self.held.as_ptr();
            ((*held).bytes, (*held).host_block) = (NOTHING, None);
            (*held).owner.release();
        }
    }

    /// Returns the block of the device's own [`HostMemory`](crate::staging::HostMemory) that begins with the bytes: a
    /// [`HostBlock`](crate::staging::HostBlock). `None` if they lie elsewhere.
    pub fn host_block(&self) -> Option<&(dyn Any + Send + Sync)> {
        // SAFETY: the box is owned by `self`. `owner` lends `host_block` until it is released; `release` clears the field first.
        unsafe { self.held.as_ref().host_block.map(|block| block.as_ref()) }
    }
}

impl Drop for OwnedBytes {
    /// Drops the value, unless the thread keeps it. A panic of a user's destructor ends here: the thread is the runtime's.
    fn drop(&mut self) {
        if payload::is_kept() {
            return payload::end(Box::new(Self { held: self.held }));
        }
        // SAFETY: of `Box::leak` in `HostUpload::new`, and dropped once.
        let held = unsafe { Box::from_raw(self.held.as_ptr()) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(held))) {
            payload::end(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Bytes within the value, which panics if it is asked twice.
    struct Inline([u8; 4], Cell<bool>);

    impl HostBytes for Inline {
        fn bytes(&self) -> &[u8] {
            assert!(!self.1.replace(true), "asked twice");
            &self.0
        }
    }

    impl Drop for Inline {
        fn drop(&mut self) {
            assert_ne!(self.0[0], 9, "planned");
        }
    }

    #[test]
    fn bytes_are_asked_for_once_and_stay_where_they_are() {
        let inline = || Inline([1, 2, 3, 4], Cell::new(false));
        let mut upload = HostUpload::new(inline());
        upload.keep(Box::new(5));
        let boxed = vec![upload.erase(), OwnedBytes::new(inline())];
        for owned in &boxed {
            assert_eq!(
                (owned.bytes(), owned.bytes()),
                (&[1, 2, 3, 4][..], &[1, 2, 3, 4][..])
            );
        }
        let given = HostUpload::<_, ()>::new(inline()).into_data();
        assert_eq!(given.0, [1, 2, 3, 4]);
        let mut released = boxed.into_iter().next().unwrap();
        released.release();
        assert!(released.bytes().is_empty() && released.host_block().is_none());
    }

    #[test]
    fn vector_is_freed_by_a_release() {
        let mut owned = OwnedBytes::new(vec![1_u32, 2]);
        assert_eq!(owned.bytes().len(), 8);
        owned.release();
        assert!(owned.bytes().is_empty());
    }

    #[test]
    fn value_that_the_thread_keeps_is_dropped_by_another_thread() {
        let kept = payload::KeptValues::begin();
        drop(OwnedBytes::new(Inline([9; 4], Cell::new(false))));
        let values = kept.take();
        assert_eq!(values.len(), 1);
        std::thread::spawn(|| drop(values)).join().unwrap();
    }

    /// I5: a destructor that panics does not end a thread of the runtime.
    #[test]
    fn panic_of_a_destructor_ends_in_the_drop_i5() {
        drop(OwnedBytes::new(Inline([9; 4], Cell::new(false))));
    }
}

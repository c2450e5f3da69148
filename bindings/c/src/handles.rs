//! Handles: numbers in the guise of pointers, which tables resolve.
//!
//! A handle is not an address, so nothing that a caller passes is dereferenced. A null, freed or wrong handle is found
//! by the lookup:
//!
//! ```text
//!  bits  63..56       55..24        23..0
//!        kind         generation    index        kind: from 1, so that no handle is NULL
//! ```
//! A table has one slot for each index. The slot's generation is odd while it holds an object, and it grows with each
//! insertion and each removal; a handle has the generation of its insertion. A freed handle is found unless its slot
//! was used 2^31 times since.
//!
//! Slots lie in chunks, which are never freed or moved. So a lookup takes no lock: it loads the chunk's address and the
//! generation. Insertions and removals take none either ([`IndexStack`]), so a child that is forked while another thread is
//! inside a call finds no lock that stays taken.
//!
//! # Concurrency
//! A caller may use a handle on several threads, but must not destroy it while another call with it runs. The lookup
//! cannot detect that: the object would be dropped under the call.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use millstream_sync::index_stack::{IndexStack, Link};

use crate::sized::read_plain;
use crate::status::{Answer, Fault, ensure, ms_status};

const INDEX_BITS: u32 = 24;
const KIND_SHIFT: u32 = 56;
/// The slots of a chunk, as a power of two.
const CHUNK_BITS: u32 = 10;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = 1 << (INDEX_BITS - CHUNK_BITS);
/// The bits of a handle that are the same for all handles of a kind: the kind, and that the generation is odd.
const KIND_MASK: u64 = 0xff << KIND_SHIFT | 1 << INDEX_BITS;

/// An object that C names by a handle.
pub(crate) trait Object: Sized + 'static {
    /// The kind in the handle's bits, from 1.
    const KIND: u8;
    /// The name of the type in C, for errors.
    const NAME: &'static str;

    fn table() -> &'static Table<Self>;
}

/// Implements [`Object`] for types with a table of their own.
macro_rules! objects {
    ($($type:ident: $kind:literal),*) => {$(
        impl crate::handles::Object for $type {
            const KIND: u8 = $kind;
            const NAME: &'static str = stringify!($type);

            #[inline(always)]
            fn table() -> &'static crate::handles::Table<Self> {
                static TABLE: crate::handles::Table<$type> = crate::handles::Table::new();
                &TABLE
            }
        }
    )*};
}
pub(crate) use objects;

pub(crate) struct Table<T> {
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    /// The first index that was never used.
    next: AtomicU32,
    free: IndexStack,
}

struct Slot<T> {
    /// Odd while `value` is initialized.
    generation: AtomicU32,
    /// The link of the stack of free slots.
    below: Link,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value is inserted, removed and dropped on any thread, and lookups share references to it.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T: Object> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            next: AtomicU32::new(0),
            free: IndexStack::new(),
        }
    }

    /// Returns the slot of an index, if its chunk exists. Ignores the bits beyond an index.
    #[inline(always)]
    fn slot(&self, bits: u64) -> Option<&Slot<T>> {
        let chunk = (bits >> CHUNK_BITS) as usize % CHUNKS;
        // Acquire pairs with the exchange in `take_new`: the chunk's slots are initialized.
        let slots = self.chunks[chunk].load(Ordering::Acquire);
        if slots.is_null() {
            return None;
        }
        // SAFETY: the index is within the chunk, which is never freed.
        Some(unsafe { &*slots.add(bits as usize % CHUNK_LEN) })
    }

    /// Returns the slot that a handle names, if it holds that object.
    #[inline(always)]
    fn find(&self, handle: *const T) -> Option<&Slot<T>> {
        let bits = handle.addr() as u64;
        if bits & KIND_MASK != u64::from(T::KIND) << KIND_SHIFT | 1 << INDEX_BITS {
            return None;
        }
        let slot = self.slot(bits)?;
        // Acquire pairs with the store in `insert`: the value is initialized.
        match slot.generation.load(Ordering::Acquire) == (bits >> INDEX_BITS) as u32 {
            true => Some(slot),
            false => None,
        }
    }

    /// Inserts an object and returns its handle; `None` if all slots are in use.
    fn insert(&self, value: T) -> Option<*mut T> {
        let index = u64::from(self.take_free()?);
        let slot = self.slot(index)?;
        // Relaxed: the stack of free slots orders this after the removal that freed the slot.
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        // SAFETY: the slot is free, and this call took it from the free list.
        unsafe { (*slot.value.get()).write(value) };
        // Release pairs with the load in `find`.
        slot.generation.store(generation, Ordering::Release);
        let bits = u64::from(T::KIND) << KIND_SHIFT | u64::from(generation) << INDEX_BITS | index;
        Some(std::ptr::without_provenance_mut(bits as usize))
    }

    /// Removes the object of a handle.
    fn remove(&self, handle: *const T) -> Option<T> {
        let slot = self.find(handle)?;
        let bits = handle.addr() as u64;
        let (index, generation) = (bits as u32 % (1 << INDEX_BITS), (bits >> INDEX_BITS) as u32);
        // Of two threads that destroy one handle, one succeeds.
        let taken = slot.generation.compare_exchange(
            generation,
            generation.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        taken.ok()?;
        // SAFETY: the slot was live, and this call ended that generation, so it alone owns the value.
        let value = unsafe { (*slot.value.get()).assume_init_read() };
        self.free.push(index, &slot.below);
        Some(value)
    }

    fn take_free(&self) -> Option<u32> {
        let link = |index: u32| self.slot(index.into()).map(|slot| &slot.below);
        self.free.pop(link).or_else(|| self.take_new())
    }

    /// Takes the first slot that was never used.
    fn take_new(&self) -> Option<u32> {
        // Relaxed: the call that takes an index has found its chunk, or added it.
        let mut index = self.next.load(Ordering::Relaxed);
        loop {
            let slots = self.chunks.get(index as usize >> CHUNK_BITS)?;
            if slots.load(Ordering::Acquire).is_null() {
                add_chunk(slots);
            }
            let (next, relaxed) = (index + 1, Ordering::Relaxed);
            let taken = self
                .next
                .compare_exchange_weak(index, next, relaxed, relaxed);
            match taken {
                Ok(_) => return Some(index),
                Err(now) => index = now,
            }
        }
    }
}

/// Allocates a chunk, unless another thread does.
#[cold]
fn add_chunk<T>(place: &AtomicPtr<Slot<T>>) {
    // Zeroed by the allocator, which touches no page: generations of 0, and values that are not initialized.
    let new = Box::into_raw(Box::<[Slot<T>]>::new_zeroed_slice(CHUNK_LEN));
    // Release pairs with the load in `slot`.
    let added =
        place.compare_exchange(null_mut(), new.cast(), Ordering::Release, Ordering::Relaxed);
    if added.is_err() {
        // SAFETY: of `Box::into_raw` above, and no other thread has it.
        drop(unsafe { Box::from_raw(new) });
    }
}

/// Returns the object of a handle.
///
/// # Safety
/// The object is not destroyed while the reference exists: the caller of the C function keeps it, or the reference
/// ends before any user code runs.
#[inline(always)]
pub(crate) unsafe fn get<'a, T: Object>(handle: *const T) -> Answer<&'a T> {
    // SAFETY: the caller's promise.
    match unsafe { find(handle) } {
        Some(object) => Ok(object),
        None => Err(invalid(handle)),
    }
}

/// Returns the object of a handle, if it is one.
///
/// # Safety
/// As [`get`].
#[inline(always)]
pub(crate) unsafe fn find<'a, T: Object>(handle: *const T) -> Option<&'a T> {
    let slot = T::table().find(handle)?;
    // SAFETY: the slot is live, and the caller keeps it so.
    Some(unsafe { (*slot.value.get()).assume_init_ref() })
}

/// Returns what `part` clones of each object of an array of handles. NULL is fine for 0 handles.
///
/// # Safety
/// `handles` is NULL or points to `count` handles; for each, as [`get`].
pub(crate) unsafe fn handles_of<T: Object, R>(
    handles: *const *const T,
    count: usize,
    part: impl Fn(&T) -> R,
) -> Answer<Vec<R>> {
    // SAFETY: the caller's promise.
    let handles = unsafe { read_plain(handles, count, T::NAME)? };
    // SAFETY: as above.
    let parts = handles
        .into_iter()
        .map(|handle| unsafe { get(handle) }.map(&part));
    parts.collect()
}

#[cold]
fn invalid<T: Object>(handle: *const T) -> Fault {
    let text = match handle.is_null() {
        true => format!("the handle of type `{}` is NULL", T::NAME),
        false => format!("the handle is no `{}`, or was destroyed", T::NAME),
    };
    Fault::new(ms_status::InvalidHandle, text)
}

/// Writes the handle of the object that `make` makes to `out`, or NULL if it fails.
///
/// # Safety
/// `out` is NULL or may be written.
pub(crate) unsafe fn give<T: Object>(
    out: *mut *mut T,
    make: impl FnOnce() -> Answer<T>,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    let out = unsafe { Out::new(out)? };
    out.give(make()?)
}

/// Memory for a handle, which is NULL until the call has succeeded.
pub(crate) struct Out<T>(*mut *mut T);

impl<T> Out<T> {
    /// Checks the pointer, and writes NULL.
    ///
    /// # Safety
    /// `out` is NULL or may be written.
    pub(crate) unsafe fn new(out: *mut *mut T) -> Answer<Self> {
        ensure!(!out.is_null(), "the pointer for the new handle is NULL");
        // SAFETY: the caller's promise.
        unsafe { out.write(null_mut()) };
        Ok(Self(out))
    }
}

impl<T: Object> Out<T> {
    /// Writes the handle of a new object.
    pub(crate) fn give(self, value: T) -> Answer<()> {
        let Some(handle) = T::table().insert(value) else {
            let (count, name) = (1 << INDEX_BITS, T::NAME);
            let text = format!("all {count} handles of type `{name}` are in use");
            return Err(Fault::new(ms_status::OutOfMemory, text));
        };
        // SAFETY: `new` has checked the pointer.
        unsafe { self.0.write(handle) };
        Ok(())
    }
}

/// Destroys the object of a handle. NULL is fine.
pub(crate) fn destroy<T: Object>(handle: *mut T) -> Answer<()> {
    if handle.is_null() {
        return Ok(());
    }
    let removed = T::table().remove(handle);
    removed.map(drop).ok_or_else(|| invalid(handle))
}

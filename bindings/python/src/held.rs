//! Memory of a Python object that the runtime uses: exported by the buffer protocol or by DLPack until the runtime has
//! finished.
//!
//! The runtime drops such memory on its own threads, which never attach to the interpreter. So the drop of an export only
//! puts it on a list (a copy is memory of Rust, and is freed at once), and the next call from Python releases what is there ([`release_dropped`]). The list has no lock,
//! which a child that is forked meanwhile would find taken for ever.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use millstream::backend::HostBytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use crate::errors::named;
use crate::exchange::import::DlTensor;

/// Copies of more bytes are made without the interpreter's lock: they take longer than to release and acquire it.
pub(crate) const DETACHED_COPY_BYTES: usize = 256 << 10;

/// The last of the owners that were dropped and not released.
static DROPPED: AtomicPtr<Dropped> = AtomicPtr::new(null_mut());

struct Dropped {
    owner: Owner,
    before: *mut Dropped,
}

/// Adds an owner to the list.
fn add_dropped(owner: Owner) {
    let mut before = DROPPED.load(Ordering::Relaxed);
    let last = Box::into_raw(Box::new(Dropped { owner, before }));
    // Release pairs with the swap in `release_now`.
    while let Err(now) =
        DROPPED.compare_exchange_weak(before, last, Ordering::Release, Ordering::Relaxed)
    {
        before = now;
        // SAFETY: of the box above, and not on the list yet.
        unsafe { (*last).before = now };
    }
}

/// Releases the memory that the runtime has finished with. Called by calls that submit or wait.
#[inline]
pub(crate) fn release_dropped(py: Python<'_>) {
    // Relaxed: the swap in `release_now` orders the entries.
    if !DROPPED.load(Ordering::Relaxed).is_null() {
        release_now(py);
    }
}

/// Runs a call of the runtime that may wait, without the interpreter's lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, call: impl FnOnce() -> T + Send) -> T {
    release_dropped(py);
    py.detach(call)
}

#[cold]
fn release_now(py: Python<'_>) {
    // Taken out first: a release may run Python code, which may come here again.
    let mut last = DROPPED.swap(null_mut(), Ordering::Acquire);
    while !last.is_null() {
        // SAFETY: of the box in `add_dropped`; the swap took it off the list, so no other thread has it.
        let Dropped { owner, before } = *unsafe { Box::from_raw(last) };
        last = before;
        owner.release(py);
    }
}

/// What keeps memory alive.
enum Owner {
    Buffer(PyUntypedBuffer),
    /// Its deleter may need the interpreter, as that of NumPy does.
    DlPack(DlTensor),
    /// Of this library, so any thread may free it.
    Copy(Vec<u8>),
}

impl Owner {
    fn release(self, py: Python<'_>) {
        match self {
            Owner::Buffer(buffer) => buffer.release(py),
            Owner::DlPack(tensor) => tensor.release(py),
            Owner::Copy(_) => {}
        }
    }
}

/// Contiguous memory: an export of a Python object, or a copy of one.
pub(crate) struct HeldBuffer(Option<Owner>);

impl HeldBuffer {
    /// Holds a C-contiguous buffer.
    pub(crate) fn new(buffer: PyUntypedBuffer) -> Self {
        Self(Some(Owner::Buffer(buffer)))
    }

    /// Holds a tensor whose elements are C-contiguous.
    pub(crate) fn of_tensor(tensor: DlTensor) -> Self {
        Self(Some(Owner::DlPack(tensor)))
    }

    /// Copies the elements of a tensor, one after the other, in C's order; detached if they are many.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn gathered(py: Python<'_>, tensor: DlTensor) -> PyResult<Self> {
        let mut copy = room_for(tensor.bytes())?;
        match tensor.bytes() > DETACHED_COPY_BYTES {
            true => py.detach(|| tensor.gather_to(&mut copy)),
            false => tensor.gather_to(&mut copy),
        }
        tensor.release(py);
        Ok(Self(Some(Owner::Copy(copy))))
    }

    /// Releases the memory now, instead of with the next call from Python.
    pub(crate) fn release(mut self, py: Python<'_>) {
        if let Some(owner) = self.0.take() {
            owner.release(py);
        }
    }

    /// Returns the memory. A copy is only read.
    pub(crate) fn target(&self) -> (*mut u8, usize) {
        match &self.0 {
            Some(Owner::Buffer(buffer)) => (buffer.buf_ptr().cast(), buffer.len_bytes()),
            Some(Owner::DlPack(tensor)) => (tensor.pointer(), tensor.bytes()),
            Some(Owner::Copy(copy)) => (copy.as_ptr().cast_mut(), copy.len()),
            None => (null_mut(), 0),
        }
    }

    /// Returns the bytes.
    pub(crate) fn slice(&self) -> &[u8] {
        match self.target() {
            // The pointer of an empty buffer may be null.
            (_, 0) => &[],
            // SAFETY: the memory is exported, so it stays where it is. That nothing writes it meanwhile is the promise of
            // the caller of `create(.., copy=False)`, as for every API that reads an array without the lock; otherwise
            // the bytes are only copied.
            (pointer, bytes) => unsafe { std::slice::from_raw_parts(pointer, bytes) },
        }
    }
}

impl HostBytes for HeldBuffer {
    fn bytes(&self) -> &[u8] {
        self.slice()
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        if let Some(owner @ (Owner::Buffer(_) | Owner::DlPack(_))) = self.0.take() {
            add_dropped(owner);
        }
    }
}

/// Returns memory for a copy of this number of bytes.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn room_for(bytes: usize) -> PyResult<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|error| {
        let message = format!("the host has no {bytes} bytes for a copy: {error}");
        named("OutOfMemory", message)
    })?;
    Ok(room)
}

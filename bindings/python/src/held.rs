//! Memory of a Python object that the runtime uses: exported by the buffer protocol or by DLPack until the runtime has
//! finished.
//!
//! The runtime drops such memory on its own threads, which never attach to the interpreter. So a drop only puts the
//! memory on a list, and the next call from Python releases what is there ([`release_dropped`]). The list has no lock,
//! which a child that is forked meanwhile would find taken for ever.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use millstream::backend::HostBytes;
use millstream::error::MemoryError;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use crate::errors::exception;
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
    /// Elements that were gathered from memory with strides.
    Copy(Vec<u64>),
}

impl Owner {
    fn release(self, py: Python<'_>) {
        match self {
            Owner::Buffer(buffer) => buffer.release(py),
            Owner::DlPack(tensor) => tensor.release(py),
            Owner::Copy(memory) => drop(memory),
        }
    }
}

/// Allocates zeroed memory of at least this many bytes, aligned for every element type.
///
/// # Errors
/// [`MemoryError::Host`].
pub(crate) fn zeroed(bytes: usize) -> Result<Vec<u64>, MemoryError> {
    let memory = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(size_of::<u64>()));
    let no_memory = |()| MemoryError::Host {
        requested: bytes as u64,
    };
    Ok(memory.map_err(no_memory)?.into_vec())
}

/// Contiguous memory of a Python object.
pub(crate) struct HeldBuffer {
    /// `Some` until the drop.
    owner: Option<Owner>,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is into memory that the owner keeps alive, on any thread.
unsafe impl Send for HeldBuffer {}
// SAFETY: shared access reads the pointer and the length only; `bytes` has its own contract.
unsafe impl Sync for HeldBuffer {}

impl HeldBuffer {
    /// Holds a C-contiguous buffer.
    pub(crate) fn new(buffer: PyUntypedBuffer) -> Self {
        let (pointer, bytes) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
        Self {
            owner: Some(Owner::Buffer(buffer)),
            pointer,
            bytes,
        }
    }

    /// Holds a tensor whose elements are C-contiguous.
    pub(crate) fn of_tensor(tensor: DlTensor) -> Self {
        let (pointer, bytes) = (tensor.pointer(), tensor.bytes());
        Self {
            owner: Some(Owner::DlPack(tensor)),
            pointer,
            bytes,
        }
    }

    /// Copies the elements of a tensor to memory of ours, one after the other, in C's order.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn gathered(py: Python<'_>, tensor: DlTensor) -> PyResult<Self> {
        let bytes = tensor.bytes();
        let mut memory = zeroed(bytes).map_err(|error| exception(py, &error.into()))?;
        let target: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut memory)[..bytes];
        match bytes > DETACHED_COPY_BYTES {
            true => py.detach(|| tensor.gather_to(target)),
            false => tensor.gather_to(target),
        }
        tensor.release(py);
        let pointer = memory.as_mut_ptr().cast();
        Ok(Self {
            owner: Some(Owner::Copy(memory)),
            pointer,
            bytes,
        })
    }

    /// Releases the memory now, instead of with the next call from Python.
    pub(crate) fn release(mut self, py: Python<'_>) {
        if let Some(owner) = self.owner.take() {
            owner.release(py);
        }
    }

    /// Returns the memory.
    pub(crate) fn target(&self) -> (*mut u8, usize) {
        (self.pointer, self.bytes)
    }

    /// Returns the bytes.
    pub(crate) fn slice(&self) -> &[u8] {
        match self.bytes {
            // The pointer of an empty buffer may be null.
            0 => &[],
            // SAFETY: the memory is exported, so it stays where it is. That nothing writes it meanwhile is the promise of
            // the caller of `create(.., copy=False)`, as for every API that reads an array without the lock; otherwise
            // the bytes are only copied.
            bytes => unsafe { std::slice::from_raw_parts(self.pointer, bytes) },
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
        let needs_python = |owner: &mut Owner| !matches!(owner, Owner::Copy(_));
        if let Some(owner) = self.owner.take_if(needs_python) {
            add_dropped(owner);
        }
    }
}

//! Memory of a Python object that the runtime uses: exported by the buffer protocol until the runtime has finished.
//!
//! The runtime drops such memory on its own threads, which never attach to the interpreter. So a drop only puts the
//! memory on a list, and the next call from Python releases what is there ([`release_dropped`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream::backend::HostBytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

/// The buffers that were dropped and not released.
static DROPPED: Mutex<Vec<PyUntypedBuffer>> = Mutex::new(Vec::new());
/// Whether the list may have entries. Only a hint: the thread that sets it has added an entry before.
static HAS_DROPPED: AtomicBool = AtomicBool::new(false);

fn dropped() -> MutexGuard<'static, Vec<PyUntypedBuffer>> {
    // A panic cannot leave the list in a bad state.
    DROPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases the memory that the runtime has finished with. Called by calls that submit or wait.
#[inline]
pub(crate) fn release_dropped(py: Python<'_>) {
    // Relaxed: only a hint, the lock orders the entries.
    if HAS_DROPPED.load(Ordering::Relaxed) {
        release_now(py);
    }
}

#[cold]
fn release_now(py: Python<'_>) {
    HAS_DROPPED.store(false, Ordering::Relaxed);
    // Taken out first: a release may run Python code, which may come here again.
    let taken = std::mem::take(&mut *dropped());
    for buffer in taken {
        buffer.release(py);
    }
}

/// Contiguous memory of a Python object.
pub(crate) struct HeldBuffer {
    /// `Some` until the drop.
    buffer: Option<PyUntypedBuffer>,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is into memory that the buffer keeps alive, on any thread.
unsafe impl Send for HeldBuffer {}
// SAFETY: shared access reads the pointer and the length only; `bytes` has its own contract.
unsafe impl Sync for HeldBuffer {}

impl HeldBuffer {
    /// Holds a C-contiguous buffer.
    pub(crate) fn new(buffer: PyUntypedBuffer) -> Self {
        let (pointer, bytes) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
        Self {
            buffer: Some(buffer),
            pointer,
            bytes,
        }
    }

    /// Returns the memory.
    pub(crate) fn target(&self) -> (*mut u8, usize) {
        (self.pointer, self.bytes)
    }

    /// Returns the memory as bytes of another length, which must not be greater.
    fn slice(&self) -> &[u8] {
        match self.bytes {
            // The pointer of an empty buffer may be null.
            0 => &[],
            // SAFETY: the buffer is exported, so its memory stays where it is. That nothing writes it meanwhile is the
            // promise of the caller of `create(.., copy=False)`, as for every API that reads an array without the lock.
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
        if let Some(buffer) = self.buffer.take() {
            dropped().push(buffer);
            // Relaxed: see `release_dropped`.
            HAS_DROPPED.store(true, Ordering::Relaxed);
        }
    }
}

//! The memory on the host that a copy out writes to.
//!
//! The queue that copies writes a landing, and the client that requested the copy reads it, never at the same time:
//! the queue finishes before it publishes the copy's cursor, and the client reads only after it has observed that the
//! cursor passed.

use std::cell::UnsafeCell;
use std::sync::{Arc, OnceLock};

use crate::element::Stored;
use crate::error::MemoryError;
use crate::failure::FailureRef;

/// Memory on the host for the bytes of one binding.
pub trait Landing: Send + Sync + 'static {
    /// Returns the destination of the bytes, and its length in bytes.
    ///
    /// Only the queue that runs the copy may write there, and only until it publishes the copy's cursor.
    fn target(&self) -> (*mut u8, usize);

    /// Records that the bytes are unavailable. Called before the cursor is published.
    fn fail(&self, failure: FailureRef);
}

/// A landing as the client reads it.
pub trait Landed<T>: Send + Sync {
    /// Takes the bytes, or the failure.
    ///
    /// # Safety
    /// The caller has observed that the copy's cursor passed, or the copy will never run, and this is called once.
    unsafe fn take(&self) -> Result<T, FailureRef>;
}

/// A landing for elements of `T`.
pub struct VecLanding<T: Stored> {
    elements: UnsafeCell<Vec<T>>,
    /// The start of the vector's buffer, taken once, so that the queue does not access the vector itself.
    pointer: *mut u8,
    bytes: usize,
    failure: OnceLock<FailureRef>,
}

// SAFETY: one side at a time uses the buffer (see the module); `T` is plain data.
unsafe impl<T: Stored> Send for VecLanding<T> {}
// SAFETY: as above; shared access is limited to the pointer, the length and the `OnceLock`.
unsafe impl<T: Stored> Sync for VecLanding<T> {}

impl<T: Stored> VecLanding<T> {
    /// Creates a zeroed landing for `len` elements.
    ///
    /// # Errors
    /// [`MemoryError::Host`]: a slice that the device could not reserve may be longer than the memory of the host.
    pub fn new(len: usize) -> Result<Arc<Self>, MemoryError> {
        let room = bytemuck::allocation::try_zeroed_slice_box(len);
        let elements = room.map_err(|()| no_memory::<T>(len))?.into_vec();
        Ok(Self::over(elements, len * size_of::<T>()))
    }

    /// Creates a landing for `len` elements in `memory`, which is replaced if it is shorter.
    ///
    /// # Errors
    /// As [`VecLanding::new`].
    pub fn within(mut memory: Vec<T>, len: usize) -> Result<Arc<Self>, MemoryError> {
        if memory.capacity() < len {
            // Growing would copy contents that nothing reads.
            drop(memory);
            return Self::new(len);
        }
        // The queue writes all of it; until then the old contents remain.
        memory.resize(len, T::zeroed());
        Ok(Self::over(memory, len * size_of::<T>()))
    }

    /// Creates a landing over the first `bytes` of elements that have as many at least.
    pub fn over(mut elements: Vec<T>, bytes: usize) -> Arc<Self> {
        assert!(bytes <= size_of_val(&*elements), "a landing is too short");
        Arc::new(Self {
            pointer: elements.as_mut_ptr().cast(),
            elements: UnsafeCell::new(elements),
            bytes,
            failure: OnceLock::new(),
        })
    }

    /// Returns the elements of a landing that was not sent with a copy.
    pub fn into_elements(self) -> Vec<T> {
        self.elements.into_inner()
    }
}

fn no_memory<T>(len: usize) -> MemoryError {
    MemoryError::Host {
        requested: (len as u64).saturating_mul(size_of::<T>() as u64),
    }
}

impl<T: Stored> Landed<Vec<T>> for VecLanding<T> {
    unsafe fn take(&self) -> Result<Vec<T>, FailureRef> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            // SAFETY: the queue has finished with the buffer and nothing else takes it, by the contract of `take`.
            None => Ok(std::mem::take(unsafe { &mut *self.elements.get() })),
        }
    }
}

impl<T: Stored> Landing for VecLanding<T> {
    fn target(&self) -> (*mut u8, usize) {
        (self.pointer, self.bytes)
    }

    fn fail(&self, failure: FailureRef) {
        // Only the first failure is kept.
        let _ = self.failure.set(failure);
    }
}

//! Where bytes of a copy out land on the host.
//!
//! A landing is written by the queue that copies and read by the client that asked, never at once:
//! the queue is done with it before it publishes the copy's cursor, and the client reads only after
//! it has seen that cursor pass.

use std::cell::UnsafeCell;
use std::sync::{Arc, OnceLock};

use crate::element::Element;
use crate::error::MemoryError;
use crate::failure::FailureRef;

/// Room on the host for the bytes of one binding.
pub trait Landing: Send + Sync + 'static {
    /// Where the bytes go, and how many there are.
    ///
    /// Only the queue that runs the copy may write there, and only until it publishes the copy's cursor.
    fn target(&self) -> (*mut u8, usize);

    /// Says that the bytes could not be had. To be called before the cursor is published.
    fn fail(&self, failure: FailureRef);
}

/// A landing as its client sees it.
pub trait Landed<T>: Send + Sync {
    /// The failure, or what landed.
    ///
    /// # Safety
    /// The copy's cursor has been seen to pass (or the copy will never run), and this is called once.
    unsafe fn take(&self) -> Result<T, FailureRef>;
}

/// A landing for elements of `T`.
pub struct VecLanding<T: Element> {
    elements: UnsafeCell<Vec<T>>,
    /// Start of the vector's room, taken once so that nobody goes through the vector meanwhile.
    pointer: *mut u8,
    len: usize,
    failure: OnceLock<FailureRef>,
}

// SAFETY: the room is used by one side at a time (see the module); `T` is plain data.
unsafe impl<T: Element> Send for VecLanding<T> {}
// SAFETY: as above; shared access is only to the pointer, the length and the `OnceLock`.
unsafe impl<T: Element> Sync for VecLanding<T> {}

impl<T: Element> VecLanding<T> {
    /// Room for `len` elements, zeroed.
    ///
    /// # Errors
    /// [`MemoryError::Host`]: a slice that the device could not give may be longer than the host has room.
    pub fn new(len: usize) -> Result<Arc<Self>, MemoryError> {
        let room = bytemuck::allocation::try_zeroed_slice_box(len);
        let elements = room.map_err(|()| no_memory::<T>(len))?.into_vec();
        Ok(Self::over(elements))
    }

    /// Room for `len` elements in `memory`, which grows if it is shorter.
    ///
    /// # Errors
    /// As [`VecLanding::new`].
    pub fn within(mut memory: Vec<T>, len: usize) -> Result<Arc<Self>, MemoryError> {
        if memory.capacity() < len {
            // What it holds is not worth a copy.
            drop(memory);
            return Self::new(len);
        }
        // A queue writes all of it; until then it is what it was.
        memory.resize(len, T::zeroed());
        Ok(Self::over(memory))
    }

    fn over(mut elements: Vec<T>) -> Arc<Self> {
        let (pointer, len) = (elements.as_mut_ptr().cast(), elements.len());
        Arc::new(Self {
            elements: UnsafeCell::new(elements),
            pointer,
            len,
            failure: OnceLock::new(),
        })
    }

    /// The elements of a landing that nothing was sent with.
    pub fn into_elements(self) -> Vec<T> {
        self.elements.into_inner()
    }
}

fn no_memory<T>(len: usize) -> MemoryError {
    MemoryError::Host {
        asked: (len as u64).saturating_mul(size_of::<T>() as u64),
    }
}

impl<T: Element> Landed<Vec<T>> for VecLanding<T> {
    unsafe fn take(&self) -> Result<Vec<T>, FailureRef> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            // SAFETY: the queue is done with the room (the caller's promise), nobody else takes it.
            None => Ok(std::mem::take(unsafe { &mut *self.elements.get() })),
        }
    }
}

impl<T: Element> Landing for VecLanding<T> {
    fn target(&self) -> (*mut u8, usize) {
        (self.pointer, self.len * size_of::<T>())
    }

    fn fail(&self, failure: FailureRef) {
        // The first failure stands.
        let _ = self.failure.set(failure);
    }
}

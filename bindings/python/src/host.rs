//! Memory on the host that readbacks write: fresh memory, or an array of the caller.
//!
//! ```text
//!  Stream.read ──► Landing ──► the queue writes it ──► HostMemory::Owned ──► HostArray ──► numpy.ndarray (a view)
//!                                                  └─► HostMemory::Held  ──► the caller's array
//! ```
//! Python sees owned memory only once the queue has finished with it, and from then on nothing else uses it: it is freed
//! with the last view of it, and never reused.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use millstream::backend::{Landed, Landing as LandingTrait};
use millstream::{DType, FailureRef, error::MemoryError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::exchange::view::Layout;
use crate::held::{HeldBuffer, zeroed};

/// Memory that a readback has written.
pub(crate) enum HostMemory {
    /// Memory of ours, aligned for every element type.
    Owned(Vec<u64>),
    /// Memory of a Python object, which is released with this.
    Held(#[expect(dead_code, reason = "dropped with the value")] HeldBuffer),
}

/// The landing of a readback.
pub(crate) struct Landing {
    memory: UnsafeCell<Option<HostMemory>>,
    pointer: *mut u8,
    bytes: usize,
    failure: OnceLock<FailureRef>,
}

// SAFETY: the queue writes through the pointer until it publishes the cursor, and `take` is called after that.
unsafe impl Send for Landing {}
// SAFETY: as above; shared access is limited to the pointer, the length and the `OnceLock`.
unsafe impl Sync for Landing {}

impl Landing {
    /// Creates a landing in fresh zeroed memory.
    ///
    /// # Errors
    /// [`MemoryError::Host`].
    pub(crate) fn fresh(bytes: usize) -> Result<Self, MemoryError> {
        let mut memory = zeroed(bytes)?;
        let pointer = memory.as_mut_ptr().cast();
        Ok(Self::over(HostMemory::Owned(memory), pointer, bytes))
    }

    /// Creates a landing in writable memory of a Python object.
    pub(crate) fn within(held: HeldBuffer) -> Self {
        let (pointer, bytes) = held.target();
        Self::over(HostMemory::Held(held), pointer, bytes)
    }

    fn over(memory: HostMemory, pointer: *mut u8, bytes: usize) -> Self {
        Self {
            memory: UnsafeCell::new(Some(memory)),
            pointer,
            bytes,
            failure: OnceLock::new(),
        }
    }
}

impl LandingTrait for Landing {
    fn target(&self) -> (*mut u8, usize) {
        (self.pointer, self.bytes)
    }

    fn fail(&self, failure: FailureRef) {
        // Only the first failure is kept.
        let _ = self.failure.set(failure);
    }
}

impl Landed<HostMemory> for Landing {
    unsafe fn take(&self) -> Result<HostMemory, FailureRef> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.clone());
        }
        // SAFETY: the queue has finished, and this is called once, by the contract of `take`.
        let memory = unsafe { (*self.memory.get()).take() };
        Ok(memory.unwrap_or_else(|| HostMemory::Owned(Vec::new())))
    }
}

/// Memory of ours that a readback has written. Python may write it through views; Rust does not access it any more.
pub(crate) struct HostBlock(UnsafeCell<Vec<u64>>);

// SAFETY: Rust only takes the pointer of the memory. Accesses are those of Python, through views.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    pub(crate) fn new(memory: Vec<u64>) -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(memory)))
    }
}

/// The elements of a readback. `numpy.asarray` makes an array of it without a copy.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct HostArray {
    memory: Arc<HostBlock>,
    layout: Layout,
}

impl HostArray {
    pub(crate) fn new(memory: Arc<HostBlock>, dtype: DType, shape: &[usize]) -> Self {
        Self {
            memory,
            layout: Layout::new(dtype, shape),
        }
    }
}

#[pymethods]
impl HostArray {
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let array = slf.get();
        // SAFETY: nothing else in Rust accesses the vector, whose buffer never moves.
        let pointer = unsafe { (*array.memory.0.get()).as_mut_ptr().cast::<u8>() };
        let owner = slf.clone().into_any();
        // SAFETY: the interpreter passes a valid view, which holds a reference to this object, the owner of the layout
        // and of the memory.
        unsafe { array.layout.fill(view, flags, (pointer, true), owner) }
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}

    fn __len__(&self) -> usize {
        self.layout.len()
    }
}

//! Memory on the host that readbacks write: fresh memory, or an array of the caller.
//!
//! ```text
//!  Stream.read ──► Landing ──► the queue writes it ──► HostMemory::Owned ──► HostArray ──► numpy.ndarray (a view)
//!                                                  └─► HostMemory::Held  ──► the caller's array
//! ```
//! Python sees owned memory only once the queue has finished with it, and from then on nothing else uses it: it is freed
//! with the last view of it, and never reused.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use millstream::backend::{Landed, Landing as LandingTrait};
use millstream::{DType, FailureRef, MemoryError};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::element::format_of;
use crate::held::HeldBuffer;

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
        let words = bytes.div_ceil(size_of::<u64>());
        let memory = bytemuck::allocation::try_zeroed_slice_box(words);
        let no_memory = |()| MemoryError::Host {
            requested: bytes as u64,
        };
        let mut memory: Vec<u64> = memory.map_err(no_memory)?.into_vec();
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

/// The elements of a readback. `numpy.asarray` makes an array of it without a copy.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct HostArray {
    /// Python may write it through views; Rust does not access it any more.
    memory: UnsafeCell<Vec<u64>>,
    dtype: DType,
    bytes: usize,
    shape: Box<[isize]>,
    strides: Box<[isize]>,
}

// SAFETY: Rust only takes the pointer of the memory. Accesses are those of Python, through views.
unsafe impl Sync for HostArray {}

impl HostArray {
    pub(crate) fn new(memory: Vec<u64>, dtype: DType, shape: &[usize]) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut stride = dtype.size();
        for (place, length) in strides.iter_mut().zip(shape).rev() {
            *place = stride as isize;
            stride *= length;
        }
        Self {
            memory: UnsafeCell::new(memory),
            dtype,
            bytes: shape.iter().product::<usize>() * dtype.size(),
            shape: shape.iter().map(|length| *length as isize).collect(),
            strides: strides.into(),
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
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let array = slf.get();
        // A view without axes has neither shape nor strides.
        let has_axes = !array.shape.is_empty();
        let has = |flag: c_int| flags & flag == flag;
        // SAFETY: nothing else in Rust accesses the vector, whose buffer never moves.
        let pointer = unsafe { (*array.memory.get()).as_mut_ptr() };
        // SAFETY: `view` is valid for writes. The pointers that it receives live as long as the object, to which the
        // view holds a reference in `obj`.
        unsafe {
            (*view).buf = pointer.cast::<c_void>();
            (*view).len = array.bytes as isize;
            (*view).readonly = 0;
            (*view).itemsize = array.dtype.size() as isize;
            (*view).format = match has(ffi::PyBUF_FORMAT) {
                true => format_of(array.dtype).as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = array.shape.len() as c_int;
            (*view).shape = match has_axes && has(ffi::PyBUF_ND) {
                true => array.shape.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).strides = match has_axes && has(ffi::PyBUF_STRIDES) {
                true => array.strides.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.clone().into_any().into_ptr();
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}

    fn __len__(&self) -> usize {
        self.shape.first().map_or(0, |length| *length as usize)
    }
}

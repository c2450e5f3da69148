//! Views of the buffer protocol: what `__getbuffer__` fills in.

use std::ffi::{c_int, c_void};

use millstream::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::element::format_of;

/// The layout of C-contiguous elements. A view has pointers into it.
pub(crate) struct Layout {
    dtype: DType,
    bytes: usize,
    shape: Box<[isize]>,
    /// In bytes.
    strides: Box<[isize]>,
}

impl Layout {
    pub(crate) fn new(dtype: DType, shape: &[usize]) -> Self {
        Self {
            dtype,
            // Checked where the shape was made, by `elements::checked_bytes`.
            bytes: shape.iter().product::<usize>() * dtype.size(),
            shape: shape.iter().map(|length| *length as isize).collect(),
            strides: strides_of(shape, dtype.size()).collect(),
        }
    }

    /// Fills in a view of `memory` with this layout.
    ///
    /// # Errors
    /// `BufferError` if the consumer requests what the memory is not: writable, or in Fortran's order.
    ///
    /// # Safety
    /// `view` is null or valid for writes. `self` stays where it is as long as the view, and `pointer` is that of
    /// memory of this layout.
    pub(crate) unsafe fn fill(
        &self,
        view: *mut ffi::Py_buffer,
        flags: c_int,
        (pointer, is_writable): (*mut u8, bool),
        owner: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        // SAFETY: `view` is valid for writes. A view that is refused has no owner.
        unsafe { (*view).obj = std::ptr::null_mut() };
        check_access(flags, is_writable)?;
        let has = |flag: c_int| flags & flag == flag;
        // With at most one axis longer than 1, both orders are the same.
        let is_fortran = self.shape.iter().filter(|length| **length > 1).count() <= 1;
        if has(ffi::PyBUF_F_CONTIGUOUS) && !is_fortran {
            let message = "the elements are in C's order, and not in Fortran's";
            return Err(PyBufferError::new_err(message));
        }
        // A view without axes has neither shape nor strides.
        let has_axes = !self.shape.is_empty();
        // SAFETY: `view` is valid for writes. The pointers that it receives live as long as the view, by the contract
        // of this function.
        unsafe {
            (*view).buf = pointer.cast::<c_void>();
            (*view).len = self.bytes as isize;
            (*view).readonly = c_int::from(!is_writable);
            (*view).itemsize = self.dtype.size() as isize;
            (*view).format = match has(ffi::PyBUF_FORMAT) {
                true => format_of(self.dtype).as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = self.shape.len() as c_int;
            (*view).shape = match has_axes && has(ffi::PyBUF_ND) {
                true => self.shape.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).strides = match has_axes && has(ffi::PyBUF_STRIDES) {
                true => self.strides.as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = owner.into_ptr();
        }
        Ok(())
    }
}

/// Refuses a consumer that wants to write memory that is read-only.
pub(crate) fn check_access(flags: c_int, is_writable: bool) -> PyResult<()> {
    if flags & ffi::PyBUF_WRITABLE == 0 || is_writable {
        return Ok(());
    }
    Err(PyBufferError::new_err(
        "the memory is read-only; `buffer.map(writable=True)` returns a writable view",
    ))
}

/// Returns the strides of C-contiguous elements, in units of which an element has `unit`. The shape was checked by
/// `elements::checked_bytes`, so that no stride overflows.
pub(crate) fn strides_of(shape: &[usize], unit: usize) -> impl Iterator<Item = isize> {
    (0..shape.len()).map(move |axis| (unit * shape[axis + 1..].iter().product::<usize>()) as isize)
}

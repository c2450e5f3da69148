//! Views of the buffer protocol: what `__getbuffer__` fills in. Each owns a pin.

use std::ffi::c_int;
use std::ptr::null_mut;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Buffer;
use super::pin::PinUse;
use crate::element::form_of;
use crate::elements::strides_of;

/// What a view points to.
struct Viewed {
    _pin: PinUse,
    shape: Box<[isize]>,
    /// In bytes.
    strides: Box<[isize]>,
}

/// Fills in a view of a buffer, which owns its pin.
///
/// # Errors
/// `BufferError` if the consumer requests what the memory is not: writable, or in Fortran's order.
///
/// # Safety
/// `view` is null or valid for writes, and [`release`] is called once for each view that this fills in.
pub(crate) unsafe fn fill(
    view: *mut ffi::Py_buffer,
    flags: c_int,
    pin: PinUse,
    buffer: &Buffer,
    owner: Bound<'_, PyAny>,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("the view is null"));
    }
    // SAFETY: `view` is valid for writes. A view that is refused has no owner.
    unsafe { (*view).obj = null_mut() };
    check_access(flags, pin.is_writable())?;
    let has = |flag: c_int| flags & flag == flag;
    let (shape, size) = (&*buffer.shape, buffer.dtype.size());
    // With at most one axis longer than 1, both orders are the same.
    let is_fortran = shape.iter().filter(|length| **length > 1).count() <= 1;
    if has(ffi::PyBUF_F_CONTIGUOUS) && !is_fortran {
        let message = "the elements are in C's order, and not in Fortran's";
        return Err(PyBufferError::new_err(message));
    }
    // A view without axes has neither shape nor strides.
    let has_axes = !shape.is_empty();
    let pointer_if = |is_wanted: bool, lengths: &[isize]| match is_wanted && has_axes {
        true => lengths.as_ptr().cast_mut(),
        false => null_mut(),
    };
    let (pointer, is_writable) = (pin.pointer(), pin.is_writable());
    let viewed = Viewed {
        _pin: pin,
        shape: shape.iter().map(|length| *length as isize).collect(),
        strides: strides_of(shape, size).collect(),
    };
    // SAFETY: `view` is valid for writes. What it points to lives until `release`: the elements of a box stay where they
    // are.
    unsafe {
        (*view).buf = pointer.cast();
        (*view).len = buffer.handle.size() as isize;
        (*view).readonly = c_int::from(!is_writable);
        (*view).itemsize = size as isize;
        (*view).format = match has(ffi::PyBUF_FORMAT) {
            true => form_of(buffer.dtype).format.as_ptr().cast_mut(),
            false => null_mut(),
        };
        (*view).ndim = shape.len() as c_int;
        (*view).shape = pointer_if(has(ffi::PyBUF_ND), &viewed.shape);
        (*view).strides = pointer_if(has(ffi::PyBUF_STRIDES), &viewed.strides);
        (*view).suboffsets = null_mut();
        (*view).internal = Box::into_raw(Box::new(viewed)).cast();
        (*view).obj = owner.into_ptr();
    }
    Ok(())
}

/// Releases the pin of a view.
///
/// # Safety
/// The view was filled in by [`fill`].
pub(crate) unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: the interpreter passes the view that `fill` filled in, once.
    drop(unsafe { Box::from_raw((*view).internal.cast::<Viewed>()) });
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

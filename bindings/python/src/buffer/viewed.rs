//! Views of the buffer protocol that own a pin.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;

use super::pin::PinUse;
use crate::exchange::view::Layout;

/// A pinned buffer, as long as a view of it.
struct Viewed {
    pin: PinUse,
    layout: Layout,
}

/// Fills in a view that owns a pin.
///
/// # Safety
/// `view` is null or valid for writes, and [`release`] is called once for each view that this fills in.
pub(crate) unsafe fn fill(
    view: *mut ffi::Py_buffer,
    flags: c_int,
    (pin, layout): (PinUse, Layout),
    owner: Bound<'_, PyAny>,
) -> PyResult<()> {
    let viewed = Box::new(Viewed { pin, layout });
    let memory = (viewed.pin.pointer(), viewed.pin.is_writable());
    // SAFETY: the box stays where it is until `release`.
    unsafe { viewed.layout.fill(view, flags, memory, owner)? };
    // SAFETY: the view was just filled in.
    unsafe { (*view).internal = Box::into_raw(viewed).cast() };
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

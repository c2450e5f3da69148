//! Memory of Python that a call uploads: an object with the buffer protocol, or anything that NumPy converts.

use millstream::DType;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use crate::element::{self, of_format};
use crate::errors::argument_error;

/// C-contiguous memory of a Python object, with its element type and shape.
pub(crate) struct Input {
    pub(crate) buffer: PyUntypedBuffer,
    pub(crate) dtype: DType,
    pub(crate) shape: Box<[usize]>,
}

impl Input {
    /// Exports the memory of `data`. An array of another type or layout is converted by NumPy, which copies it.
    pub(crate) fn of(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Self> {
        if let Ok(buffer) = PyUntypedBuffer::get(data)
            && buffer.is_c_contiguous()
            && let Some(found) = accepted(&buffer, dtype)
        {
            let shape = buffer.shape().into();
            return Ok(Self::new(buffer, found, shape));
        }
        let py = data.py();
        let wanted = match dtype {
            Some(dtype) => element::class_of(py, dtype)?,
            None => py.None(),
        };
        let converted = py
            .import("millstream._types")?
            .call_method1("contiguous", (data, wanted))?;
        let (converted, shape): (Bound<'_, PyAny>, Vec<usize>) = converted.extract()?;
        let buffer = PyUntypedBuffer::get(&converted)?;
        match accepted(&buffer, dtype) {
            Some(found) => Ok(Self::new(buffer, found, shape.into())),
            None => {
                let format = buffer.format().to_string_lossy().into_owned();
                let message =
                    format!("elements of format `{format}` are not supported; pass a dtype");
                Err(argument_error(py, message))
            }
        }
    }

    fn new(buffer: PyUntypedBuffer, dtype: DType, shape: Box<[usize]>) -> Self {
        Self {
            buffer,
            dtype,
            shape,
        }
    }

    /// Returns the memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.buffer.len_bytes() {
            // The pointer of an empty buffer may be null.
            0 => &[],
            // SAFETY: the memory is exported, so it stays where it is. Another thread of Python could write it during
            // the call, as for every API that reads an array without the interpreter's lock; the bytes are only copied.
            bytes => unsafe {
                std::slice::from_raw_parts(self.buffer.buf_ptr().cast::<u8>(), bytes)
            },
        }
    }
}

/// Returns the element type of a buffer, if it is the wanted one. `bf16` has no format: its bits are those of a `u16`.
fn accepted(buffer: &PyUntypedBuffer, wanted: Option<DType>) -> Option<DType> {
    let found = of_format(buffer.format(), buffer.item_size())?;
    match wanted {
        Some(DType::Bf16) if found == DType::U16 => Some(DType::Bf16),
        Some(wanted) => (found == wanted).then_some(wanted),
        None => Some(found),
    }
}

/// Exports an array that a readback writes.
///
/// # Errors
/// If it is read-only, not contiguous, or of another type or number of elements.
pub(crate) fn output(
    out: &Bound<'_, PyAny>,
    dtype: DType,
    elements: usize,
) -> PyResult<PyUntypedBuffer> {
    let py = out.py();
    let buffer = PyUntypedBuffer::get(out)?;
    if buffer.readonly() {
        return Err(argument_error(
            py,
            "`out` is read-only; pass a writable array",
        ));
    }
    if !buffer.is_c_contiguous() {
        let message = "`out` is not contiguous; pass `numpy.empty(..)` or a contiguous view";
        return Err(argument_error(py, message));
    }
    if accepted(&buffer, Some(dtype)).is_none() {
        let format = buffer.format().to_string_lossy().into_owned();
        let message = format!("`out` must have elements of {dtype}, got format `{format}`");
        return Err(argument_error(py, message));
    }
    if buffer.item_count() != elements {
        let given = buffer.item_count();
        let message = format!("`out` must have {elements} elements, got {given}");
        return Err(argument_error(py, message));
    }
    Ok(buffer)
}

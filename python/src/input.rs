//! Memory of Python that a call uploads: an object with the buffer protocol or DLPack, or anything that NumPy converts.

use millstream::DType;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;

use crate::element::{self, of_format};
use crate::errors::argument_error;
use crate::exchange::import::DlTensor;
use crate::held::HeldBuffer;

/// C-contiguous memory of a Python object, with its element type and shape.
pub(crate) struct Input {
    pub(crate) held: HeldBuffer,
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
        if has_dlpack(data)?
            && let Some(tensor) = DlTensor::of_typed(data, dtype)?
        {
            return Self::of_tensor(py, tensor);
        }
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
            held: HeldBuffer::new(buffer),
            dtype,
            shape,
        }
    }

    /// Takes the memory of a tensor; gathers elements that are not contiguous.
    pub(crate) fn of_tensor(py: Python<'_>, tensor: DlTensor) -> PyResult<Self> {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().into());
        let held = match tensor.is_contiguous() {
            true => HeldBuffer::of_tensor(tensor),
            false => HeldBuffer::gathered(py, tensor)?,
        };
        Ok(Self { held, dtype, shape })
    }
}

/// Whether an object that NumPy did not make offers DLPack.
fn has_dlpack(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = data.py();
    // NumPy converts its own arrays better: those of subclasses, of other byte orders, and those that are read-only.
    let numpy = py.import("numpy")?.getattr("ndarray")?;
    Ok(!data.is_instance(&numpy)? && data.hasattr("__dlpack__")?)
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

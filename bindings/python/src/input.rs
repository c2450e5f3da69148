//! Memory of Python that a call uploads: an object with the buffer protocol or DLPack, or anything that NumPy converts.

use millstream::DType;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::element::{self, of_format};
use crate::elements::{checked_bytes, tuple_of};
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
    ///
    /// # Errors
    /// `BufferError` for elements with strides unless `copies`, and what NumPy raises.
    pub(crate) fn of(
        data: &Bound<'_, PyAny>,
        dtype: Option<DType>,
        copies: bool,
    ) -> PyResult<Self> {
        let py = data.py();
        if let Ok(buffer) = PyUntypedBuffer::get(data) {
            if !buffer.is_c_contiguous() {
                if !copies {
                    return Err(has_strides("copy=True"));
                }
            } else if let Some(found) = accepted(&buffer, dtype) {
                let shape = buffer.shape().into();
                return Self::new(buffer, found, shape);
            }
        }
        if has_dlpack(data)?
            && let Some(tensor) = DlTensor::of_typed(data, dtype)?
        {
            if !copies && !tensor.is_contiguous() {
                return Err(has_strides("copy=True"));
            }
            return Self::of_tensor(py, tensor);
        }
        let wanted = match dtype {
            Some(dtype) => element::class_of(py, dtype)?,
            None => py.None(),
        };
        let converted = py
            .import("millstream._types")?
            .call_method1("contiguous", (data, wanted))?;
        let (converted, shape, is_bf16): (Bound<'_, PyAny>, Vec<usize>, bool) =
            converted.extract()?;
        let buffer = PyUntypedBuffer::get(&converted)?;
        match accepted(&buffer, if is_bf16 { Some(DType::Bf16) } else { dtype }) {
            Some(found) => Self::new(buffer, found, shape.into()),
            None => {
                let format = buffer.format().to_string_lossy().into_owned();
                let message =
                    format!("elements of format `{format}` are not supported; pass a dtype");
                Err(argument_error(message))
            }
        }
    }

    fn new(buffer: PyUntypedBuffer, dtype: DType, shape: Box<[usize]>) -> PyResult<Self> {
        // Not what the exporter says: a buffer's shape never has more elements than its memory.
        if checked_bytes(&shape, dtype.size()) != Some(buffer.len_bytes()) {
            let (shape, bytes) = (tuple_of(&shape), buffer.len_bytes());
            let message = format!("{bytes} bytes are no array of {dtype} of shape {shape}");
            return Err(argument_error(message));
        }
        Ok(Self {
            held: HeldBuffer::new(buffer),
            dtype,
            shape,
        })
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

/// Refuses elements that are not contiguous, which `instead` would copy.
pub(crate) fn has_strides(instead: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the array has strides and must be copied to be uploaded; pass `{instead}`, or a contiguous array"
    ))
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
    let buffer = match dtype {
        // An array of `ml_dtypes` has no buffer protocol, but its bits have.
        DType::Bf16 => {
            let bits = py.import("millstream._types")?.getattr("bits_of_bf16")?;
            PyUntypedBuffer::get(&bits.call1((out,))?)?
        }
        _ => PyUntypedBuffer::get(out)?,
    };
    if buffer.readonly() {
        return Err(argument_error("`out` is read-only; pass a writable array"));
    }
    if !buffer.is_c_contiguous() {
        let message = "`out` is not contiguous; pass `numpy.empty(..)` or a contiguous view";
        return Err(argument_error(message));
    }
    if accepted(&buffer, Some(dtype)).is_none() {
        let format = buffer.format().to_string_lossy().into_owned();
        let message = format!("`out` must have elements of {dtype}, got format `{format}`");
        return Err(argument_error(message));
    }
    if buffer.item_count() != elements {
        let given = buffer.item_count();
        let message = format!("`out` must have {elements} elements, got {given}");
        return Err(argument_error(message));
    }
    Ok(buffer)
}

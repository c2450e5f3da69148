//! A typed view of device memory, and how other libraries share that memory without a copy (`exchange`).
//!
//! # Lifetimes
//! A [`Pin`] is a guard of [`millstream::Stream::get_resource`]. It is taken once all tasks have completed that write
//! the bytes (for a writable pin: that use them). Until it is dropped, the runtime holds tasks back that would write them,
//! and reuses no byte of them: the guard is a task that has not completed. Each export owns a reference to its pin, so the
//! pin lasts as long as its last consumer. The deleter of a capsule may run on any thread, attached or not: it drops Rust
//! values only.
//!
//! On CUDA the work of a consumer may run on after it has freed the array. So the pin is kept until the stream that the
//! consumer has passed to `__dlpack__` has completed its work; one thread waits for that, for all arrays ([`export`]). The
//! consumer need not wait for us: the tasks before the pin are complete.
//!
//! | module | contents |
//! | --- | --- |
//! | `pin` | memory of a buffer that is kept for a consumer |
//! | `export` | capsules of DLPack that we make |
//! | `viewed` | views of the buffer protocol |
//! | `mapped` | `MappedBuffer` |

mod export;
pub(crate) mod mapped;
mod pin;
mod viewed;

use std::ffi::c_int;
use std::ops::Range;
use std::sync::Arc;

use millstream::{DType, Error, Handle};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use self::export::Request;
use self::mapped::MappedBuffer;
use self::pin::Pin;
use crate::element;
use crate::elements::{bytes_of, tuple_of};
use crate::errors::{argument_error, exception};
use crate::exchange::origin::Origin;

/// A typed view of device memory, with a shape.
///
/// The memory is freed once its last view is gone and the last task that uses it has completed.
///
/// ```text
/// def __len__(self) -> int
///     Returns the length of the first axis.
/// def __getitem__(self, index: int | slice | np.integer[Any], /) -> Buffer
///     Returns a view of a range of the first axis, or of one of its rows without that axis. Copies nothing.
///
///     :raises IndexError: the first axis has no such row
/// def __buffer__(self, flags: int, /) -> memoryview
///     Returns a read-only view, and waits and holds tasks back as `map` does: ``numpy.asarray(buffer)``.
/// ```
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Buffer {
    pub(crate) handle: Handle<u8>,
    pub(crate) dtype: DType,
    pub(crate) shape: Arc<[usize]>,
    pub(crate) origin: Arc<Origin>,
}

impl Buffer {
    pub(crate) fn new(
        handle: Handle<u8>,
        dtype: DType,
        shape: Arc<[usize]>,
        origin: Arc<Origin>,
    ) -> Self {
        Self {
            handle,
            dtype,
            shape,
            origin,
        }
    }

    fn view_of(&self, handle: Handle<u8>, dtype: DType, shape: Arc<[usize]>) -> Self {
        Self::new(handle, dtype, shape, self.origin.clone())
    }

    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> usize {
        // Every shape was checked by `elements::checked_bytes`.
        self.shape.iter().product()
    }

    /// Returns the first axis.
    fn first(&self) -> PyResult<usize> {
        let first = self.shape.first().copied();
        first.ok_or_else(|| PyTypeError::new_err("a buffer of shape () has no axis"))
    }

    /// Returns a view of some rows of the first axis, with this shape.
    fn rows(&self, rows: Range<usize>, shape: &[usize]) -> PyResult<Self> {
        // No more than the bytes of the buffer, unless there are none.
        let row = bytes_of(&self.shape[1..], self.dtype.size())?;
        let (start, end) = (rows.start.checked_mul(row), rows.end.checked_mul(row));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(argument_error("the range exceeds 2^64 bytes"));
        };
        let view = self.handle.slice(start..end);
        let view = view.map_err(|error| exception(Error::from(error)))?;
        Ok(self.view_of(view, self.dtype, shape.into()))
    }

    /// Returns the name of the buffer in messages, as `repr` does.
    pub(crate) fn describe(&self) -> String {
        let backend = self.origin.client.properties().backend;
        let shape = tuple_of(&self.shape);
        format!("Buffer({}, shape={shape}, device='{backend}')", self.dtype)
    }
}

#[pymethods]
impl Buffer {
    /// `-> type[Value]`
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::class_of(py, self.dtype)
    }

    /// `-> tuple[int, ...]`
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.iter())
    }

    /// `-> int`
    ///
    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.elements()
    }

    /// `-> int`
    ///
    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.handle.size()
    }

    /// `-> bool`
    ///
    /// Whether this is the only view of its memory.
    #[getter]
    fn unique(&self) -> bool {
        self.handle.is_unique()
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.shape.first().copied();
        first.ok_or_else(|| PyTypeError::new_err("a buffer of shape () has no length"))
    }

    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, length) = (index.py(), self.first()?);
        let Ok(range) = index.cast::<PySlice>() else {
            let number: i64 = index.extract().map_err(|error: PyErr| {
                match error.is_instance_of::<PyOverflowError>(py) {
                    true => out_of_range(index, length),
                    false => PyTypeError::new_err(format!(
                        "a buffer takes an integer or a slice of its first axis as index, got {}",
                        index.get_type()
                    )),
                }
            })?;
            let from_end = if number < 0 { length as i64 } else { 0 };
            let row = usize::try_from(number.saturating_add(from_end)).ok();
            let row = row.filter(|row| *row < length);
            let row = row.ok_or_else(|| out_of_range(index, length))?;
            return self.rows(row..row + 1, &self.shape[1..]);
        };
        let indices = range.indices(length as isize)?;
        if indices.step != 1 {
            return Err(argument_error(
                "a view has step 1: copy the elements instead",
            ));
        }
        let start = indices.start as usize;
        let end = (indices.stop as usize).max(start);
        let mut shape = self.shape.to_vec();
        shape[0] = end - start;
        self.rows(start..end, &shape)
    }

    /// `(shape: Sequence[int], /) -> Buffer`
    /// `(*shape: int) -> Buffer`
    ///
    /// Returns a view with another shape of as many elements: ``reshape(4, -1)`` or ``reshape((4, -1))``.
    ///
    /// :param shape: the lengths; one of them may be -1 and is that which fits
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let py = shape.py();
        let given = (self.shape(py)?, self.dtype.size(), shape);
        let types = py.import("millstream._types")?;
        let shape: Vec<usize> = types.call_method1("reshaped", given)?.extract()?;
        Ok(self.view_of(self.handle.clone(), self.dtype, shape.into()))
    }

    /// `(dtype: DTypeLike) -> Buffer`
    ///
    /// Returns a view of the same bytes as elements of another type.
    fn view(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dtype = element::parse(dtype)?;
        let (bytes, size) = (self.handle.size(), dtype.size() as u64);
        if !bytes.is_multiple_of(size) || !self.handle.start().is_multiple_of(size) {
            let message = format!(
                "{bytes} bytes from byte {} on are not whole, aligned elements of {dtype}",
                self.handle.start()
            );
            return Err(argument_error(message));
        }
        let shape = match dtype.size() == self.dtype.size() {
            true => self.shape.clone(),
            false => [(bytes / size) as usize].into(),
        };
        Ok(self.view_of(self.handle.clone(), dtype, shape))
    }

    /// `(*, writable: bool = False) -> MappedBuffer`
    ///
    /// Waits for the tasks that write the buffer, and returns its memory.
    ///
    /// Tasks that would write the buffer are held back as long as the memory is in use. If it is writable, also tasks that
    /// would read it are waited for and held back.
    ///
    /// :raises BufferError: the memory is of Vulkan, which no consumer can use: use `Stream.read`; or this thread has a
    ///     view of the same bytes, for whose end the call would wait for ever
    /// :raises TaskFailed: a task failed that writes the buffer
    #[pyo3(signature = (*, writable=false))]
    fn map(slf: &Bound<'_, Self>, writable: bool) -> PyResult<MappedBuffer> {
        MappedBuffer::new(slf, writable)
    }

    /// `(*, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int,
    /// int] | None = None, copy: bool | None = None) -> Any`
    ///
    /// Exports the buffer by DLPack, for ``numpy.from_dlpack`` and functions like it, and waits as `map` does.
    ///
    /// The memory itself is exported read-only, until the consumer frees it; meanwhile tasks that would write it are held
    /// back. With ``copy=True``, and on GPUs with ``dl_device=(1, 0)``, a copy on the host is exported, which is writable.
    /// A consumer of DLPack before 1.0, which knows no read-only memory, gets a copy of memory of the host;
    /// ``buffer.map(writable=True)`` shares it.
    ///
    /// :param stream: of CUDA alone: the stream by which the consumer uses the memory, which it keeps until it has freed the
    ///     array; 1, or ``None``, is the legacy default stream. It need not wait for a task, since all earlier tasks are
    ///     complete. Once the array is freed, later tasks wait for the work that the stream has then; for ever, if the
    ///     stream is in a capture. With -1 they do not wait: the consumer's work on the memory must be complete when it frees
    ///     the array.
    /// :raises BufferError: the request cannot be met; or this thread has a writable view of the same bytes, for whose end
    ///     the call would wait for ever
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request {
            stream,
            max_version,
            dl_device,
            copy,
        };
        request.export(py, self, None)
    }

    /// `() -> tuple[int, int]`
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.origin.place.device();
        (device.kind, device.index)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let buffer = slf.get();
        // Before the wait.
        viewed::check_access(flags, false)?;
        let pin = Pin::of_host(slf.py(), buffer, false)?;
        // SAFETY: the interpreter passes a valid view, and calls `__releasebuffer__` for it.
        unsafe { viewed::fill(view, flags, pin, buffer, slf.clone().into_any()) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` has filled in the view.
        unsafe { viewed::release(view) }
    }

    fn __repr__(&self) -> String {
        self.describe()
    }
}

fn out_of_range(index: &Bound<'_, PyAny>, length: usize) -> PyErr {
    PyIndexError::new_err(format!(
        "index {index} is out of range for an axis of length {length}"
    ))
}

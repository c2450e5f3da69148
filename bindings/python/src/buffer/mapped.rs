//! `MappedBuffer`: memory of a buffer that Python reads, or writes, until it is released.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::export::Request;
use super::pin::{Pin, PinUse, check_host};
use super::{Buffer, viewed};
use crate::element;
use crate::exchange::origin::Place;
use crate::metrics::dict;

/// Memory of a buffer that Python reads, or writes, in place: `Buffer.map`.
///
/// Arrays are made of it by the buffer protocol (``numpy.asarray``), DLPack (``numpy.from_dlpack``) or the array
/// interface, without a copy. On CUDA there are DLPack and the CUDA array interface. Until `release`, and until the last
/// such array is gone, the tasks are held back that would write the memory; if it is writable, also those that would read
/// it. `release` is called at the end of a ``with`` block.
///
/// ```text
/// def __buffer__(self, flags: int, /) -> memoryview
/// ```
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct MappedBuffer {
    buffer: Py<Buffer>,
    is_writable: bool,
    mapping: Mutex<Mapping>,
}

struct Mapping {
    /// `None` once released.
    pin: Option<PinUse>,
    /// Whether a consumer has the address and no other reference than the one to this object.
    has_interface: bool,
}

impl MappedBuffer {
    pub(crate) fn new(buffer: &Bound<'_, Buffer>, is_writable: bool) -> PyResult<Self> {
        let pin = Pin::take(buffer.py(), buffer.get(), is_writable)?;
        Ok(Self {
            buffer: buffer.clone().unbind(),
            is_writable,
            mapping: Mutex::new(Mapping {
                pin: Some(pin),
                has_interface: false,
            }),
        })
    }

    fn locked(&self) -> MutexGuard<'_, Mapping> {
        // A panic cannot leave the value in a bad state. The lock is held for a moment only, and by threads that are
        // attached.
        self.mapping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pin(&self) -> PyResult<PinUse> {
        self.locked().pin.clone().ok_or_else(released)
    }
}

impl MappedBuffer {
    /// Returns what the array interfaces of the host and of CUDA have in common.
    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let buffer = self.buffer.get();
        let address = {
            // In one step: from here on a `release` of another thread keeps the pin.
            let mut mapping = self.locked();
            let address = mapping.pin.as_ref().ok_or_else(released)?.pointer().addr();
            mapping.has_interface = true;
            address
        };
        Ok(dict!(py;
            version: 3, shape: self.shape(py)?, typestr: element::typestr_of(buffer.dtype),
            data: (address, !self.is_writable), strides: py.None(),
        ))
    }
}

fn released() -> PyErr {
    PyBufferError::new_err("the buffer is no longer mapped; call `buffer.map()` again")
}

/// The consumer looks for another interface then.
fn no_attribute(name: &str, place: &str) -> PyErr {
    PyAttributeError::new_err(format!("the memory is not {place}, so it has no `{name}`"))
}

#[pymethods]
impl MappedBuffer {
    /// `-> type[Value]`
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::class_of(py, self.buffer.get().dtype)
    }

    /// `-> tuple[int, ...]`
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.buffer.get().shape.iter())
    }

    /// `-> Buffer`
    #[getter]
    fn buffer(&self, py: Python<'_>) -> Py<Buffer> {
        self.buffer.clone_ref(py)
    }

    /// `-> bool`
    #[getter]
    fn writable(&self) -> bool {
        self.is_writable
    }

    /// `-> bool`
    ///
    /// Whether no further array can be made of it.
    #[getter]
    fn released(&self) -> bool {
        self.locked().pin.is_none()
    }

    /// `() -> None`
    ///
    /// Ends the mapping. Arrays that were made of it stay valid, and go on to hold tasks back.
    ///
    /// Does nothing once an array interface has been read, since its arrays keep no other reference than to this
    /// object: the mapping ends with the object then.
    fn release(&self) {
        let mut mapping = self.locked();
        if !mapping.has_interface {
            let pin = mapping.pin.take();
            // The end of the pin may run the device: not under the lock.
            drop(mapping);
            drop(pin);
        }
    }

    /// `() -> Self`
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// `(kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /) -> None`
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.release();
    }

    /// `-> dict[str, Any]`
    ///
    /// Memory of the host. On other backends the attribute does not exist.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.buffer.get().origin.place {
            Place::Cpu | Place::Sim => self.interface(py),
            _ => Err(no_attribute("__array_interface__", "on the host")),
        }
    }

    /// `-> dict[str, Any]`
    ///
    /// Memory of CUDA, version 3. On other backends the attribute does not exist.
    ///
    /// The consumer's work on the memory must be complete when it lets go of this object.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Place::Cuda(_) = self.buffer.get().origin.place else {
            return Err(no_attribute("__cuda_array_interface__", "of CUDA"));
        };
        let all = self.interface(py)?;
        // The GPU has completed all tasks before: there is no stream to wait for.
        all.set_item("stream", py.None())?;
        Ok(all)
    }

    /// `(*, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int,
    /// int] | None = None, copy: bool | None = None) -> Any`
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
        request.export(py, self.buffer.get(), Some(self.pin()?))
    }

    /// `() -> tuple[int, int]`
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.buffer.get().origin.place.device();
        (device.kind, device.index)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let mapped = slf.get();
        let buffer = mapped.buffer.get();
        check_host(buffer)?;
        // SAFETY: the interpreter passes a valid view, and calls `__releasebuffer__` for it.
        unsafe { viewed::fill(view, flags, mapped.pin()?, buffer, slf.clone().into_any()) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` has filled in the view.
        unsafe { viewed::release(view) }
    }

    fn __repr__(&self) -> String {
        let buffer = self.buffer.get();
        let state = match (self.released(), self.is_writable) {
            (true, _) => "released",
            (false, true) => "writable",
            (false, false) => "read-only",
        };
        format!(
            "MappedBuffer({}, shape={:?}, {state})",
            buffer.dtype, buffer.shape
        )
    }
}

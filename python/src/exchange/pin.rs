//! Memory of a buffer that is kept for a consumer outside of the runtime: see the module above.

use std::sync::Arc;

use millstream::backend::Open;
use millstream::sim::{Sim, SimResources};
use millstream::{Access, Cpu, CpuResources, Handle, Pending, ResourceError, ResourceGuard, bind};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::origin::{CountedPin, Place};
use crate::buffer::Buffer;
use crate::errors::foreign_error;
use crate::submit::wait_for;

/// Memory of the host that belongs to a buffer. Until it is dropped, no task writes it, and none reads it if the pin is
/// writable. The memory is not reused.
pub(crate) struct Pin {
    pointer: *mut u8,
    is_writable: bool,
    // In the order in which they are dropped: the tasks that wait begin, then the memory may be freed.
    _guard: Box<dyn Send>,
    _handle: Handle<u8>,
    _counted: CountedPin,
}

// SAFETY: the guard and the handle may be dropped on any thread. The memory is accessed by the consumer alone.
unsafe impl Send for Pin {}
// SAFETY: shared access reads the pointer and a flag; the guard is not accessed before the drop.
unsafe impl Sync for Pin {}

impl Pin {
    /// Waits, detached, until the tasks that write the buffer have completed, and pins its memory. For a writable pin,
    /// waits for the tasks that read it as well.
    ///
    /// # Errors
    /// `BufferError` if the memory is not on the host, and the failure of the data.
    pub(crate) fn new(py: Python<'_>, buffer: &Buffer, is_writable: bool) -> PyResult<Arc<Self>> {
        match buffer.origin.place {
            Place::Cpu => Self::of::<Cpu>(py, buffer, is_writable),
            Place::Sim => Self::of::<Sim>(py, buffer, is_writable),
            Place::Cuda(_) | Place::Vulkan(_) => Err(PyBufferError::new_err(format!(
                "the memory of backend {:?} is not on the host; read it with `stream.read(buffer)`, or pass \
                 `copy=True, dl_device=(1, 0)` to `__dlpack__`",
                buffer.origin.client.properties().backend
            ))),
        }
    }

    fn of<O>(py: Python<'_>, buffer: &Buffer, is_writable: bool) -> PyResult<Arc<Self>>
    where
        O: Open + 'static,
        ResourceGuard<O>: HostGuard + Send + 'static,
    {
        let (origin, handle) = (&buffer.origin, buffer.handle.clone());
        let access = match is_writable {
            true => Access::ReadWrite,
            false => Access::Read,
        };
        let counted = origin.count_pin();
        // A stream of its own: a guard holds the later tasks of its stream back.
        let asked: Pending<ResourceGuard<O>> = py.detach(|| {
            let stream = origin.client.new_stream();
            stream.get_resource::<O>((bind(&handle, access),))
        });
        let guard = wait_for(py, asked)?;
        let pointer = guard.place(is_writable);
        let pointer = pointer.map_err(|error| foreign_error(py, error.to_string()))?;
        Ok(Arc::new(Self {
            pointer,
            is_writable,
            _guard: Box::new(guard),
            _handle: handle,
            _counted: counted,
        }))
    }

    /// Returns the address of the first byte.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Whether the consumer may write the memory.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }
}

/// A guard of memory on the host.
trait HostGuard {
    /// Returns the address of the only binding.
    fn place(&self, is_writable: bool) -> Result<*mut u8, ResourceError>;
}

fn place_of(resources: &CpuResources, is_writable: bool) -> Result<*mut u8, ResourceError> {
    Ok(match is_writable {
        true => resources.try_write::<u8>(0)?.as_mut_ptr(),
        // A read-only pin is exported as read-only memory.
        false => resources.try_read::<u8>(0)?.as_ptr().cast_mut(),
    })
}

impl HostGuard for ResourceGuard<Cpu> {
    fn place(&self, is_writable: bool) -> Result<*mut u8, ResourceError> {
        place_of(self, is_writable)
    }
}

impl HostGuard for ResourceGuard<Sim> {
    fn place(&self, is_writable: bool) -> Result<*mut u8, ResourceError> {
        let resources: &SimResources = self;
        place_of(resources, is_writable)
    }
}

//! Memory of a buffer that is kept for a consumer outside of the runtime: see the module above.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use millstream::backend::{Open, Refused};
use millstream::cuda::ConsumerStream;
use millstream::sim::Sim;
use millstream::{
    Access, Cpu, CpuResources, Cuda, Handle, Pending, ResourceGuard, bind, error::ResourceError,
};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::Buffer;
use crate::errors::named;
use crate::exchange::origin::{Place, Use};
use crate::submit::wait_for;

/// Memory that belongs to a buffer. Until it is dropped, no task writes it, and none reads it if the pin is writable. The
/// memory is not reused.
pub(crate) struct Pin {
    /// An address of the host, or of a GPU of CUDA.
    pointer: *mut u8,
    is_writable: bool,
    // In the order in which they are dropped: the tasks that wait begin, then the memory may be freed.
    guard: Guard,
    _handle: Handle<u8>,
}

/// A reference to a pin, of a consumer that uses the memory. The device counts the use, clones together.
#[derive(Clone)]
pub(crate) struct PinUse {
    pin: Arc<Pin>,
    _counted: Arc<Use>,
}

impl PinUse {
    /// Ends the use, and keeps the pin.
    pub(crate) fn end(self) -> Arc<Pin> {
        self.pin
    }
}

impl Deref for PinUse {
    type Target = Pin;

    fn deref(&self) -> &Pin {
        &self.pin
    }
}

enum Guard {
    Host(#[expect(dead_code, reason = "dropped with the value")] Box<dyn Send>),
    Cuda(ResourceGuard<Cuda>),
}

// SAFETY: the guard and the handle may be dropped on any thread. The memory is accessed by the consumer alone.
unsafe impl Send for Pin {}
// SAFETY: shared access reads the pointer and a flag. A guard of the host is not accessed before the drop, and that of a
// GPU reads handles, which the driver accepts on any thread.
unsafe impl Sync for Pin {}

impl Pin {
    /// Waits, detached, until the tasks that write the buffer have completed, and pins its memory. For a writable pin,
    /// waits for the tasks that read it as well.
    ///
    /// # Errors
    /// `BufferError` if no consumer can use the memory, or if the wait would be for a view that this thread has; and the
    /// failure of the data.
    pub(crate) fn take(py: Python<'_>, buffer: &Buffer, is_writable: bool) -> PyResult<PinUse> {
        check_own_views(py, buffer, is_writable)?;
        match buffer.origin.place {
            Place::Cpu => {
                let place = |guard: &ResourceGuard<Cpu>| place_of(guard, is_writable);
                let keep = |guard| Guard::Host(Box::new(guard));
                Self::of(py, buffer, is_writable, place, keep)
            }
            Place::Sim => {
                let place = |guard: &ResourceGuard<Sim>| place_of(guard, is_writable);
                let keep = |guard| Guard::Host(Box::new(guard));
                Self::of(py, buffer, is_writable, place, keep)
            }
            Place::Cuda(_) => {
                let place = |guard: &ResourceGuard<Cuda>| {
                    let address = guard.binding(0).map_or(0, |(address, ..)| address);
                    Ok(ptr::without_provenance_mut(address as usize))
                };
                Self::of(py, buffer, is_writable, place, Guard::Cuda)
            }
            Place::Vulkan(_) => Err(not_on_host(buffer)),
        }
    }

    /// As [`Pin::take`], for a consumer that runs on the processor.
    ///
    /// # Errors
    /// `BufferError` if the memory is not on the host, and the failure of the data.
    pub(crate) fn of_host(py: Python<'_>, buffer: &Buffer, is_writable: bool) -> PyResult<PinUse> {
        check_host(buffer)?;
        Self::take(py, buffer, is_writable)
    }

    /// As [`Pin::take`], on a device of `O`: `place` returns the address of the binding.
    fn of<O: Open + 'static>(
        py: Python<'_>,
        buffer: &Buffer,
        is_writable: bool,
        place: impl FnOnce(&ResourceGuard<O>) -> Result<*mut u8, ResourceError>,
        keep: impl FnOnce(ResourceGuard<O>) -> Guard,
    ) -> PyResult<PinUse> {
        let (origin, handle) = (&buffer.origin, buffer.handle.clone());
        let access = match is_writable {
            true => Access::ReadWrite,
            false => Access::Read,
        };
        let counted = origin.count_pin(handle.clone(), is_writable, buffer.describe());
        // A stream of its own: a guard holds the later tasks of its stream back.
        let asked: Pending<ResourceGuard<O>> = py.detach(|| {
            let stream = origin.client.new_stream();
            stream.get_resource::<O>((bind(&handle, access),))
        });
        let guard = wait_for(py, asked)?;
        let pointer = place(&guard).map_err(|error| named("ForeignError", error.to_string()))?;
        let pin = Arc::new(Self {
            pointer,
            is_writable,
            guard: keep(guard),
            _handle: handle,
        });
        Ok(PinUse {
            pin,
            _counted: counted,
        })
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

/// The legacy default stream of CUDA, as DLPack and the driver number it.
const LEGACY_STREAM: i64 = 1;
/// The default stream of the calling thread.
const PER_THREAD_STREAM: i64 = 2;

impl Pin {
    /// Returns the stream by which a consumer uses the memory of a GPU, as the standard numbers it in `__dlpack__`. Returns
    /// `None` if the consumer takes care of the order itself (-1).
    ///
    /// # Errors
    /// `BufferError` for a stream that cannot be waited for.
    pub(crate) fn consumer(&self, stream: Option<i64>) -> PyResult<Option<ConsumerStream>> {
        let Guard::Cuda(guard) = &self.guard else {
            return Ok(None);
        };
        let number = match stream.unwrap_or(LEGACY_STREAM) {
            -1 => return Ok(None),
            PER_THREAD_STREAM => {
                return Err(PyBufferError::new_err(
                    "the default stream of a thread (2) cannot be waited for on the thread that frees the array; pass \
                     another stream",
                ));
            }
            0 => {
                let message = "stream 0 is ambiguous; pass 1 for the legacy default stream";
                return Err(PyBufferError::new_err(message));
            }
            number => usize::try_from(number)
                .map_err(|_| PyBufferError::new_err(format!("{number} is not a stream of CUDA")))?,
        };
        // SAFETY: the standard requires that the consumer's stream is valid, and the documentation of `__dlpack__` that it
        // lives until the consumer has freed the array. It is not that of a thread.
        let consumer = unsafe { guard.consumer(number) };
        let refused = |error: Refused| PyBufferError::new_err(format!("stream {number}: {error}"));
        consumer.map(Some).map_err(refused)
    }
}

/// Refuses to wait for a view that this thread has, which it cannot release while it waits.
fn check_own_views(py: Python<'_>, buffer: &Buffer, is_writable: bool) -> PyResult<()> {
    let find = || buffer.origin.own_conflict(&buffer.handle, is_writable);
    if find().is_none() {
        return Ok(());
    }
    // Views in cycles are no longer in use.
    py.import("gc")?.call_method0("collect")?;
    match find() {
        None => Ok(()),
        Some(used) => Err(PyBufferError::new_err(format!(
            "`{}` overlaps {} that this thread has made, which this call would wait for for ever; release it first: drop \
             all arrays and views of it, or call `release` of the mapped buffer",
            buffer.describe(),
            used.describe()
        ))),
    }
}

/// Refuses memory that is not on the host.
pub(crate) fn check_host(buffer: &Buffer) -> PyResult<()> {
    match buffer.origin.place.device().is_host() {
        true => Ok(()),
        false => Err(not_on_host(buffer)),
    }
}

fn not_on_host(buffer: &Buffer) -> PyErr {
    PyBufferError::new_err(format!(
        "the memory of backend {:?} is not on the host; read it with `stream.read(buffer)`, or pass `copy=True, \
         dl_device=(1, 0)` to `__dlpack__`",
        buffer.origin.client.properties().backend
    ))
}

fn place_of(resources: &CpuResources, is_writable: bool) -> Result<*mut u8, ResourceError> {
    Ok(match is_writable {
        true => resources.try_write::<u8>(0)?.as_mut_ptr(),
        // A read-only pin is exported as read-only memory.
        false => resources.try_read::<u8>(0)?.as_ptr().cast_mut(),
    })
}

//! Sharing a GPU with an application that calls the driver directly: the context and streams that a device adopts, and
//! the handles that it exposes.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUstream};
use millstream_protocol::Refused;

use crate::device::CudaResources;
use crate::driver::{Context, CuEvent, CuStream};
use crate::kernel::CudaCompiler;
use crate::lane::Mark;
use crate::nvrtc::KernelCache;

/// The context and streams that a device adopts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Adopted {
    pub(crate) context: Handle<CUcontext>,
    /// Empty if the device creates its own streams in the context.
    pub(crate) streams: Vec<Handle<CUstream>>,
}

/// A handle of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle<T>(pub(crate) T);

// SAFETY: the driver accepts a handle on any thread and does its own locking.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// The driver's handles of a device (`Device::raw`), valid as long as the device.
///
/// To wait for the device's work, or to make the device wait, synchronize its streams or record events on them. Work
/// submitted to these streams directly is ordered with the device's tasks only by the streams themselves. To submit a
/// task that takes part in the hazards, use `Stream::with_resource`.
pub struct CudaRaw {
    compiler: Arc<CudaCompiler>,
    streams: Vec<Handle<CUstream>>,
}

impl CudaRaw {
    pub(crate) fn new(
        compiler: &Arc<CudaCompiler>,
        streams: impl Iterator<Item = CUstream>,
    ) -> Self {
        Self {
            compiler: compiler.clone(),
            streams: streams.map(Handle).collect(),
        }
    }

    /// Returns the driver's context.
    pub fn context(&self) -> CUcontext {
        self.compiler.context.raw
    }

    /// Returns the driver's stream of each queue.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = CUstream> {
        self.streams.iter().map(|stream| stream.0)
    }

    /// Returns how many CUDA C kernels were compiled, and how many were found in the cache.
    pub fn kernel_cache(&self) -> KernelCache {
        self.compiler.cache.report()
    }

    /// Whether the context is the GPU's primary one, which all libraries of the process share.
    pub fn has_primary_context(&self) -> bool {
        self.compiler.context.is_primary
    }

    /// Returns the GPU's index in the driver's order.
    pub fn ordinal(&self) -> usize {
        self.compiler.context.gpu.info.ordinal
    }
}

// Streams of other libraries that use the memory of a guard, by its address.
//
// The stream is used last when its use ends (`ConsumerStream::end`), and from then on an event stands for it: the library
// may destroy the stream at once. No call waits for the GPU.

/// A stream of another library that uses the memory of a guard. Keep the guard until the use has ended, so that later tasks
/// wait for the work of the library.
pub struct ConsumerStream {
    context: Arc<Context>,
    stream: CuStream,
    /// Recorded at the end of the use.
    end: CuEvent,
}

impl CudaResources {
    /// Returns the stream with this handle as a user of the bound memory. 1 is the legacy default stream. A guard is
    /// given once the GPU has completed the tasks before it, so the stream need not wait for them.
    ///
    /// # Errors
    /// The stream belongs to another context, or the driver refuses it.
    ///
    /// # Safety
    /// The stream lives until [`ConsumerStream::end`] or the drop of the value. The handle is not that of the default stream of a thread (2).
    pub unsafe fn consumer(&self, stream: usize) -> Result<ConsumerStream, Refused> {
        let context = &self.context;
        let _current = context.push_current()?;
        // SAFETY: the caller guarantees that the stream lives.
        match unsafe { CuStream::adopt(context, stream as CUstream) }? {
            Some(stream) => Ok(ConsumerStream {
                context: context.clone(),
                stream,
                end: CuEvent::new(context)?,
            }),
            None => Err(Refused::Task(
                "the stream belongs to another context than the device".to_owned(),
            )),
        }
    }
}

impl ConsumerStream {
    /// Ends the use with the work that the stream has now. Never waits for it. The stream is not used any more.
    ///
    /// # Errors
    /// [`Refused::Lost`]; any other error of the driver, such as that of a capture, says that the end cannot be learned.
    pub fn end(self) -> Result<Mark, Refused> {
        let _current = self.context.push_current()?;
        self.stream.record(&self.end)?;
        Ok(Mark {
            context: self.context,
            event: Arc::new(self.end),
        })
    }
}

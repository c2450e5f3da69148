//! Sharing a GPU with an application that calls the driver directly: the context and streams that a device adopts, and
//! the handles that it exposes.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUstream};

use crate::kernel::CudaCompiler;
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

//! Sharing a GPU with code that calls the driver by itself: what of its context and streams a device works in, and what
//! of the device's such code may use.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUstream};

use crate::driver::Context;
use crate::kernel::CudaCompiler;
use crate::nvrtc::KernelCache;

/// What a device was given to work in, by its driver's handles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Adopted {
    pub(crate) context: Handle<CUcontext>,
    /// None: the device makes streams of its own in the context.
    pub(crate) streams: Vec<Handle<CUstream>>,
}

/// A handle of the driver, which it takes on any thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle<T>(pub(crate) T);

// SAFETY: a handle says which thing is meant; the driver locks what it must.
unsafe impl Send for Handle<CUcontext> {}
// SAFETY: as above.
unsafe impl Sync for Handle<CUcontext> {}
// SAFETY: as above.
unsafe impl Send for Handle<CUstream> {}
// SAFETY: as above.
unsafe impl Sync for Handle<CUstream> {}

/// What a device is to code that calls the driver by itself (`Device::raw`). All of it lives as long as the device.
///
/// To wait for what the device does, or to have it wait, synchronize the device's streams or record events on them; work
/// that is given to its streams here is in no order with the device's tasks but the streams' own. What is to be a task among
/// others goes through `Stream::with_resource`.
pub struct CudaRaw {
    context: Handle<CUcontext>,
    streams: Vec<Handle<CUstream>>,
    ordinal: usize,
    compiler: Arc<CudaCompiler>,
}

impl CudaRaw {
    pub(crate) fn new(
        context: &Context,
        streams: impl Iterator<Item = CUstream>,
        compiler: &Arc<CudaCompiler>,
    ) -> Self {
        Self {
            context: Handle(context.raw()),
            streams: streams.map(Handle).collect(),
            ordinal: context.gpu().ordinal,
            compiler: compiler.clone(),
        }
    }

    /// The driver's context.
    pub fn context(&self) -> CUcontext {
        self.context.0
    }

    /// The driver's stream of each queue.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = CUstream> {
        self.streams.iter().map(|stream| stream.0)
    }

    /// What became of kernels in CUDA C so far.
    pub fn kernel_cache(&self) -> KernelCache {
        self.compiler.cache.report()
    }

    /// The GPU's place in the driver's order.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }
}

//! Sharing a GPU with code that calls the driver by itself: what of its context and streams a device works in, and what
//! of the device's such code may use.

use cudarc::driver::sys::{CUcontext, CUstream};

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
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// What a device is to code that calls the driver by itself (`Device::raw`). All of it lives as long as the device.
///
/// To wait for what the device does, or to have it wait, synchronize the device's streams or record events on them; work
/// that is given to its streams here is in no order with the device's tasks but the streams' own. What is to be a task among
/// others goes through `Stream::with_resource`.
#[derive(Clone, Debug)]
pub struct CudaRaw {
    context: Handle<CUcontext>,
    streams: Vec<Handle<CUstream>>,
    ordinal: usize,
}

impl CudaRaw {
    pub(crate) fn new(
        context: CUcontext,
        streams: impl Iterator<Item = CUstream>,
        ordinal: usize,
    ) -> Self {
        Self {
            context: Handle(context),
            streams: streams.map(Handle).collect(),
            ordinal,
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

    /// The GPU's place in the driver's order.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }
}

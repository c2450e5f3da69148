//! What custom tasks and guards get: addresses, and the driver's handles.

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUmemoryPool, CUstream};
use millstream_protocol::access::Access;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;

use super::CudaDevice;
use crate::driver::Api;

/// Where the memory of a device is, as another GPU must know it.
#[derive(Clone, Copy)]
pub(crate) struct Home {
    pub(crate) device: CUdevice,
    pub(crate) pool: Option<CUmemoryPool>,
}

/// Memory of the GPU as a custom task or a guard sees it.
pub struct CudaResources {
    /// Each binding: address, bytes, access. An address of 0 has no bytes.
    bindings: Vec<(CUdeviceptr, u64, Access)>,
    /// The queue's stream; none for a guard.
    pub(super) stream: Option<CUstream>,
    context: CUcontext,
    home: Home,
    api: &'static Api,
}

// SAFETY: addresses and a stream's handle, which the driver takes on any thread.
unsafe impl Send for CudaResources {}

impl CudaResources {
    /// The address of binding `index`, its bytes and its access.
    pub fn binding(&self, index: usize) -> Option<(CUdeviceptr, u64, Access)> {
        self.bindings.get(index).copied()
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.api
    }

    /// The driver's context, the GPU's primary one. It is current while a custom task runs.
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// The driver's stream of the queue, in a custom task: what is given to it here runs in the task's place.
    pub fn stream(&self) -> Option<CUstream> {
        self.stream
    }
}

impl CudaDevice {
    pub(super) fn bound(&self, bindings: &[BoundSlice]) -> Result<CudaResources, Refused> {
        let bound = bindings
            .iter()
            .map(|binding| Ok((self.pages.resolve(binding)?, binding.len, binding.access)));
        Ok(CudaResources {
            bindings: bound.collect::<Result<_, Refused>>()?,
            stream: None,
            context: self.ending.context.raw(),
            home: Home {
                device: self.ending.context.gpu().device,
                pool: self.pages.pool(),
            },
            api: self.api(),
        })
    }
}

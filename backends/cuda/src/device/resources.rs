//! The resources of custom tasks and guards: addresses and handles of the driver.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUmemoryPool, CUstream};
use millstream_protocol::{Access, BoundSlice, Refused};

use super::CudaDevice;
use crate::driver::Context;

/// The GPU and the pool of a device's memory, for access by a peer.
#[derive(Clone, Copy)]
pub(crate) struct MemoryLocation {
    pub(crate) device: CUdevice,
    pub(crate) pool: Option<CUmemoryPool>,
}

/// The bound memory and the driver's handles, for a custom task or a guard.
pub struct CudaResources {
    /// The address, length and access of each binding. The address of an empty binding is 0.
    bindings: Vec<(CUdeviceptr, u64, Access)>,
    /// The queue's stream; `None` for a guard.
    pub(super) stream: Option<CUstream>,
    pub(crate) context: Arc<Context>,
    pub(crate) memory: MemoryLocation,
}

// SAFETY: addresses and handles, which the driver accepts on any thread.
unsafe impl Send for CudaResources {}

impl CudaResources {
    /// Returns the address of binding `index`, its length in bytes, and its access.
    pub fn binding(&self, index: usize) -> Option<(CUdeviceptr, u64, Access)> {
        self.bindings.get(index).copied()
    }

    /// Returns the driver's context: the GPU's primary one, unless the device adopted another. It is current while a
    /// custom task runs.
    pub fn context(&self) -> CUcontext {
        self.context.raw
    }

    /// Returns the driver's stream of the queue, in a custom task. Work submitted to it is ordered in place of the
    /// task.
    pub fn stream(&self) -> Option<CUstream> {
        self.stream
    }
}

impl CudaDevice {
    pub(super) fn bound(&self, bindings: &[BoundSlice]) -> Result<CudaResources, Refused> {
        let bound = bindings
            .iter()
            .map(|binding| Ok((self.address(binding)?, binding.len, binding.access)));
        Ok(CudaResources {
            bindings: bound.collect::<Result<_, Refused>>()?,
            stream: None,
            context: self.shared.context.clone(),
            memory: MemoryLocation {
                device: self.shared.context.gpu.device,
                pool: self.pool.pool,
            },
        })
    }
}

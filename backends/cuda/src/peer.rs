//! Copies from one GPU to another, submitted by a custom task of the source device.

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation,
    CUmemLocationType,
};
use millstream_protocol::Refused;

use crate::device::{CudaResources, MemoryLocation};
use crate::driver::Api;

/// The target of a copy from another GPU. The guard of its binding keeps the memory alive.
pub struct PeerPlace {
    address: CUdeviceptr,
    context: CUcontext,
    memory: MemoryLocation,
}

// SAFETY: an address and handles, which the driver accepts on any thread.
unsafe impl Send for PeerPlace {}

impl CudaResources {
    /// Returns the first binding as the target of a copy from another GPU.
    pub fn peer_place(&self) -> PeerPlace {
        PeerPlace {
            address: self.binding(0).map_or(0, |(address, ..)| address),
            context: self.context(),
            memory: self.memory,
        }
    }

    /// Copies the first binding to `place`, which belongs to another GPU, on the stream of this task. The copy is
    /// direct if the GPUs are peers, and goes through the host otherwise.
    ///
    /// # Errors
    /// The driver refused the copy; nothing was copied.
    ///
    /// # Safety
    /// `place` has as many bytes as the binding, and its guard lives until the copy has completed.
    pub unsafe fn copy_to_peer(&self, place: &PeerPlace) -> Result<(), Refused> {
        let (Some((from, bytes, _)), Some(stream)) = (self.binding(0), self.stream()) else {
            return Ok(());
        };
        if bytes == 0 {
            return Ok(());
        }
        let api = self.context.api();
        allow_peer(api, place.memory, self.memory.device);
        let (to, context, of) = (place.address, place.context, self.context());
        // SAFETY: both ranges lie within pages of these contexts; the caller keeps the target alive until the copy has
        // completed.
        Ok(unsafe { api.copy_peer(to, context, from, of, bytes as usize, stream) }?)
    }
}

/// Gives GPU `by` direct access to the pool at `memory`. If it has none, copies go through the host.
pub(crate) fn allow_peer(api: &Api, memory: MemoryLocation, by: CUdevice) {
    let Some(pool) = memory.pool.filter(|_| memory.device != by) else {
        return;
    };
    let mut reaches = 0;
    let access = CUmemAccessDesc {
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: by,
        },
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: the out pointer is valid; the guard keeps the pool alive, and setting the access again has no effect.
    let allowed = unsafe {
        match api.reaches_peer(&raw mut reaches, by, memory.device) {
            Ok(()) if reaches != 0 => api.set_pool_access(pool, &raw const access, 1),
            answer => answer,
        }
    };
    if let Err(code) = allowed {
        tracing::debug!(target: "millstream::cuda", %code, "peer access was refused; copies go through the host");
    }
}

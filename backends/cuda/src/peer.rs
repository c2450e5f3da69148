//! Copies from one GPU to another, as a custom task of the source's gives them to its stream.

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation,
    CUmemLocationType,
};
use millstream_protocol::error::Refused;

use crate::device::{CudaResources, Home};
use crate::driver::{Api, Code};

/// Memory of one GPU, as a task of another needs it to copy there. A guard of its binding keeps it.
pub struct PeerPlace {
    address: CUdeviceptr,
    context: CUcontext,
    home: Home,
}

// SAFETY: an address and handles, which the driver takes on any thread.
unsafe impl Send for PeerPlace {}

impl CudaResources {
    /// The first binding, as a place that another GPU copies to.
    pub fn peer_place(&self) -> PeerPlace {
        PeerPlace {
            address: self.binding(0).map_or(0, |(address, ..)| address),
            context: self.context(),
            home: self.home(),
        }
    }

    /// Gives the stream of this task a copy of its first binding to `place`, of another GPU: from GPU to GPU where the two
    /// reach each other, through the host where they do not.
    ///
    /// # Errors
    /// What the driver answered; then nothing was copied.
    ///
    /// # Safety
    /// `place` has as many bytes as the binding, and the guard that keeps it lives until the stream has passed the copy.
    pub unsafe fn copy_to_peer(&self, place: &PeerPlace) -> Result<(), Refused> {
        let (Some((from, bytes, _)), Some(stream)) = (self.binding(0), self.stream()) else {
            return Ok(());
        };
        if bytes == 0 {
            return Ok(());
        }
        let api = self.api();
        allow(api, place.home, self.home().device);
        // SAFETY: both ranges are within pages of these contexts; the caller keeps the target's until the copy is over.
        let answer = unsafe {
            (api.copy_peer)(
                place.address,
                place.context,
                from,
                self.context(),
                bytes as usize,
                stream,
            )
        };
        Code::check(answer).map_err(|code| {
            Refused::Task(format!("the driver answered {code} to cuMemcpyPeerAsync"))
        })
    }
}

/// Allows a GPU to use the memory of another's pool by itself. Where it cannot, copies go through the host.
fn allow(api: &Api, home: Home, by: CUdevice) {
    let Some(pool) = home.pool.filter(|_| home.device != by) else {
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
    // SAFETY: the place for the answer is ours; the pool lives while the guard does, and allowing it again is nothing.
    unsafe {
        let asked = (api.reaches_peer)(&raw mut reaches, by, home.device);
        if asked == Code::SUCCESS && reaches != 0 {
            let allowed = Code::check((api.set_pool_access)(pool, &raw const access, 1));
            if let Err(code) = allowed {
                tracing::debug!(target: "millstream::cuda", %code, "a GPU is not allowed to use another's memory");
            }
        }
    }
}

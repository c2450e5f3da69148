//! Copies by lanes between the memory of external tasks and pinned memory of the host, piece by piece.

use std::ops::Range;

use cudarc::driver::sys::CUdeviceptr;
use millstream_protocol::Refused;

use crate::device::CudaResources;
use crate::driver::Pinned;
use crate::lane::Lane;

/// A range of a binding, and the pinned memory that its bytes are copied to, or from.
#[derive(Clone)]
pub struct PieceCopy<'a> {
    /// The memory of an external task, on the lane's GPU.
    pub resources: &'a CudaResources,
    /// The place of the binding.
    pub binding: usize,
    /// The bytes of the binding.
    pub range: Range<u64>,
    /// The memory of the host, of which the first bytes are used.
    pub piece: &'a Pinned,
}

impl PieceCopy<'_> {
    /// Returns the address of the range and its length.
    fn place(&self, lane: &Lane) -> Result<(CUdeviceptr, usize), Refused> {
        let binding = self.resources.binding(self.binding);
        let (address, room, _) =
            binding.ok_or_else(|| Refused::Task("a copy has no such binding".to_owned()))?;
        let Range { start, end } = self.range;
        let bytes = end.saturating_sub(start);
        if end > room || bytes > self.piece.bytes() as u64 || !self.resources.has_lane(lane) {
            return Err(Refused::Task(format!(
                "bytes {start}..{end} of {room} do not fit into a piece of {} bytes, or are of another GPU",
                self.piece.bytes()
            )));
        }
        Ok((address + start, bytes as usize))
    }
}

impl Lane {
    /// Allocates pinned memory for copies of the lane.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn host_piece(&self, bytes: usize) -> Result<Pinned, Refused> {
        let _current = self.enter()?;
        Ok(Pinned::new(&self.context, bytes)?)
    }

    /// Copies from the GPU to the host.
    ///
    /// # Errors
    /// The range does not fit, or the driver refuses the copy; nothing is copied then.
    ///
    /// # Safety
    /// The binding and the piece stay alive, and nothing else writes the range or accesses these bytes of the piece,
    /// until a mark that is recorded later on this lane has completed.
    pub unsafe fn copy_to_host(&self, copy: &PieceCopy<'_>) -> Result<(), Refused> {
        let (from, bytes) = copy.place(self)?;
        let _current = self.enter()?;
        let to = copy.piece.start().as_ptr().cast();
        // SAFETY: both ranges fit; the caller keeps them alive until the copy has completed.
        Ok(unsafe {
            self.context
                .api()
                .copy_out(to, from, bytes, self.stream.raw)
        }?)
    }

    /// Copies from the host to the GPU.
    ///
    /// # Errors
    /// As [`Lane::copy_to_host`].
    ///
    /// # Safety
    /// As [`Lane::copy_to_host`], with reads and writes exchanged.
    pub unsafe fn copy_to_gpu(&self, copy: &PieceCopy<'_>) -> Result<(), Refused> {
        let (to, bytes) = copy.place(self)?;
        let _current = self.enter()?;
        let from = copy.piece.start().as_ptr().cast_const().cast();
        // SAFETY: as above.
        Ok(unsafe { self.context.api().copy_in(to, from, bytes, self.stream.raw) }?)
    }
}

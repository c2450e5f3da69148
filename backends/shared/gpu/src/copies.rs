//! What copies must satisfy, and the memory that they use.

use millstream_protocol::{BoundSlice, OwnedBytes, Refused};

use crate::readback::Readback;
use crate::staging::{Staged, StagingBlock};

/// The memory of the host that the copies of a batch use until the batch has completed. Empty for most batches, and then
/// without an allocation.
pub struct BatchMemory<B> {
    /// The copies to clients.
    pub readbacks: Vec<Readback<B>>,
    /// The staging ranges that uploads read from.
    pub staged: Vec<Staged<B>>,
    /// The sources of uploads. The GPU reads those in host memory of its own directly. Those that were copied to staging
    /// blocks are kept because they count against the client's limit of upload bytes, which bounds the number of blocks
    /// (I12).
    pub sources: Vec<OwnedBytes>,
}

impl<B> Default for BatchMemory<B> {
    fn default() -> Self {
        Self {
            readbacks: Vec::new(),
            staged: Vec::new(),
            sources: Vec::new(),
        }
    }
}

impl<B: StagingBlock> BatchMemory<B> {
    /// Copies the bytes of all readbacks to their landings.
    ///
    /// # Safety
    /// As for [`Readback::land`].
    pub unsafe fn land(&self) {
        for readback in &self.readbacks {
            // SAFETY: as the caller guarantees.
            unsafe { readback.land() };
        }
    }
}

/// Returns the number of bytes of a copy within the device.
///
/// # Errors
/// The lengths differ, or the ranges overlap.
pub fn check_copy(source: &BoundSlice, target: &BoundSlice) -> Result<u64, Refused> {
    let (bytes, expected) = (source.len, target.len);
    if bytes != expected {
        return Err(Refused::Task(format!(
            "the source has {bytes} bytes and the target {expected}, expected equal lengths"
        )));
    }
    if source.page == target.page && source.offset.abs_diff(target.offset) < bytes {
        return Err(Refused::Task(format!(
            "the source and the target of a copy of {bytes} bytes overlap; copy through another slice"
        )));
    }
    Ok(bytes)
}

/// Converts a length on the device to a length on the host.
///
/// # Errors
/// The host has no such lengths.
pub fn host_len(bytes: u64) -> Result<usize, Refused> {
    usize::try_from(bytes).map_err(|_| {
        Refused::Task(format!(
            "{bytes} bytes exceed the host's address space; use smaller slices"
        ))
    })
}

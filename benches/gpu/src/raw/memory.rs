//! GPU memory, pinned host memory, memory pools, and copies.

use std::ffi::c_void;

use super::{Gpu, PoolProperties, Stream, call};
use crate::error::BenchError;

/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`: pinned memory of a GPU.
const ON_A_GPU: u32 = 1;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// `CU_MEMHOSTALLOC_PORTABLE`
const PORTABLE: u32 = 1;

/// GPU memory.
pub(crate) struct Memory<'a> {
    gpu: &'a Gpu,
    address: u64,
    bytes: usize,
}

/// Pinned host memory.
pub(crate) struct Pinned<'a> {
    gpu: &'a Gpu,
    start: *mut c_void,
}

/// A memory pool that returns no memory to the system.
pub(crate) struct Pool<'a> {
    gpu: &'a Gpu,
    raw: u64,
}

impl Gpu {
    pub(crate) fn memory(&self, bytes: usize) -> Result<Memory<'_>, BenchError> {
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&raw mut address, bytes))?;
        Ok(Memory {
            gpu: self,
            address,
            bytes,
        })
    }

    /// Allocates pinned memory, filled with zeros.
    pub(crate) fn pinned(&self, bytes: usize) -> Result<Pinned<'_>, BenchError> {
        let mut start = std::ptr::null_mut();
        call!(self, cuMemHostAlloc(&raw mut start, bytes, PORTABLE))?;
        // SAFETY: new memory of `bytes` bytes.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
        Ok(Pinned { gpu: self, start })
    }

    pub(crate) fn pool(&self) -> Result<Pool<'_>, BenchError> {
        let properties = PoolProperties {
            kind: ON_A_GPU,
            handles: 0,
            location: ON_A_GPU,
            gpu: self.device,
            security: std::ptr::null_mut(),
            reserved: [0; 8],
        };
        let (mut raw, mut keep_all) = (0, u64::MAX);
        call!(self, cuMemPoolCreate(&raw mut raw, &raw const properties))?;
        let pool = Pool { gpu: self, raw };
        call!(
            self,
            cuMemPoolSetAttribute(raw, RELEASE_THRESHOLD, (&raw mut keep_all).cast())
        )?;
        Ok(pool)
    }
}

impl Pool<'_> {
    /// Allocates and frees memory in the stream's order: two calls.
    #[inline]
    pub(crate) fn allocate_and_free(
        &self,
        bytes: usize,
        stream: &Stream<'_>,
    ) -> Result<(), BenchError> {
        let mut address = 0;
        let (gpu, stream) = (self.gpu, stream.raw);
        call!(
            gpu,
            cuMemAllocFromPoolAsync(&raw mut address, bytes, self.raw, stream)
        )?;
        call!(gpu, cuMemFreeAsync(address, stream))
    }
}

impl Memory<'_> {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Copies all of it from the host. The caller keeps the source valid until the stream has completed the copy.
    pub(crate) fn copy_in(
        &self,
        from: *const c_void,
        stream: &Stream<'_>,
    ) -> Result<(), BenchError> {
        call!(
            self.gpu,
            cuMemcpyHtoDAsync_v2(self.address, from, self.bytes, stream.raw)
        )
    }

    /// Copies all of it to the host. The caller keeps the target valid until the stream has completed the copy.
    pub(crate) fn copy_out(&self, to: *mut c_void, stream: &Stream<'_>) -> Result<(), BenchError> {
        call!(
            self.gpu,
            cuMemcpyDtoHAsync_v2(to, self.address, self.bytes, stream.raw)
        )
    }

    /// Copies all of it to memory of the same size.
    pub(crate) fn copy_to(&self, to: &Memory<'_>, stream: &Stream<'_>) -> Result<(), BenchError> {
        call!(
            self.gpu,
            cuMemcpyDtoDAsync_v2(to.address, self.address, self.bytes, stream.raw)
        )
    }
}

impl Pinned<'_> {
    pub(crate) fn start(&self) -> *mut c_void {
        self.start
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let _ = call!(self.gpu, cuMemFree_v2(self.address));
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let _ = call!(self.gpu, cuMemFreeHost(self.start));
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        let _ = call!(self.gpu, cuMemPoolDestroy(self.raw));
    }
}

//! Pages of device memory, and the addresses of bindings.

use cudarc::driver::sys::{CUdeviceptr, CUmemoryPool};
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::memory::{PageError, PageId};

use crate::driver::{Code, PagePool};

/// The least alignment of the driver's allocations, in bytes.
pub(crate) const ALIGNMENT: u64 = 256;

/// The allocated pages.
pub(crate) struct Pages {
    pool: PagePool,
    table: millstream_gpu::Pages<CUdeviceptr>,
}

impl Pages {
    /// Creates the table of pages, which have at most `largest` bytes each and `limit` bytes in total.
    pub(crate) fn new(pool: PagePool, largest: u64, limit: u64) -> Self {
        let table = millstream_gpu::Pages::new(largest, limit);
        Self { pool, table }
    }

    /// Allocates a page. If there is no memory, `free` returns the free bytes for the error.
    pub(crate) fn allocate(
        &mut self,
        bytes: u64,
        free: impl FnOnce() -> Option<u64>,
    ) -> Result<PageId, PageError> {
        let pool = &self.pool;
        self.table.allocate(bytes, || {
            let size = usize::try_from(bytes.max(1));
            let size = size.map_err(|_| PageError::OutOfMemory { free: None })?;
            pool.allocate(size).map_err(|code| match code.is_sticky() {
                true => PageError::Lost,
                false => PageError::OutOfMemory { free: free() },
            })
        })
    }

    pub(crate) fn free(&mut self, id: PageId) {
        if let Some(address) = self.table.free(id) {
            self.pool.free(address);
        }
    }

    /// Allocates memory that is not a page, for the workspace of a library. [`Pages::give_back`] frees it.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<CUdeviceptr, Code> {
        self.pool.allocate(bytes)
    }

    /// Returns the freed memory that the driver's pool keeps to the GPU.
    pub(crate) fn trim(&self) -> Result<(), Code> {
        self.pool.trim()
    }

    pub(crate) fn give_back(&self, address: CUdeviceptr) {
        self.pool.free(address);
    }

    /// Returns the driver's pool that the pages come from, if they come from one.
    pub(crate) fn pool(&self) -> Option<CUmemoryPool> {
        self.pool.raw()
    }

    /// Returns the address of a binding, or 0 for an empty one.
    #[inline]
    pub(crate) fn resolve(&self, binding: &BoundSlice) -> Result<CUdeviceptr, Refused> {
        let page = self.table.resolve(binding)?;
        Ok(page.map_or(0, |address| address + binding.offset))
    }

    /// Frees all pages.
    pub(crate) fn free_all(&mut self) {
        for address in self.table.free_all() {
            self.pool.free(address);
        }
    }
}

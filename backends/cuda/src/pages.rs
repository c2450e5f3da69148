//! Pages of device memory, and the addresses of bindings.

use cudarc::driver::sys::{CUdeviceptr, CUmemoryPool};
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::memory::{PageError, PageId};

use crate::driver::{Class, Code, PagePool};

/// The least alignment of the driver's allocations, in bytes.
pub(crate) const ALIGNMENT: u64 = 256;

/// The allocated pages.
pub(crate) struct Pages {
    pool: PagePool,
    /// Indexed by page number.
    pages: Vec<Option<Page>>,
    /// Free page numbers.
    vacant: Vec<u32>,
    largest: u64,
    /// The most bytes of all pages, and the bytes allocated.
    limit: u64,
    allocated: u64,
}

struct Page {
    address: CUdeviceptr,
    bytes: u64,
}

impl Pages {
    /// Creates the table of pages, which have at most `largest` bytes each and `limit` bytes in total.
    pub(crate) fn new(pool: PagePool, largest: u64, limit: u64) -> Self {
        Self {
            pool,
            pages: Vec::new(),
            vacant: Vec::new(),
            largest,
            limit,
            allocated: 0,
        }
    }

    /// Allocates a page. If there is no memory, `free` returns the free bytes for the error. The inner error is a code
    /// that ends the device.
    pub(crate) fn allocate(
        &mut self,
        bytes: u64,
        free: impl FnOnce() -> Option<u64>,
    ) -> Result<PageId, Result<PageError, Code>> {
        let size = usize::try_from(bytes)
            .ok()
            .filter(|_| bytes <= self.largest);
        let Some(size) = size else {
            let limit = self.largest;
            return Err(Ok(PageError::TooLarge { limit }));
        };
        let left = self.limit - self.allocated;
        if bytes > left {
            return Err(Ok(PageError::OutOfMemory { free: Some(left) }));
        }
        let number = match self.vacant.last() {
            Some(number) => *number,
            None => u32::try_from(self.pages.len())
                .ok()
                .filter(|number| *number != PageId::NONE.0)
                .ok_or(Ok(PageError::OutOfMemory { free: None }))?,
        };
        let address = match self.pool.allocate(size.max(1)) {
            Ok(address) => address,
            Err(code) if code.class() == Class::Sticky => return Err(Err(code)),
            Err(_) => return Err(Ok(PageError::OutOfMemory { free: free() })),
        };
        let page = Some(Page { address, bytes });
        if self.vacant.pop().is_some() {
            self.pages[number as usize] = page;
        } else {
            self.pages.push(page);
        }
        self.allocated += bytes;
        Ok(PageId(number))
    }

    pub(crate) fn free(&mut self, id: PageId) {
        let page = self.pages.get_mut(id.0 as usize).and_then(Option::take);
        debug_assert!(page.is_some(), "{id} is freed, but is not allocated");
        if let Some(page) = page {
            self.pool.free(page.address);
            self.allocated -= page.bytes;
            self.vacant.push(id.0);
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
        if binding.len == 0 {
            return Ok(0);
        }
        let page = binding
            .page
            .and_then(|page| self.pages.get(page.0 as usize)?.as_ref());
        match page {
            Some(page) if binding.offset + binding.len <= page.bytes => {
                Ok(page.address + binding.offset)
            }
            _ => Err(outside(binding)),
        }
    }

    /// Frees all pages.
    pub(crate) fn free_all(&mut self) {
        for page in self.pages.drain(..).flatten() {
            self.pool.free(page.address);
        }
        self.allocated = 0;
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.free_all();
    }
}

#[cold]
fn outside(binding: &BoundSlice) -> Refused {
    let (offset, len) = (binding.offset, binding.len);
    Refused::Task(match binding.page {
        Some(page) => format!("{len} bytes from byte {offset} are not within {page}"),
        None => format!("{len} bytes are bound without a page"),
    })
}

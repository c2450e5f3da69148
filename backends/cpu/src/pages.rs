//! The memory of the device: pages, and how bindings resolve to pointers.

use millstream_host::{ALIGNMENT, view_of};
use millstream_protocol::{BoundSlice, NativeView, PageError, PageId, Refused, staging::Block};
use slab::Slab;

/// The largest page.
pub(crate) const PAGE_BYTES_MAX: u64 = (isize::MAX as usize - 2 * ALIGNMENT) as u64;

/// The live pages.
pub(crate) struct Pages {
    /// By page number.
    pages: Slab<Block>,
    in_use_bytes: u64,
    limit_bytes: Option<u64>,
}

impl Pages {
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self {
            pages: Slab::new(),
            in_use_bytes: 0,
            limit_bytes,
        }
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let limit = self.limit_bytes.unwrap_or(PAGE_BYTES_MAX);
        if bytes > limit.min(PAGE_BYTES_MAX) {
            return Err(PageError::TooLarge {
                limit: limit.min(PAGE_BYTES_MAX),
            });
        }
        let free = self
            .limit_bytes
            .map(|limit| limit.saturating_sub(self.in_use_bytes));
        let out_of_memory = PageError::OutOfMemory { free };
        let number = u32::try_from(self.pages.vacant_key()).unwrap_or(PageId::NONE.0);
        if free.is_some_and(|free| bytes > free) || number == PageId::NONE.0 {
            return Err(out_of_memory);
        }
        let page = Block::new(bytes, ALIGNMENT).ok_or(out_of_memory)?;
        self.pages.insert(page);
        self.in_use_bytes += bytes;
        Ok(PageId(number))
    }

    pub(crate) fn free(&mut self, id: PageId) {
        let page = self.pages.try_remove(id.0 as usize);
        debug_assert!(page.is_some(), "{id} is freed, but is not live");
        self.in_use_bytes -= page.map_or(0, |page| page.bytes());
    }

    /// Returns the memory of a binding.
    #[inline]
    pub(crate) fn resolve(&self, binding: &BoundSlice) -> Result<NativeView, Refused> {
        let page = binding.page.and_then(|id| self.pages.get(id.0 as usize));
        view_of(binding, page)
    }
}

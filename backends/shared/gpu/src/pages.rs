//! The pages of a device by their numbers, and the limits of their bytes.

use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::memory::{PageError, PageId};
use slab::Slab;

/// The allocated pages, each with its memory.
pub struct Pages<M> {
    pages: Slab<Page<M>>,
    /// The number of pages allocated so far.
    created: u64,
    /// The most bytes of a page.
    largest: u64,
    /// The most bytes of all pages, and the bytes allocated.
    limit: u64,
    allocated: u64,
}

struct Page<M> {
    memory: M,
    bytes: u64,
    /// From 1. No two pages of a device have the same one.
    serial: u64,
}

impl<M> Pages<M> {
    /// Creates the table of pages, which have at most `largest` bytes each and `limit` bytes in total.
    pub fn new(largest: u64, limit: u64) -> Self {
        Self {
            pages: Slab::new(),
            created: 0,
            largest: largest.min(limit),
            limit,
            allocated: 0,
        }
    }

    /// Adds a page with the memory that `create` allocates.
    ///
    /// # Errors
    /// The page would exceed a limit; that of `create`.
    pub fn allocate(
        &mut self,
        bytes: u64,
        create: impl FnOnce() -> Result<M, PageError>,
    ) -> Result<PageId, PageError> {
        if bytes > self.largest {
            let limit = self.largest;
            return Err(PageError::TooLarge { limit });
        }
        let free = self.limit - self.allocated;
        if bytes > free {
            return Err(PageError::OutOfMemory { free: Some(free) });
        }
        let number = u32::try_from(self.pages.vacant_key()).ok();
        let number = number.filter(|number| *number != PageId::NONE.0);
        let number = number.ok_or(PageError::OutOfMemory { free: None })?;
        let memory = create()?;
        self.created += 1;
        self.pages.insert(Page {
            memory,
            bytes,
            serial: self.created,
        });
        self.allocated += bytes;
        Ok(PageId(number))
    }

    /// Removes a page, and returns its memory.
    pub fn free(&mut self, id: PageId) -> Option<M> {
        let page = self.pages.try_remove(id.0 as usize);
        debug_assert!(page.is_some(), "{id} is freed, but is not allocated");
        let page = page?;
        self.allocated -= page.bytes;
        Some(page.memory)
    }

    /// Removes all pages.
    pub fn free_all(&mut self) -> impl Iterator<Item = M> {
        self.allocated = 0;
        std::mem::take(&mut self.pages)
            .into_iter()
            .map(|(_, page)| page.memory)
    }

    /// Returns the memory of the page that a binding lies in; `None` if the binding is empty.
    ///
    /// # Errors
    /// The binding is not within a page.
    #[inline]
    pub fn resolve(&self, binding: &BoundSlice) -> Result<Option<&M>, Refused> {
        if binding.len == 0 {
            return Ok(None);
        }
        match self.page(binding.page) {
            Some(page) if binding.offset + binding.len <= page.bytes => Ok(Some(&page.memory)),
            _ => Err(outside(binding)),
        }
    }

    /// Returns the serial number of a page, which no other page has; 0 if there is no page.
    #[inline]
    pub fn serial(&self, page: Option<PageId>) -> u64 {
        self.page(page).map_or(0, |page| page.serial)
    }

    #[inline]
    fn page(&self, page: Option<PageId>) -> Option<&Page<M>> {
        self.pages.get(page?.0 as usize)
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

//! The pages of a device by their numbers, and the limits of their bytes.
//!
//! - The bytes of all pages are at most the limit of the device, and those of each at most the largest allocation (I12).
//! - A binding resolves only within the bytes of one page. So no launch or copy accesses what a driver has not allocated for
//!   it, although the server has checked the slice already.
//! - A number is reused once its page is freed, a serial number never: what is kept beyond the life of a page, such as a
//!   recorded command buffer, compares serial numbers (I4).
//!
//! The device thread alone uses the table, so it has no lock. `tests` below check the limits and the numbers; the checkers
//! of `tests/cuda` and the validation layer of `tests/vulkan` report an access outside of a page.

use millstream_protocol::{BoundSlice, PageError, PageId, Refused};
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

/// A range of memory, by which two bindings at different times can be compared: a later page may have the number of a
/// freed one, and even its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The serial number of the page, which no other page has; 0 if the binding has no page.
    page: u64,
    offset: u64,
    len: u64,
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

    /// Returns the place of a binding.
    #[inline]
    pub fn place(&self, binding: &BoundSlice) -> Place {
        Place {
            page: self.page(binding.page).map_or(0, |page| page.serial),
            offset: binding.offset,
            len: binding.len,
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use millstream_protocol::{Access, SliceId};
    use millstream_sync::slots::SlotId;

    use super::*;

    fn binding(page: Option<PageId>, offset: u64, len: u64) -> BoundSlice {
        BoundSlice {
            page,
            offset,
            len,
            access: Access::Read,
            slice: SliceId(SlotId {
                index: 0,
                generation: 0,
            }),
            slice_offset: 0,
        }
    }

    #[test]
    fn pages_are_bounded_and_a_freed_number_has_another_serial_i4_i12() {
        let mut pages = Pages::new(60, 100);
        let allocate = |pages: &mut Pages<u8>, bytes| pages.allocate(bytes, || Ok(7));
        assert!(matches!(
            allocate(&mut pages, 61),
            Err(PageError::TooLarge { limit: 60 })
        ));
        let first = allocate(&mut pages, 60).unwrap();
        assert!(matches!(
            allocate(&mut pages, 41),
            Err(PageError::OutOfMemory { free: Some(40) })
        ));
        let place = pages.place(&binding(Some(first), 0, 60));
        assert_eq!(pages.resolve(&binding(Some(first), 50, 10)), Ok(Some(&7)));
        for outside in [binding(Some(first), 51, 10), binding(None, 0, 1)] {
            assert!(matches!(pages.resolve(&outside), Err(Refused::Task(_))));
        }
        assert_eq!(pages.free(first), Some(7));
        assert_eq!(allocate(&mut pages, 60).unwrap(), first);
        assert_ne!(pages.place(&binding(Some(first), 0, 60)), place);
        assert_eq!(pages.resolve(&binding(None, 0, 0)), Ok(None));
    }
}

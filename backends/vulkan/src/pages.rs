//! Pages of device memory, and where bindings lie in them.

use std::sync::Arc;

use ash::vk;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::memory::{PageError, PageId};

use crate::driver::{Buffer, Code, Context, Purpose};

/// Where a binding lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) buffer: vk::Buffer,
    /// The offset of the first byte in the buffer.
    pub(crate) offset: u64,
    /// The device address of the first byte.
    pub(crate) address: u64,
}

impl Location {
    /// The location of an empty binding.
    const EMPTY: Self = Self {
        buffer: vk::Buffer::null(),
        offset: 0,
        address: 0,
    };
}

/// A range of memory, by which two bindings at different times can be compared: a later page may have the number of a
/// freed one, and even its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The serial number of the page; 0 if the binding has no page.
    page: u64,
    offset: u64,
    len: u64,
}

struct Page {
    buffer: Arc<Buffer>,
    /// From 1. No two pages of a device have the same one.
    serial: u64,
}

/// The allocated pages.
pub(crate) struct Pages {
    context: Arc<Context>,
    /// Indexed by page number.
    pages: Vec<Option<Page>>,
    /// The number of pages allocated so far.
    created: u64,
    /// Free page numbers.
    vacant: Vec<u32>,
    /// The most bytes of all pages, and the bytes allocated.
    limit: u64,
    allocated: u64,
}

impl Pages {
    /// Creates the table of pages of a device, which have at most `limit` bytes in total.
    pub(crate) fn new(context: &Arc<Context>, limit: u64) -> Self {
        Self {
            limit,
            allocated: 0,
            context: context.clone(),
            pages: Vec::new(),
            created: 0,
            vacant: Vec::new(),
        }
    }

    /// Allocates a page.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let limit = self.context.gpu.max_allocation_bytes.min(self.limit);
        if bytes > limit {
            return Err(PageError::TooLarge { limit });
        }
        let free = self.limit - self.allocated;
        if bytes > free {
            return Err(PageError::OutOfMemory { free: Some(free) });
        }
        let number = match self.vacant.last() {
            Some(number) => *number,
            None => u32::try_from(self.pages.len())
                .ok()
                .filter(|number| *number != PageId::NONE.0)
                .ok_or(PageError::OutOfMemory { free: None })?,
        };
        let created = Buffer::new(&self.context, bytes, Purpose::Page);
        let buffer = created.map_err(|code: Code| match code.is_loss() {
            true => PageError::Lost,
            false => PageError::OutOfMemory { free: None },
        })?;
        self.created += 1;
        let page = Page {
            buffer: Arc::new(buffer),
            serial: self.created,
        };
        if self.vacant.pop().is_some() {
            self.pages[number as usize] = Some(page);
        } else {
            self.pages.push(Some(page));
        }
        self.allocated += bytes;
        Ok(PageId(number))
    }

    /// Frees a page. Its memory lives on as long as aliases of it.
    pub(crate) fn free(&mut self, id: PageId) {
        let page = self.pages.get_mut(id.0 as usize).and_then(Option::take);
        debug_assert!(page.is_some(), "{id} is freed, but is not allocated");
        if let Some(page) = page {
            self.allocated -= page.buffer.bytes();
            self.vacant.push(id.0);
        }
    }

    /// Returns where a binding lies. An empty binding has a null buffer and address 0.
    #[inline]
    pub(crate) fn resolve(&self, binding: &BoundSlice) -> Result<Location, Refused> {
        let BoundSlice { offset, len, .. } = *binding;
        if len == 0 {
            return Ok(Location::EMPTY);
        }
        let page = self.page(binding.page);
        match page {
            Some(page) if offset + len <= page.bytes() => Ok(Location {
                buffer: page.raw(),
                offset,
                address: page.address() + offset,
            }),
            _ => Err(Refused::Task(match binding.page {
                Some(page) => format!("{len} bytes from byte {offset} are not within {page}"),
                None => format!("a binding of {len} bytes has no memory"),
            })),
        }
    }

    /// Returns the buffer of a page.
    pub(crate) fn page(&self, page: Option<PageId>) -> Option<&Arc<Buffer>> {
        Some(&self.get(page)?.buffer)
    }

    /// Returns the place of a binding.
    #[inline]
    pub(crate) fn place(&self, binding: &BoundSlice) -> Place {
        let page = self.get(binding.page).map_or(0, |page| page.serial);
        Place {
            page,
            offset: binding.offset,
            len: binding.len,
        }
    }

    #[inline]
    fn get(&self, page: Option<PageId>) -> Option<&Page> {
        self.pages.get(page?.0 as usize)?.as_ref()
    }

    /// Leaks all pages: the device may still use them.
    #[cold]
    pub(crate) fn leak_all(&mut self) {
        std::mem::forget(std::mem::take(&mut self.pages));
    }

    /// Frees all pages.
    pub(crate) fn free_all(&mut self) {
        self.pages.clear();
        self.allocated = 0;
        self.vacant.clear();
    }
}

//! The memory of the device: pages of host memory, and bindings as ranges of pages.

use std::sync::Arc;

use millstream::backend::Block;
use millstream::backend::{BoundSlice, NativeView, PageId, Refused};
use millstream::error::PageError;

use super::ALIGNMENT;

/// The allocated pages.
pub struct Pages {
    /// The pages, by number.
    pages: Vec<Option<Arc<Block>>>,
    /// The bytes that are left, if there is a limit.
    free_bytes: Option<u64>,
}

impl Pages {
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            pages: Vec::new(),
            free_bytes: limit,
        }
    }

    /// Allocates a page of zeros.
    pub fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let free = self.free_bytes;
        if free.is_some_and(|free| bytes > free) {
            return Err(PageError::OutOfMemory { free });
        }
        let page = Block::new(bytes, ALIGNMENT as usize).ok_or(PageError::OutOfMemory { free })?;
        self.free_bytes = free.map(|free| free - bytes);
        let vacant = self.pages.iter().position(Option::is_none);
        let number = vacant.unwrap_or_else(|| {
            self.pages.push(None);
            self.pages.len() - 1
        });
        self.pages[number] = Some(Arc::new(page));
        Ok(PageId(number as u32))
    }

    pub fn free(&mut self, page: PageId) {
        let freed = self.pages.get_mut(page.0 as usize).and_then(Option::take);
        if let (Some(free), Some(page)) = (&mut self.free_bytes, freed) {
            *free += page.bytes();
        }
    }

    /// Returns the bytes of a binding, or an error if they are not within a page.
    pub fn view(&self, slice: &BoundSlice) -> Result<View, Refused> {
        let page = match slice.page {
            _ if slice.len == 0 => None,
            Some(id) => self.pages.get(id.0 as usize).cloned().flatten(),
            None => None,
        };
        let end = slice.offset.checked_add(slice.len);
        let page_bytes = page.as_ref().map_or(0, |page| page.bytes());
        if slice.len > 0 && end.is_none_or(|end| end > page_bytes) {
            return Err(Refused::Task("a binding is not within its page".into()));
        }
        Ok(View {
            page,
            offset: slice.offset as usize,
            bytes: slice.len,
        })
    }
}

/// The bytes of a binding. A view holds its page, so it stays valid if the device thread frees the page meanwhile.
pub struct View {
    page: Option<Arc<Block>>,
    offset: usize,
    bytes: u64,
}

impl View {
    pub fn native(&self) -> NativeView {
        let start = match &self.page {
            // SAFETY: `Pages::view` has checked that the range lies within the page.
            Some(page) => unsafe { page.pointer().add(self.offset) },
            None => std::ptr::without_provenance_mut(ALIGNMENT as usize), // no bytes, never dereferenced
        };
        NativeView {
            pointer: start,
            bytes: self.bytes,
        }
    }
}

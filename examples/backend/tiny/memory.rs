//! The memory of the device: pages of the host's, and bindings as ranges of them.

use std::sync::Arc;

use millstream::PageError;
use millstream::backend::Block;
use millstream::backend::{BoundSlice, NativeView, PageId, Refused};

use super::ALIGNMENT;

/// The pages that live.
pub struct Pages {
    /// By the number of the page.
    pages: Vec<Option<Arc<Block>>>,
    /// Where there is a limit.
    free_bytes: Option<u64>,
}

impl Pages {
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            pages: Vec::new(),
            free_bytes: limit,
        }
    }

    /// A page of zeros, if there is room.
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

    /// The bytes of a binding, if they are there.
    pub fn view(&self, slice: &BoundSlice) -> Result<View, Refused> {
        let page = match slice.page {
            _ if slice.len == 0 => None,
            Some(id) => self.pages.get(id.0 as usize).cloned().flatten(),
            None => None,
        };
        let end = slice.offset.checked_add(slice.len);
        let there = page.as_ref().map_or(0, |page| page.bytes());
        if slice.len > 0 && end.is_none_or(|end| end > there) {
            return Err(Refused::Task("a binding is not within its page".into()));
        }
        Ok(View {
            page,
            offset: slice.offset as usize,
            bytes: slice.len,
        })
    }
}

/// The bytes of a binding. Tasks hold their pages, so a view outlives what the device thread does meanwhile.
pub struct View {
    page: Option<Arc<Block>>,
    offset: usize,
    bytes: u64,
}

impl View {
    pub fn native(&self) -> NativeView {
        let start = match &self.page {
            // SAFETY: the range lies in the page, which was checked by whoever made the view.
            Some(page) => unsafe { page.pointer().add(self.offset) },
            None => std::ptr::without_provenance_mut(ALIGNMENT as usize), // no bytes: never touched
        };
        NativeView {
            pointer: start,
            bytes: self.bytes,
        }
    }
}

//! The bytes of the scripted backend: pages and their slices.
//!
//! Checked: slices lie in live pages and do not overlap (I4), bindings lie in their live slices, nothing is freed
//! twice.

use std::collections::{HashMap, HashSet};

use millstream_protocol::{BoundSlice, PageError, PageId, SliceId};

/// A slice that is live for the backend.
struct Live {
    page: PageId,
    start: u64,
    len: u64,
}

pub(super) struct Memory {
    /// The pages and their lengths.
    pages: HashMap<PageId, u64>,
    pages_made: u32,
    /// The requests of pages so far, refused ones included.
    pub(super) page_requests: u64,
    pub(super) memory_bytes: u64,
    slices: HashMap<SliceId, Live>,
    /// Whether the device is lost: it has no pages any more, and takes none.
    pub(super) lost: bool,
    /// The slices that have ever had memory.
    pub(super) reserved: HashSet<SliceId>,
}

impl Memory {
    pub(super) fn new(memory_bytes: u64) -> Self {
        Self {
            pages: HashMap::new(),
            pages_made: 0,
            page_requests: 0,
            memory_bytes,
            slices: HashMap::new(),
            lost: false,
            reserved: HashSet::new(),
        }
    }

    /// Returns the numbers of live pages and of live slices.
    pub(super) fn live(&self) -> (usize, usize) {
        (self.pages.len(), self.slices.len())
    }

    pub(super) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.page_requests += 1;
        let free = self.memory_bytes - self.pages.values().sum::<u64>();
        if self.lost {
            return Err(PageError::Lost);
        }
        if bytes > free {
            return Err(PageError::OutOfMemory { free: Some(free) });
        }
        let page = PageId(self.pages_made);
        self.pages_made += 1;
        self.pages.insert(page, bytes);
        Ok(page)
    }

    pub(super) fn free(&mut self, page: PageId) {
        assert!(!self.lost, "{page} of a lost device is freed");
        assert!(
            self.slices.values().all(|slice| slice.page != page),
            "{page} is freed with a slice on it"
        );
        assert!(self.pages.remove(&page).is_some(), "{page} is freed twice");
    }

    pub(super) fn reserve(&mut self, slice: SliceId, page: PageId, start: u64, len: u64) {
        let page_len = self.pages[&page];
        assert!(start + len <= page_len, "{slice} ends beyond {page}");
        let overlaps = |other: &Live| {
            other.page == page && other.start < start + len && start < other.start + other.len
        };
        assert!(
            !self.slices.values().any(overlaps),
            "{slice} overlaps a live one (I4)"
        );
        assert!(
            self.slices
                .insert(slice, Live { page, start, len })
                .is_none(),
            "{slice} is reserved twice"
        );
        self.reserved.insert(slice);
    }

    pub(super) fn release(&mut self, slice: SliceId) {
        assert!(
            self.slices.remove(&slice).is_some(),
            "{slice} is released without being live"
        );
    }

    /// Returns the page of a binding, which lies in its live slice.
    pub(super) fn page_of(&self, bound: &BoundSlice) -> PageId {
        let live = &self.slices[&bound.slice];
        assert_eq!(
            Some(live.page),
            bound.page,
            "{} lies on another page",
            bound.slice
        );
        assert_eq!(live.start + bound.slice_offset, bound.offset);
        assert!(
            bound.slice_offset + bound.len <= live.len,
            "a binding ends beyond {}",
            bound.slice
        );
        live.page
    }
}

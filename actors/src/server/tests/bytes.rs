//! The bytes of the scripted backend: pages, their slices, and the effects of tasks.
//!
//! Checked: slices lie in live pages and do not overlap (I4), bindings lie in their live slices, nothing is freed
//! twice.

use std::collections::{BTreeMap, HashMap, HashSet};

use millstream_protocol::{Access, BoundSlice, PageError, PageId, SliceId};

/// A slice that is live for the backend.
struct Live {
    page: PageId,
    start: u64,
    len: u64,
}

/// The effect of a task on bytes.
pub(super) enum Effect {
    /// Nothing.
    None,
    /// As [`compute`].
    Compute(u64),
    /// The bytes of the first binding are copied to the second.
    Copy,
    /// These bytes are copied to the first binding.
    Store(Vec<u8>),
}

pub(super) struct Memory {
    pages: BTreeMap<PageId, Vec<u8>>,
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
            pages: BTreeMap::new(),
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
        let used: u64 = self.pages.values().map(|page| page.len() as u64).sum();
        let free = self.memory_bytes - used;
        if self.lost {
            return Err(PageError::Lost);
        }
        if bytes > free {
            return Err(PageError::OutOfMemory { free: Some(free) });
        }
        let page = PageId(self.pages_made);
        self.pages_made += 1;
        self.pages.insert(page, vec![0xCD; bytes as usize]);
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
        let bytes = self
            .pages
            .get_mut(&page)
            .expect("a slice lies in a live page");
        bytes[start as usize..(start + len) as usize].fill(0);
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

    /// Returns the bytes of a binding.
    pub(super) fn bytes(&self, bound: &BoundSlice) -> &[u8] {
        match bound.page {
            Some(page) => {
                &self.pages[&page][bound.offset as usize..(bound.offset + bound.len) as usize]
            }
            None => &[],
        }
    }

    fn store(&mut self, bound: &BoundSlice, bytes: &[u8]) {
        if let Some(page) = bound.page.and_then(|page| self.pages.get_mut(&page)) {
            page[bound.offset as usize..(bound.offset + bound.len) as usize].copy_from_slice(bytes);
        }
    }

    pub(super) fn apply(&mut self, bindings: &[BoundSlice], effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Store(bytes) => self.store(&bindings[0], &bytes),
            Effect::Copy => {
                let bytes = self.bytes(&bindings[0]).to_vec();
                self.store(&bindings[1], &bytes);
            }
            Effect::Compute(number) => {
                let mut views: Vec<_> = bindings
                    .iter()
                    .map(|bound| (bound.access, self.bytes(bound).to_vec()))
                    .collect();
                compute(number, &mut views);
                for (bound, (access, bytes)) in bindings.iter().zip(&views) {
                    if access.writes() {
                        self.store(bound, bytes);
                    }
                }
            }
        }
    }
}

/// Computes launch `number`: every byte that it writes depends on its number and on all bytes that it reads.
pub(super) fn compute(number: u64, views: &mut [(Access, Vec<u8>)]) {
    let mut hash = number ^ 0xcbf2_9ce4_8422_2325;
    for byte in views
        .iter()
        .filter(|(access, _)| access.reads())
        .flat_map(|(_, bytes)| bytes)
    {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    for (access, bytes) in views.iter_mut().filter(|(access, _)| access.writes()) {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let fresh = (hash >> (index % 7 * 8)) as u8;
            *byte = match access {
                Access::ReadWrite => byte.wrapping_mul(3) ^ fresh,
                _ => fresh,
            };
        }
    }
}

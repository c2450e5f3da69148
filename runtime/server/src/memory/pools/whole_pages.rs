//! Whole pages for one slice each: large slices, whose pages are kept for the next one of about the
//! size, and dedicated ones, whose pages are due to go back as soon as they are free.
//!
//! Only clean pages are kept here. A kept page serves a slice at most an eighth smaller.

use millstream_protocol::memory::PageId;
use slab::Slab;

use super::source::PageSource;

/// A page that one slice has.
pub(super) struct WholePage {
    pub(super) id: PageId,
    pub(super) bytes: u64,
    /// Goes back before others once it is free.
    evict_first: bool,
}

/// All whole pages.
#[derive(Default)]
pub(super) struct WholePages {
    pages: Slab<WholePage>,
    /// Free pages by size: bytes and page.
    cached: Vec<(u64, u32)>,
    /// Pages that go back.
    due: Vec<u32>,
}

impl WholePages {
    /// Adds a page, in use.
    pub(super) fn add(&mut self, id: PageId, bytes: u64) -> u32 {
        let page = WholePage {
            id,
            bytes,
            evict_first: false,
        };
        self.pages.insert(page) as u32
    }

    /// Takes the smallest kept page that a slice of `bytes` fits in.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u32> {
        let at = self.cached.partition_point(|(size, _)| *size < bytes);
        let fits = self
            .cached
            .get(at)
            .is_some_and(|(size, _)| serves(*size, bytes));
        let page = fits.then(|| self.cached.remove(at).1)?;
        self.pages[page as usize].evict_first = false;
        Some(page)
    }

    /// A page goes back before others, if it is free before it is used again.
    pub(super) fn evict_first(&mut self, page: u32) {
        self.pages[page as usize].evict_first = true;
    }

    /// A page is clean and waits for another slice.
    pub(super) fn cache(&mut self, page: u32) {
        let cached = (self.pages[page as usize].bytes, page);
        let at = self.cached.partition_point(|other| *other < cached);
        debug_assert!(self.cached.get(at) != Some(&cached), "a page is freed once");
        self.cached.insert(at, cached);
    }

    /// A page is clean and goes back.
    pub(super) fn retire(&mut self, page: u32) {
        debug_assert!(!self.due.contains(&page), "a page is freed once");
        self.due.push(page);
    }

    #[inline]
    pub(super) fn page(&self, page: u32) -> &WholePage {
        &self.pages[page as usize]
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// How many pages are kept.
    #[inline]
    pub(super) fn cached(&self) -> usize {
        self.cached.len()
    }

    /// Is there a page that goes back?
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Gives the pages back that are due. Returns bytes.
    pub(super) fn release_due(&mut self, source: &mut dyn PageSource) -> u64 {
        let mut bytes = 0;
        while let Some(page) = self.due.pop() {
            bytes += self.remove(source, page);
        }
        bytes
    }

    /// Gives kept pages back until `keep` are left, spilled ones before others, the largest first. Returns
    /// bytes.
    pub(super) fn release_cached(&mut self, source: &mut dyn PageSource, keep: usize) -> u64 {
        let mut bytes = 0;
        if self.cached.len() > keep {
            bytes += self.release_evict_first(source, self.cached.len() - keep);
        }
        while self.cached.len() > keep {
            if let Some((_, page)) = self.cached.pop() {
                bytes += self.remove(source, page);
            }
        }
        bytes
    }

    /// Gives at most so many kept pages back that were spilled, the largest first. Returns bytes.
    pub(super) fn release_evict_first(&mut self, source: &mut dyn PageSource, most: usize) -> u64 {
        let evict_first = |(_, page): &&(u64, u32)| self.pages[*page as usize].evict_first;
        let leaving = self.cached.iter().rev().filter(evict_first).take(most);
        let leave: Vec<_> = leaving.copied().collect();
        self.cached.retain(|cached| !leave.contains(cached));
        leave
            .into_iter()
            .map(|(_, page)| self.remove(source, page))
            .sum()
    }

    fn remove(&mut self, source: &mut dyn PageSource, page: u32) -> u64 {
        let page = self.pages.remove(page as usize);
        source.free_page(page.id);
        page.bytes
    }
}

/// Does a page of `size` serve a slice of `bytes` without waste?
#[inline]
pub(super) fn serves(size: u64, bytes: u64) -> bool {
    (bytes..=bytes + bytes / 8).contains(&size)
}

//! Whole pages for one slice each: pages of large slices, which are cached for the next slice of about the size, and
//! pages of dedicated slices, which are due to be freed once they are clean.
//!
//! Only clean pages are cached. A cached page serves slices that are at most an eighth smaller.

use millstream_protocol::PageId;
use slab::Slab;

use super::PageSource;

/// A page for one slice.
pub(super) struct WholePage {
    pub(super) id: PageId,
    pub(super) bytes: u64,
    /// Whether it is freed before other cached pages.
    evict_first: bool,
}

/// All whole pages.
#[derive(Default)]
pub(super) struct WholePages {
    pages: Slab<WholePage>,
    /// Cached pages by size: bytes and page.
    cached: Vec<(u64, u32)>,
    /// Pages that are due to be freed.
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

    /// Takes the smallest cached page that serves a slice of `bytes`.
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

    /// Marks a page: once it is cached it is freed before others, unless it is used again.
    pub(super) fn evict_first(&mut self, page: u32) {
        self.pages[page as usize].evict_first = true;
    }

    /// Caches a page, which is clean.
    pub(super) fn cache(&mut self, page: u32) {
        let cached = (self.pages[page as usize].bytes, page);
        let at = self.cached.partition_point(|other| *other < cached);
        debug_assert!(self.cached.get(at) != Some(&cached), "a page is freed once");
        self.cached.insert(at, cached);
    }

    /// Makes a page, which is clean, due to be freed.
    pub(super) fn set_due(&mut self, page: u32) {
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

    /// Returns the number of cached pages.
    #[inline]
    pub(super) fn cached(&self) -> usize {
        self.cached.len()
    }

    /// Returns `true` if a page is due to be freed.
    #[inline]
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Frees the pages that are due. Returns their bytes.
    pub(super) fn release_due(&mut self, source: &mut dyn PageSource) -> u64 {
        let mut bytes = 0;
        while let Some(page) = self.due.pop() {
            bytes += self.remove(source, page);
        }
        bytes
    }

    /// Frees cached pages until `keep` are left: marked ones before others, the largest first. Returns their bytes.
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

    /// Frees at most `most` cached pages that are marked, the largest first. Returns their bytes.
    pub(super) fn release_evict_first(&mut self, source: &mut dyn PageSource, most: usize) -> u64 {
        let evict_first = |(_, page): &&(u64, u32)| self.pages[*page as usize].evict_first;
        let freed = self.cached.iter().rev().filter(evict_first).take(most);
        let freed: Vec<_> = freed.copied().collect();
        self.cached.retain(|cached| !freed.contains(cached));
        freed
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

/// Returns `true` if a page of `size` bytes serves a slice of `bytes` without much waste.
#[inline]
pub(super) fn serves(size: u64, bytes: u64) -> bool {
    (bytes..=bytes + bytes / 8).contains(&size)
}

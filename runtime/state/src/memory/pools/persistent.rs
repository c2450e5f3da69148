//! Persistent pages: slices that stay, packed one behind the other with an exact fit.
//!
//! A freed range serves only requests of its own size, so pages of weights do not fragment. When the last range of a
//! page is freed, the page is empty again. Only clean ranges are freed here (I4).

use std::collections::HashMap;

use millstream_protocol::PageId;
use slab::Slab;

use super::PageSource;

/// The number of pages with room at their end that are tried for a range.
const TRIED_MAX: usize = 8;

struct Page {
    id: PageId,
    units: u32,
    /// Units that were handed out, from the start on.
    used: u32,
    /// Ranges in use.
    ranges: u32,
}

/// A range of a persistent page, in use or a hole.
#[derive(Clone, Copy)]
struct Range {
    page: u32,
    offset: u32,
    units: u32,
}

/// All persistent pages.
#[derive(Default)]
pub(super) struct PersistentPages {
    pages: Slab<Page>,
    ranges: Slab<Range>,
    /// Freed ranges by their exact units.
    holes: HashMap<u32, Vec<u32>>,
    /// The number of pages without a range in use. They have no holes either.
    empty: usize,
}

impl PersistentPages {
    /// Takes a range: a hole of exactly this size, or the end of a page.
    pub(super) fn take(&mut self, units: u32) -> Option<u32> {
        if let Some(hole) = self.holes.get_mut(&units).and_then(Vec::pop) {
            let page = self.ranges[hole as usize].page;
            self.pages[page as usize].ranges += 1;
            return Some(hole);
        }
        let mut tried = self
            .pages
            .iter_mut()
            .rev()
            .filter(|(_, page)| page.used < page.units)
            .take(TRIED_MAX);
        let (key, page) = tried.find(|(_, page)| page.units - page.used >= units)?;
        self.empty -= usize::from(page.ranges == 0);
        page.ranges += 1;
        let range = Range {
            page: key as u32,
            offset: page.used,
            units,
        };
        page.used += units;
        Some(self.ranges.insert(range) as u32)
    }

    /// Frees a range, which is clean.
    pub(super) fn free(&mut self, key: u32) {
        let Range {
            page: page_key,
            units,
            ..
        } = self.ranges[key as usize];
        let page = &mut self.pages[page_key as usize];
        page.ranges -= 1;
        self.holes.entry(units).or_default().push(key);
        if page.ranges > 0 {
            return;
        }
        page.used = 0;
        self.empty += 1;
        let ranges = &mut self.ranges;
        self.holes.retain(|_, holes| {
            holes.retain(|hole| {
                let keep = ranges[*hole as usize].page != page_key;
                if !keep {
                    ranges.remove(*hole as usize);
                }
                keep
            });
            !holes.is_empty()
        });
    }

    /// Adds a page.
    pub(super) fn add(&mut self, id: PageId, units: u32) {
        self.pages.insert(Page {
            id,
            units,
            used: 0,
            ranges: 0,
        });
        self.empty += 1;
    }

    /// Returns the page, the first unit and the number of units of a range.
    pub(super) fn place(&self, range: u32) -> (PageId, u64, u64) {
        let Range {
            page,
            offset,
            units,
        } = self.ranges[range as usize];
        (
            self.pages[page as usize].id,
            u64::from(offset),
            u64::from(units),
        )
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the number of pages without a range in use.
    #[inline]
    pub(super) fn empty(&self) -> usize {
        self.empty
    }

    /// Frees empty pages until `keep` of them are left. Returns their units.
    pub(super) fn release_empty(&mut self, source: &mut dyn PageSource, keep: usize) -> u64 {
        let (mut units, mut surplus) = (0, self.empty.saturating_sub(keep));
        self.empty -= surplus;
        if surplus > 0 {
            self.pages.retain(|_, page| {
                let free = page.ranges == 0 && surplus > 0;
                if free {
                    surplus -= 1;
                    units += u64::from(page.units);
                    source.free_page(page.id);
                }
                !free
            });
        }
        units
    }
}

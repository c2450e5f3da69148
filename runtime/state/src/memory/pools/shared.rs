//! Shared pages: ranges cut by the `offset-allocator` crate, with one allocator per page.
//!
//! Only clean ranges are freed here, so coalescing never mixes the points of neighbours (I4). Each range has the size
//! of a class, which is a bin of the allocator, so its hole serves its class again. Pages are listed in bins by the
//! power of two of their largest hole, so finding a page with room is O(1). The bin with the smallest holes that
//! suffice is preferred, so that other pages become empty.

use millstream_protocol::PageId;
use offset_allocator::{Allocation, Allocator};
use slab::Slab;

use super::PageSource;
use super::class::Layout;

/// The number of bins: one for pages without room, and one for each power of two.
const BINS: usize = 33;
/// The number of pages of a bin that are tried, which may lack room, before the next larger bin.
const TRIED_MAX: usize = 4;
/// The most ranges and holes of one page, 36 bytes each.
const NODES_MAX: u64 = 1 << 20;

/// A range of a shared page.
pub(super) struct Range {
    pub(super) page: PageId,
    /// The first unit in the page.
    pub(super) offset: u32,
    pub(super) units: u32,
    /// The key of the page.
    key: u32,
    allocation: Allocation,
}

struct Page {
    id: PageId,
    units: u32,
    allocator: Allocator,
    /// The number of ranges in use.
    ranges: u32,
    /// Whether it is freed before other empty pages.
    evict_first: bool,
    /// The units of the largest hole that the allocator is sure to find.
    largest: u32,
    /// Its bin, and its index there.
    bin: usize,
    position: usize,
}

/// All shared pages and their ranges.
pub(super) struct SharedPages {
    pages: Slab<Page>,
    ranges: Slab<Range>,
    bins: [Vec<u32>; BINS],
    /// A bit for each bin that has a page.
    filled: u64,
    /// The number of pages without a range in use.
    empty: usize,
    /// The units of the smallest range.
    range_min: u64,
}

impl SharedPages {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            pages: Slab::new(),
            ranges: Slab::new(),
            bins: [const { Vec::new() }; BINS],
            filled: 0,
            empty: 0,
            range_min: layout.range_min(),
        }
    }

    /// Takes a range, if a page has room.
    pub(super) fn take(&mut self, units: u32) -> Option<u32> {
        let key = self.find(units)?;
        let page = self.pages.get_mut(key as usize)?;
        let allocation = page.allocator.allocate(units)?;
        self.empty -= usize::from(page.ranges == 0);
        page.ranges += 1;
        page.evict_first = false;
        let range = Range {
            page: page.id,
            offset: allocation.offset,
            units,
            key,
            allocation,
        };
        self.move_to_bin(key);
        Some(self.ranges.insert(range) as u32)
    }

    /// Marks the page of a range: once empty it is freed before others, unless it is used again.
    pub(super) fn evict_first(&mut self, range: u32) {
        let key = self.ranges[range as usize].key;
        self.pages[key as usize].evict_first = true;
    }

    /// Frees a range, which is clean.
    pub(super) fn free(&mut self, range: u32) {
        debug_assert!(
            self.ranges.contains(range as usize),
            "a range is freed once"
        );
        let Some(range) = self.ranges.try_remove(range as usize) else {
            return;
        };
        let page = &mut self.pages[range.key as usize];
        page.allocator.free(range.allocation);
        page.ranges -= 1;
        self.empty += usize::from(page.ranges == 0);
        self.move_to_bin(range.key);
    }

    #[inline]
    pub(super) fn range(&self, range: u32) -> &Range {
        &self.ranges[range as usize]
    }

    /// Adds a page.
    pub(super) fn add(&mut self, id: PageId, units: u32) {
        // There may be a hole behind every range.
        let nodes = (2 * (u64::from(units) / self.range_min) + 8).min(NODES_MAX);
        let allocator = Allocator::with_max_allocs(units, nodes as u32);
        let page = Page {
            id,
            units,
            allocator,
            ranges: 0,
            evict_first: false,
            largest: 0,
            bin: 0,
            position: self.bins[0].len(),
        };
        let key = self.pages.insert(page) as u32;
        self.bins[0].push(key);
        self.filled |= 1;
        self.empty += 1;
        self.move_to_bin(key);
    }

    /// Returns the number of pages without a range in use.
    #[inline]
    pub(super) fn empty(&self) -> usize {
        self.empty
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Frees empty pages until `keep` of them are left, marked ones first. Returns their units.
    pub(super) fn release_empty(&mut self, source: &mut dyn PageSource, keep: usize) -> u64 {
        if self.empty <= keep {
            return 0;
        }
        let (mut keys, others) = self.empty_pages();
        keys.extend(others);
        keys.truncate(self.empty - keep);
        self.release(source, keys)
    }

    /// Frees the empty pages that are marked. Returns their units.
    pub(super) fn release_evict_first(&mut self, source: &mut dyn PageSource) -> u64 {
        let (evict_first, _) = self.empty_pages();
        self.release(source, evict_first)
    }

    /// Returns the empty pages: those that are marked, and the others.
    fn empty_pages(&self) -> (Vec<u32>, Vec<u32>) {
        let empty = self.pages.iter().filter(|(_, page)| page.ranges == 0);
        empty
            .map(|(key, _)| key as u32)
            .partition(|key| self.pages[*key as usize].evict_first)
    }

    fn release(&mut self, source: &mut dyn PageSource, keys: Vec<u32>) -> u64 {
        let mut units = 0;
        for key in keys {
            self.remove_from_bin(key);
            let page = self.pages.remove(key as usize);
            self.empty -= 1;
            units += u64::from(page.units);
            source.free_page(page.id);
        }
        units
    }

    /// Returns a page that a range of `units` can be cut from.
    fn find(&self, units: u32) -> Option<u32> {
        let bin = bin_of(units);
        let fits = |key: &&u32| self.pages[**key as usize].largest >= units;
        if let Some(key) = self.bins[bin].iter().rev().take(TRIED_MAX).find(fits) {
            return Some(*key);
        }
        let larger_bins = self.filled & !((1 << (bin + 1)) - 1);
        if larger_bins != 0 {
            return self.bins[larger_bins.trailing_zeros() as usize]
                .last()
                .copied();
        }
        self.bins[bin]
            .iter()
            .rev()
            .skip(TRIED_MAX)
            .find(fits)
            .copied()
    }

    /// Moves a page whose holes have changed to its bin.
    fn move_to_bin(&mut self, key: u32) {
        let page = &mut self.pages[key as usize];
        page.largest = page.allocator.storage_report().largest_free_region;
        let bin = bin_of(page.largest);
        if bin != page.bin {
            self.remove_from_bin(key);
            let page = &mut self.pages[key as usize];
            (page.bin, page.position) = (bin, self.bins[bin].len());
            self.bins[bin].push(key);
            self.filled |= 1 << bin;
        }
    }

    fn remove_from_bin(&mut self, key: u32) {
        let Page { bin, position, .. } = self.pages[key as usize];
        self.bins[bin].swap_remove(position);
        if let Some(moved) = self.bins[bin].get(position) {
            self.pages[*moved as usize].position = position;
        }
        if self.bins[bin].is_empty() {
            self.filled &= !(1 << bin);
        }
    }
}

/// Returns the bin of pages whose largest hole has `units`.
#[inline]
fn bin_of(units: u32) -> usize {
    units.checked_ilog2().map_or(0, |log| log as usize + 1)
}

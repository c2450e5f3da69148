//! Shared pages: ranges cut by the `offset-allocator` crate, one allocator per page.
//!
//! Only clean ranges come back here, so that coalescing never mixes the points of neighbours (I4).
//! Ranges have the size of a class, which is a bin of the allocator, so a hole serves its class again.
//! Pages are listed by the power of two of their largest hole: finding one with room is O(1). Among
//! those the least roomy wins, so that pages run empty.

use millstream_protocol::memory::PageId;
use offset_allocator::{Allocation, Allocator};
use slab::Slab;

use super::class::Layout;
use super::source::PageSource;

/// Lists of pages: none has room, and a list per power of two.
const BINS: usize = 33;
/// How many pages are tried that may or may not have room, before the next larger list.
const TRIED_MAX: usize = 4;
/// The most ranges and holes of one page, 36 bytes each.
const NODES_MAX: u64 = 1 << 20;

/// A range of a shared page.
pub(super) struct Range {
    pub(super) page: PageId,
    /// First unit in the page.
    pub(super) offset: u32,
    pub(super) units: u32,
    /// The page in the table.
    key: u32,
    allocation: Allocation,
}

struct Page {
    id: PageId,
    units: u32,
    allocator: Allocator,
    /// Ranges handed out.
    ranges: u32,
    /// Goes back before others once it is empty.
    evict_first: bool,
    /// Units of the largest hole that the allocator is sure to find.
    largest: u32,
    /// The list it is in, and where.
    bin: usize,
    position: usize,
}

/// All shared pages and their ranges.
pub(super) struct SharedPages {
    pages: Slab<Page>,
    ranges: Slab<Range>,
    bins: [Vec<u32>; BINS],
    /// Which lists have a page.
    filled: u64,
    /// Pages without a range.
    empty: usize,
    /// Units of the smallest range.
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

    /// The page of a range goes back before others, if it is empty before it is used again.
    pub(super) fn evict_first(&mut self, range: u32) {
        let key = self.ranges[range as usize].key;
        self.pages[key as usize].evict_first = true;
    }

    /// Gives a range back, clean.
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
        // Every range may have a hole behind it.
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

    /// How many pages have no range.
    #[inline]
    pub(super) fn empty(&self) -> usize {
        self.empty
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Gives empty pages back until `keep` of them are left, spilled ones first. Returns units.
    pub(super) fn release_empty(&mut self, source: &mut dyn PageSource, keep: usize) -> u64 {
        if self.empty <= keep {
            return 0;
        }
        let (mut keys, others) = self.empty_pages();
        keys.extend(others);
        keys.truncate(self.empty - keep);
        self.release(source, keys)
    }

    /// Gives the empty pages back that were spilled. Returns units.
    pub(super) fn release_evict_first(&mut self, source: &mut dyn PageSource) -> u64 {
        let (evict_first, _) = self.empty_pages();
        self.release(source, evict_first)
    }

    /// The empty pages: those that were spilled, and the others.
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

    /// The page that a range of `units` is cut from.
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

    /// Moves a page, whose holes have changed, to its list.
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

/// The list of pages whose largest hole has `units`.
#[inline]
fn bin_of(units: u32) -> usize {
    units.checked_ilog2().map_or(0, |log| log as usize + 1)
}

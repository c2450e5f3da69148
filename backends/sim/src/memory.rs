//! The memory of the device: pages of the host, filled with patterns, and the slices on them.
//!
//! What nobody defined reads as a pattern: [`ALLOCATED`] before a slice, [`RESERVED`] in a fresh slice, [`RELEASED`] after
//! one. A range may be given to a new slice while tasks of the old one are still queued, so a pattern is
//! written only where nothing queued touches the bytes; in a fresh slice the rest is written before the first
//! task that changes it.
//!
//! A page that is freed too early stays allocated while something queued points to it: what the checker finds must
//! not be undefined behaviour of the simulator.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use millstream_core::backend::{BoundSlice, Refused};
use millstream_core::id::{Point, SliceId};
use millstream_core::kernel::NativeView;
use millstream_core::memory::{PageError, PageId};

use crate::ranges::RangeMap;

/// Every page and so every slice starts at a multiple of this many bytes.
pub(crate) const ALIGNMENT: usize = 256;
/// Bytes of a page before any slice.
pub(crate) const ALLOCATED: u8 = 0xA5;
/// Bytes of a slice that nobody wrote.
pub(crate) const RESERVED: u8 = 0xC7;
/// Bytes of a slice that has ended.
pub(crate) const RELEASED: u8 = 0xDF;

/// The memory of one page.
pub(crate) struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory, which is plain; who may touch it when is the hazards' matter.
unsafe impl Send for Block {}
// SAFETY: as above; a shared block gives out nothing but a pointer.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: u64) -> Option<Self> {
        let size = usize::try_from(bytes.max(1)).ok()?;
        let layout = Layout::from_size_align(size, ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: as many bytes were just allocated.
        unsafe { start.write_bytes(ALLOCATED, size) };
        Some(Self { start, layout })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

struct Page {
    block: Arc<Block>,
    bytes: u64,
    /// What queued tasks touch here.
    queued: Vec<(Point, Range<u64>)>,
    /// Bytes of live slices that still have to become [`RESERVED`].
    stale: RangeMap<bool>,
    /// The slices that were reserved here and not released, by their first byte.
    live: BTreeMap<u64, (u64, Key)>,
}

/// A slice, as a key that has an order.
type Key = (u32, u32);

struct Slice {
    page: PageId,
    range: Range<u64>,
    /// Queued tasks that name it.
    uses: u64,
    released: bool,
}

/// The pages and slices that live.
pub(crate) struct Memory {
    pages: BTreeMap<PageId, Page>,
    pages_made: u32,
    slices: BTreeMap<Key, Slice>,
    free_bytes: u64,
    limit_bytes: u64,
}

fn key(slice: SliceId) -> Key {
    (slice.index(), slice.generation())
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Memory {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            pages: BTreeMap::new(),
            pages_made: 0,
            slices: BTreeMap::new(),
            free_bytes: limit_bytes,
            limit_bytes,
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        if bytes > self.limit_bytes {
            let limit = self.limit_bytes;
            return Err(PageError::TooLarge { limit });
        }
        let free = Some(self.free_bytes);
        let out_of_memory = PageError::OutOfMemory { free };
        // Numbers are not used again, so that what outlived its page finds none.
        if bytes > self.free_bytes || self.pages_made == PageId::NONE.0 {
            return Err(out_of_memory);
        }
        let block = Arc::new(Block::new(bytes).ok_or(out_of_memory)?);
        let id = PageId(self.pages_made);
        self.pages_made += 1;
        self.free_bytes -= bytes;
        let page = Page {
            block,
            bytes,
            queued: Vec::new(),
            stale: RangeMap::default(),
            live: BTreeMap::new(),
        };
        self.pages.insert(id, page);
        Ok(id)
    }

    pub(crate) fn free(&mut self, id: PageId) {
        if let Some(page) = self.pages.remove(&id) {
            self.free_bytes += page.bytes;
        }
    }

    /// The memory of a binding, and what keeps it allocated.
    pub(crate) fn resolve(
        &self,
        binding: &BoundSlice,
    ) -> Result<(NativeView, Option<Arc<Block>>), Refused> {
        let BoundSlice { offset, len, .. } = *binding;
        if len == 0 {
            let pointer = ptr::without_provenance_mut(ALIGNMENT);
            return Ok((NativeView { pointer, bytes: 0 }, None));
        }
        let page = binding.page.and_then(|id| self.pages.get(&id));
        match page {
            Some(page) if offset.checked_add(len).is_some_and(|end| end <= page.bytes) => {
                // SAFETY: the offset lies in the page, whose block is that large.
                let pointer = unsafe { page.block.start.as_ptr().add(offset as usize) };
                let view = NativeView {
                    pointer,
                    bytes: len,
                };
                Ok((view, Some(page.block.clone())))
            }
            _ => Err(Refused::Task(match binding.page {
                Some(page) => format!("{len} bytes from byte {offset} are not within {page}"),
                None => format!("{len} bytes are bound without a page"),
            })),
        }
    }

    pub(crate) fn slice_reserved(&mut self, slice: SliceId, id: PageId, range: Range<u64>) {
        if let Some(page) = self
            .pages
            .get_mut(&id)
            .filter(|page| range.end <= page.bytes)
        {
            page.stale.update(range.clone(), |stale| *stale = true);
            page.refresh(range.clone(), None);
            page.live.insert(range.start, (range.end, key(slice)));
        }
        let slice_state = Slice {
            page: id,
            range,
            uses: 0,
            released: false,
        };
        self.slices.insert(key(slice), slice_state);
    }

    pub(crate) fn slice_released(&mut self, slice: SliceId) {
        if let Some(state) = self.slices.get_mut(&key(slice)) {
            state.released = true;
            let (ended, start) = (state.uses == 0, state.range.start);
            if let Some(page) = self.pages.get_mut(&state.page)
                && page
                    .live
                    .get(&start)
                    .is_some_and(|(_, live)| *live == key(slice))
            {
                page.live.remove(&start);
            }
            if ended {
                self.end_slice(key(slice));
            }
        }
    }

    /// A task is queued.
    pub(crate) fn queued(&mut self, point: Point, bindings: &[BoundSlice]) {
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            if let Some(page) = bound.page.and_then(|id| self.pages.get_mut(&id)) {
                let range = bound.offset..bound.offset + bound.len;
                page.queued.push((point, range));
            }
            if let Some(slice) = self.slices.get_mut(&key(bound.slice)) {
                slice.uses += 1;
            }
        }
    }

    /// A task starts: what it changes and nobody wrote yet reads as [`RESERVED`] first. Not so where its
    /// slice was released meanwhile: then the bytes that are stale are its successor's.
    pub(crate) fn starts(&mut self, point: Point, bindings: &[BoundSlice]) {
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let page = bound.page.and_then(|id| self.pages.get_mut(&id));
            if let Some(page) =
                page.filter(|page| page.owner(bound.offset) == Some(key(bound.slice)))
            {
                let range = bound.offset..bound.offset + bound.len;
                page.refresh(range, Some((point, bound.access.writes())));
            }
        }
    }

    /// A task has ended, or will never run.
    pub(crate) fn ended(&mut self, point: Point, bindings: &[BoundSlice]) {
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            if let Some(page) = bound.page.and_then(|id| self.pages.get_mut(&id)) {
                page.queued.retain(|(queued, _)| *queued != point);
            }
        }
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            let key = key(bound.slice);
            if let Some(slice) = self.slices.get_mut(&key) {
                slice.uses = slice.uses.saturating_sub(1);
                if slice.released && slice.uses == 0 {
                    self.end_slice(key);
                }
            }
        }
    }

    /// The last use of a slice that was released has ended: what no other slice has by now reads as
    /// [`RELEASED`].
    fn end_slice(&mut self, key: Key) {
        let Some(slice) = self.slices.remove(&key) else {
            return;
        };
        let Some(page) = self.pages.get_mut(&slice.page) else {
            return;
        };
        if !page.is_taken(&slice.range)
            && slice.range.end <= page.bytes
            && !page.is_queued(&slice.range, None)
        {
            page.stale
                .update(slice.range.clone(), |stale| *stale = false);
            page.fill(&slice.range, RELEASED);
        }
    }
}

impl Page {
    /// Has a slice that was not released such bytes?
    fn is_taken(&self, range: &Range<u64>) -> bool {
        // They do not overlap each other, so the last one that starts before the end is the only one.
        let last = self.live.range(..range.end).next_back();
        last.is_some_and(|(_, (end, _))| *end > range.start)
    }

    /// The slice that was reserved at this byte and not released.
    fn owner(&self, at: u64) -> Option<Key> {
        let (_, (end, owner)) = self.live.range(..=at).next_back()?;
        (*end > at).then_some(*owner)
    }

    /// Does a task other than this one touch such bytes?
    fn is_queued(&self, range: &Range<u64>, own: Option<Point>) -> bool {
        self.queued
            .iter()
            .any(|(point, queued)| Some(*point) != own && overlap(queued, range))
    }

    /// Fills stale bytes of the range, where that is safe: a task that writes comes after all that touch
    /// them; otherwise nothing else that is queued may touch them.
    fn refresh(&mut self, range: Range<u64>, task: Option<(Point, bool)>) {
        let stale: Vec<Range<u64>> = self
            .stale
            .iter(range)
            .filter(|(_, stale)| **stale)
            .map(|(part, _)| part)
            .collect();
        for part in stale {
            let writes = task.is_some_and(|(_, writes)| writes);
            if writes || !self.is_queued(&part, task.map(|(point, _)| point)) {
                self.stale.update(part.clone(), |stale| *stale = false);
                self.fill(&part, RESERVED);
            }
        }
    }

    fn fill(&self, range: &Range<u64>, pattern: u8) {
        debug_assert!(range.end <= self.bytes, "a pattern stays within its page");
        // SAFETY: the range lies in the page; nothing queued touches it, or it comes before this.
        unsafe {
            let start = self.block.start.as_ptr().add(range.start as usize);
            start.write_bytes(pattern, (range.end - range.start) as usize);
        }
    }
}

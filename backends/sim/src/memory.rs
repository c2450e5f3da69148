//! The memory of the device: pages of host memory, filled with patterns, and the slices on them.
//!
//! Undefined bytes of a fresh slice read as a pattern, [`RESERVED`]. Other bytes keep what they were: no task may touch
//! them, and large pages cost nothing.
//!
//! A range may go to a new slice while tasks of the old one are still queued. So a pattern is written only where no
//! queued task touches the bytes; in a fresh slice the rest is written before the first task that changes it.
//!
//! A page that is freed too early stays allocated while a queued task points to it: a violation that the checker
//! reports must not be undefined behaviour of the simulator.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use millstream_host::{ALIGNMENT, view_of};
use millstream_protocol::{
    BoundSlice, NativeView, PageError, PageId, Refused, SliceId, staging::Block,
};

use crate::ranges::RangeMap;

/// The pattern of undefined bytes in a live slice.
pub(crate) const RESERVED: u8 = 0xC7;

struct Page {
    block: Arc<Block>,
    fills: bool,
    /// How many bindings of queued tasks touch each byte. Counts, so that a task costs the same however many are queued.
    queued: RangeMap<u32>,
    /// Bytes of live slices that have yet to be filled with [`RESERVED`].
    stale: RangeMap<bool>,
    /// The slice that was reserved last over each byte.
    owners: RangeMap<Option<SliceId>>,
}

/// The live pages and slices.
pub(crate) struct Memory {
    pages: BTreeMap<PageId, Page>,
    pages_made: u32,
    pub(crate) free_bytes: u64,
    limit_bytes: u64,
    /// Undefined bytes are filled with patterns. Otherwise no byte is touched.
    fills: bool,
}

fn range_of(bound: &BoundSlice) -> Range<u64> {
    bound.offset..bound.offset + bound.len
}

impl Memory {
    pub(crate) fn new(limit_bytes: u64, fills: bool) -> Self {
        Self {
            pages: BTreeMap::new(),
            pages_made: 0,
            free_bytes: limit_bytes,
            limit_bytes,
            fills,
        }
    }

    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        if bytes > self.limit_bytes {
            let limit = self.limit_bytes;
            return Err(PageError::TooLarge { limit });
        }
        let free = Some(self.free_bytes);
        let out_of_memory = PageError::OutOfMemory { free };
        // Page numbers are not reused, so a stale number never resolves.
        if bytes > self.free_bytes || self.pages_made == PageId::NONE.0 {
            return Err(out_of_memory);
        }
        let block = Arc::new(Block::new(bytes, ALIGNMENT).ok_or(out_of_memory)?);
        let id = PageId(self.pages_made);
        self.pages_made += 1;
        self.free_bytes -= bytes;
        let page = Page {
            block,
            fills: self.fills,
            queued: RangeMap::default(),
            stale: RangeMap::default(),
            owners: RangeMap::default(),
        };
        self.pages.insert(id, page);
        Ok(id)
    }

    pub(crate) fn free(&mut self, id: PageId) {
        if let Some(page) = self.pages.remove(&id) {
            self.free_bytes += page.block.bytes();
        }
    }

    /// Returns the memory of a binding, and the block that keeps it allocated.
    pub(crate) fn resolve(
        &self,
        binding: &BoundSlice,
    ) -> Result<(NativeView, Option<Arc<Block>>), Refused> {
        let page = binding.page.and_then(|id| self.pages.get(&id));
        let block = page.map(|page| &page.block);
        let view = view_of(binding, block.map(|block| &**block))?;
        Ok((view, block.cloned()))
    }

    pub(crate) fn slice_reserved(&mut self, slice: SliceId, id: PageId, range: Range<u64>) {
        if let Some(page) = self
            .pages
            .get_mut(&id)
            .filter(|page| range.end <= page.block.bytes())
        {
            page.stale.update(range.clone(), |stale| *stale = true);
            page.refresh(range.clone(), &[], false);
            page.owners.update(range, |owner| *owner = Some(slice));
        }
    }

    /// A task is queued.
    pub(crate) fn queued(&mut self, bindings: &[BoundSlice]) {
        self.for_each(bindings, |page, bound| {
            page.queued.update(range_of(bound), |tasks| *tasks += 1);
        });
    }

    /// A task starts: undefined bytes that it changes are filled with [`RESERVED`] first, unless they belong to a
    /// successor of its slice.
    pub(crate) fn starts(&mut self, bindings: &[BoundSlice]) {
        self.for_each(bindings, |page, bound| {
            if page.owner(bound.offset) == Some(bound.slice) {
                let own = bindings.iter().filter(|other| other.page == bound.page);
                let own: Vec<Range<u64>> = own.map(range_of).collect();
                page.refresh(range_of(bound), &own, bound.access.writes());
            }
        });
    }

    /// A queued task has ended, or will never run.
    pub(crate) fn ended(&mut self, bindings: &[BoundSlice]) {
        self.for_each(bindings, |page, bound| {
            page.queued.update(range_of(bound), |tasks| *tasks -= 1);
        });
    }

    /// Calls `f` with each binding that has bytes, and its page.
    fn for_each(&mut self, bindings: &[BoundSlice], f: impl Fn(&mut Page, &BoundSlice)) {
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            if let Some(page) = bound.page.and_then(|id| self.pages.get_mut(&id)) {
                f(page, bound);
            }
        }
    }
}

impl Page {
    /// Returns the slice that was reserved last over this byte.
    fn owner(&self, at: u64) -> Option<SliceId> {
        *self.owners.iter(at..at + 1).next()?.1
    }

    /// Returns `true` if a queued task touches the range, other than one with the ranges `own`.
    fn is_queued(&self, range: &Range<u64>, own: &[Range<u64>]) -> bool {
        // A run lies within each of these ranges or beside it, since the counts of the queued task itself end there.
        let by_own = |at: u64| own.iter().filter(|own| own.contains(&at)).count();
        self.queued
            .iter(range.clone())
            .any(|(run, tasks)| *tasks as usize > by_own(run.start))
    }

    /// Fills the stale bytes of the range where that is safe. A task that writes comes after every task that touches
    /// them; otherwise no queued task may touch them, other than one with the ranges `own`.
    fn refresh(&mut self, range: Range<u64>, own: &[Range<u64>], writes: bool) {
        let stale: Vec<Range<u64>> = self
            .stale
            .iter(range)
            .filter(|(_, stale)| **stale)
            .map(|(part, _)| part)
            .collect();
        for part in stale {
            if writes || !self.is_queued(&part, own) {
                self.stale.update(part.clone(), |stale| *stale = false);
                self.fill(&part, RESERVED);
            }
        }
    }

    fn fill(&self, range: &Range<u64>, pattern: u8) {
        debug_assert!(
            range.end <= self.block.bytes(),
            "a pattern stays within its page"
        );
        if !self.fills {
            return;
        }
        // SAFETY: the range lies in the page; no queued task touches it, or every such task comes before this one.
        unsafe {
            let start = self.block.pointer().add(range.start as usize);
            start.write_bytes(pattern, (range.end - range.start) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use Access::{Read, ReadWrite, Write};
    use millstream_protocol::Access;
    use millstream_sync::slots::SlotId;

    use super::*;

    const OLD: SliceId = SliceId(SlotId {
        index: 1,
        generation: 1,
    });
    const NEW: SliceId = SliceId(SlotId {
        index: 2,
        generation: 1,
    });
    const BYTES: u64 = 8;

    struct Rig {
        memory: Memory,
        page: PageId,
    }

    impl Rig {
        /// A page with slice `OLD` on its first bytes.
        fn new() -> Self {
            let mut memory = Memory::new(1024, true);
            let page = memory.allocate(64).unwrap();
            memory.slice_reserved(OLD, page, 0..BYTES);
            Self { memory, page }
        }

        fn bound(&self, slice: SliceId, access: Access) -> BoundSlice {
            let page = Some(self.page);
            BoundSlice {
                page,
                offset: 0,
                len: BYTES,
                access,
                slice,
                slice_offset: 0,
            }
        }

        fn queue(&mut self, slice: SliceId, access: Access) -> BoundSlice {
            let bound = self.bound(slice, access);
            self.memory.queued(&[bound]);
            bound
        }

        /// Runs a task that writes this byte, if there is one, and returns the bytes that it found.
        fn run(&mut self, bound: BoundSlice, write: Option<u8>) -> Vec<u8> {
            self.memory.starts(&[bound]);
            let found = self.bytes();
            if let Some(byte) = write {
                self.memory.pages[&self.page].fill(&(0..BYTES), byte);
            }
            self.memory.ended(&[bound]);
            found
        }

        fn bytes(&self) -> Vec<u8> {
            let view = self.memory.resolve(&self.bound(OLD, Read)).unwrap().0;
            // SAFETY: the page is live, and nothing else touches it.
            unsafe { std::slice::from_raw_parts(view.pointer, BYTES as usize) }.to_vec()
        }
    }

    fn all(byte: u8) -> Vec<u8> {
        vec![byte; BYTES as usize]
    }

    #[test]
    fn slice_is_filled_when_reserved() {
        assert_eq!(Rig::new().bytes(), all(RESERVED));
    }

    /// I4: the pattern of a slice's successor does not reach queued tasks of the slice, whatever their access.
    #[test]
    fn reserved_pattern_waits_for_queued_tasks_of_the_old_slice_i4() {
        let mut rig = Rig::new();
        let tasks = [
            rig.queue(OLD, Write),
            rig.queue(OLD, ReadWrite),
            rig.queue(OLD, Read),
        ];
        rig.memory.slice_reserved(NEW, rig.page, 0..BYTES);
        let first = rig.queue(NEW, ReadWrite);
        let [write, update, read] = tasks;
        rig.run(write, Some(1));
        assert_eq!(rig.run(update, Some(2)), all(1));
        assert_eq!(rig.run(read, None), all(2));
        assert_eq!(
            rig.run(first, None),
            all(RESERVED),
            "no task has written it yet"
        );
    }

    /// A task costs the same however many are queued: the page keeps counts, and not the tasks.
    #[test]
    fn queued_tasks_are_counted_by_range_and_not_listed() {
        let mut rig = Rig::new();
        let tasks: Vec<_> = (0..10_000).map(|_| rig.queue(OLD, Read)).collect();
        let runs = |rig: &Rig| rig.memory.pages[&rig.page].queued.iter(0..64).count();
        assert_eq!(runs(&rig), 2);
        for task in tasks {
            rig.memory.starts(&[task]);
            rig.memory.ended(&[task]);
        }
        assert_eq!(runs(&rig), 1);
    }

    #[test]
    fn freed_page_stays_allocated_while_a_view_exists() {
        let mut rig = Rig::new();
        let (_, block) = rig.memory.resolve(&rig.bound(OLD, Read)).unwrap();
        rig.memory.free(rig.page);
        assert!(rig.memory.resolve(&rig.bound(OLD, Read)).is_err());
        assert_eq!(Arc::strong_count(&block.unwrap()), 1);
        assert_eq!(rig.memory.free_bytes, 1024);
    }
}

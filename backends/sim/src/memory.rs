//! The memory of the device: pages of host memory, filled with patterns, and the slices on them.
//!
//! The bytes of a fresh slice are undefined. They read as a pattern, [`RESERVED`], if no task was queued on their page when
//! the slice was reserved. Other bytes keep what they were: no task may touch them, and large pages cost nothing.
//!
//! A range may go to a new slice while tasks of the old one are still queued. So if tasks were queued on the page, the bytes
//! keep their old contents until the first task that is issued to change them starts: that task comes after every task that
//! touches them (I4), and writes the pattern first. A task before it that only reads them finds the old contents.
//!
//! A page that is freed too early stays allocated while a queued task points to it: a violation that the checker
//! reports must not be undefined behaviour of the simulator.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use millstream_host::{ALIGNMENT, view_of};
use millstream_protocol::{BoundSlice, NativeView, PageError, PageId, Refused, staging::Block};

use crate::ranges::RangeMap;

/// The pattern of undefined bytes in a live slice.
pub(crate) const RESERVED: u8 = 0xC7;

struct Page {
    block: Arc<Block>,
    /// The number of bindings of queued tasks.
    queued: u32,
    /// Bytes of live slices that have yet to be filled with [`RESERVED`].
    stale: RangeMap<bool>,
}

/// Bytes that a task fills with [`RESERVED`] when it starts.
pub(crate) struct Fill(*mut u8, usize);

/// The live pages and slices.
pub(crate) struct Memory {
    pages: BTreeMap<PageId, Page>,
    pages_made: u32,
    pub(crate) free_bytes: u64,
    limit_bytes: u64,
    /// Undefined bytes are filled with patterns. Otherwise no byte is touched.
    fills: bool,
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
            queued: 0,
            stale: RangeMap::default(),
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

    /// Bytes of a page belong to a new slice.
    pub(crate) fn slice_reserved(&mut self, id: PageId, range: Range<u64>) {
        let page = self.pages.get_mut(&id);
        let page = page.filter(|page| self.fills && range.end <= page.block.bytes());
        let Some(page) = page else { return };
        page.stale.update(range.clone(), |stale| *stale = true);
        if page.queued == 0 {
            // SAFETY: the page is live, and no task that touches it is queued.
            page.refresh(range).for_each(|fill| unsafe { fill.run() });
        }
    }

    /// A task is queued. Returns what it has to fill when it starts: the undefined bytes that it changes.
    pub(crate) fn queued(&mut self, bindings: &[BoundSlice]) -> Vec<Fill> {
        let mut fills = Vec::new();
        self.for_each(bindings, |page, bound| {
            page.queued += 1;
            if bound.access.writes() {
                fills.extend(page.refresh(bound.offset..bound.offset + bound.len));
            }
        });
        fills
    }

    /// A queued task has ended, or will never run.
    pub(crate) fn ended(&mut self, bindings: &[BoundSlice]) {
        self.for_each(bindings, |page, _| page.queued -= 1);
    }

    /// Calls `f` with each binding that has bytes, and its page.
    fn for_each(&mut self, bindings: &[BoundSlice], mut f: impl FnMut(&mut Page, &BoundSlice)) {
        for bound in bindings.iter().filter(|bound| bound.len > 0) {
            if let Some(page) = bound.page.and_then(|id| self.pages.get_mut(&id)) {
                f(page, bound);
            }
        }
    }
}

impl Page {
    /// Returns the stale bytes of a range, which the caller fills.
    fn refresh(&mut self, range: Range<u64>) -> impl Iterator<Item = Fill> + use<> {
        let stale = self.stale.iter(range.clone()).filter(|(_, stale)| **stale);
        let stale: Vec<Fill> = stale.map(|(part, _)| self.fill(&part)).collect();
        self.stale.update(range, |stale| *stale = false);
        stale.into_iter()
    }

    fn fill(&self, part: &Range<u64>) -> Fill {
        debug_assert!(
            part.end <= self.block.bytes(),
            "a pattern stays within its page"
        );
        let start = self.block.pointer().wrapping_add(part.start as usize);
        Fill(start, (part.end - part.start) as usize)
    }
}

impl Fill {
    /// Writes the pattern.
    ///
    /// # Safety
    /// The page is allocated, and nothing else touches the bytes now.
    pub(crate) unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.write_bytes(RESERVED, self.1) };
    }
}

#[cfg(test)]
mod tests {
    use Access::{Read, ReadWrite, Write};
    use millstream_protocol::{Access, SliceId};
    use millstream_sync::slots::SlotId;

    use super::*;

    const BYTES: u64 = 8;

    /// A page with a slice on its first bytes.
    struct Rig {
        memory: Memory,
        page: PageId,
    }

    impl Rig {
        fn new() -> Self {
            let mut memory = Memory::new(1024, true);
            let page = memory.allocate(64).unwrap();
            memory.slice_reserved(page, 0..BYTES);
            Self { memory, page }
        }

        fn bound(&self, access: Access) -> BoundSlice {
            BoundSlice {
                page: Some(self.page),
                offset: 0,
                len: BYTES,
                access,
                slice: SliceId(SlotId {
                    index: 1,
                    generation: 1,
                }),
                slice_offset: 0,
            }
        }

        /// Queues a task, and returns what it fills when it starts.
        fn queue(&mut self, access: Access) -> Vec<Fill> {
            self.memory.queued(&[self.bound(access)])
        }

        /// Runs a queued task that writes this byte, if there is one, and returns the bytes that it found.
        fn run(&mut self, fills: Vec<Fill>, write: Option<u8>) -> Vec<u8> {
            // SAFETY: the page is live, and nothing else touches it.
            fills.into_iter().for_each(|fill| unsafe { fill.run() });
            let found = self.bytes();
            if let Some(byte) = write {
                let view = self.memory.resolve(&self.bound(Read)).unwrap().0;
                // SAFETY: as above.
                unsafe { view.pointer.write_bytes(byte, BYTES as usize) };
            }
            self.memory.ended(&[self.bound(Read)]);
            found
        }

        fn bytes(&self) -> Vec<u8> {
            let view = self.memory.resolve(&self.bound(Read)).unwrap().0;
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
        let [write, update, read] = [Write, ReadWrite, Read].map(|access| rig.queue(access));
        rig.memory.slice_reserved(rig.page, 0..BYTES);
        let first = rig.queue(ReadWrite);
        let second = rig.queue(ReadWrite);
        rig.run(write, Some(1));
        assert_eq!(rig.run(update, Some(2)), all(1));
        assert_eq!(rig.run(read, None), all(2));
        assert_eq!(
            rig.run(first, Some(3)),
            all(RESERVED),
            "no task has written it yet"
        );
        assert_eq!(rig.run(second, None), all(3));
    }

    #[test]
    fn freed_page_stays_allocated_while_a_view_exists() {
        let mut rig = Rig::new();
        let (_, block) = rig.memory.resolve(&rig.bound(Read)).unwrap();
        rig.memory.free(rig.page);
        assert!(rig.memory.resolve(&rig.bound(Read)).is_err());
        assert_eq!(Arc::strong_count(&block.unwrap()), 1);
        assert_eq!(rig.memory.free_bytes, 1024);
    }
}

//! Shadow memory: the last accesses of each byte within a launch. It yields the ranges that a launch accessed, and
//! finds races between its threads.
//!
//! Two accesses of a byte by different threads, one of them a write, race unless a barrier of their block is between
//! them, or, if they are in one warp, a barrier of the warp. An atomic operation races only with plain writes, and a
//! write that does not change the value never races.

use std::ops::Range;

use crate::Kind;

/// The time of an access, by one thread or by several.
///
/// ```text
///  bits 63..32  the epoch: the number of earlier barriers and blocks, from 1; 0 if there was no access
///  bits 31..16  the number of earlier barriers of the warp
///  bit  15      an atomic operation
///  bits 14..12  whether the byte was ever read, written, updated (only in the stamp of the read)
///  bits 10..0   the actor: a thread of the block, or `MANY_OF_WARP + warp`, `MANY`, `MANY_BLOCKS`
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Stamp(u64);

const ACTOR: u64 = 0x7FF;
const EVER: u64 = 0x7000;
const ATOMIC: u64 = 1 << 15;
const MANY_OF_WARP: u64 = 1024;
const MANY: u64 = 2046;
const MANY_BLOCKS: u64 = 2047;

impl Stamp {
    pub(super) fn new(epoch: u32, syncs: u16, thread: usize) -> Self {
        Self(u64::from(epoch) << 32 | u64::from(syncs) << 16 | thread as u64)
    }

    pub(super) fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn syncs(self) -> u64 {
        self.0 >> 16 & 0xFFFF
    }

    fn actor(self) -> u64 {
        self.0 & ACTOR
    }

    fn is_atomic(self) -> bool {
        self.0 & ATOMIC != 0
    }

    fn with_actor(self, actor: u64) -> Self {
        Self(self.0 & !ACTOR | actor)
    }

    fn warp(self) -> Option<u64> {
        match self.actor() {
            thread @ 0..MANY_OF_WARP => Some(thread / 32),
            actor @ MANY_OF_WARP..1056 => Some(actor - MANY_OF_WARP),
            _ => None,
        }
    }

    /// Returns the thread, if it is a single one.
    pub(super) fn thread(self) -> Option<u32> {
        (self.actor() < MANY_OF_WARP).then(|| self.actor() as u32)
    }
}

/// The current access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) me: Stamp,
    /// The first epoch of this block. Earlier epochs belong to other blocks, which are not ordered with this one.
    pub(super) block: u32,
}

impl Current {
    /// Returns `true` if the earlier access happens before this one.
    #[inline(always)]
    fn is_after(self, earlier: Stamp) -> bool {
        if earlier.0 >> 32 == 0 {
            return true;
        }
        if earlier.actor() == MANY_BLOCKS || earlier.epoch() < self.block {
            return false;
        }
        let same_warp = earlier.warp().is_some() && earlier.warp() == self.me.warp();
        earlier.epoch() < self.me.epoch()
            || earlier.actor() == self.me.actor()
            || (same_warp && earlier.syncs() < self.me.syncs())
    }

    /// Merges the earlier access and this one to a stamp that a later access must be ordered after.
    #[inline(always)]
    fn merge(self, earlier: Stamp) -> Stamp {
        if self.is_after(earlier) {
            return self.me;
        }
        if earlier.actor() == MANY_BLOCKS || earlier.epoch() < self.block {
            return self.me.with_actor(MANY_BLOCKS);
        }
        match earlier.warp() == self.me.warp() {
            true => self
                .me
                .with_actor(MANY_OF_WARP + self.me.warp().unwrap_or(0)),
            false => self.me.with_actor(MANY),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Stamp,
    read: Stamp,
}

/// The number of bytes whose cells are allocated together.
const CHUNK: usize = 4096;

/// The accesses to a block of memory.
#[derive(Default)]
pub(super) struct Shadow {
    chunks: Vec<Option<Box<[Cell]>>>,
}

/// The earlier access of a race.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub(super) earlier: Stamp,
    /// The kind of the earlier access.
    pub(super) kind: Kind,
}

impl Shadow {
    pub(super) fn new(bytes: u64) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((bytes as usize).div_ceil(CHUNK), || None);
        Self { chunks }
    }

    /// Records an access. For a write, `changes` returns `true` for the bytes whose value it changes. Returns a
    /// conflict, if there is one.
    #[inline]
    pub(super) fn record(
        &mut self,
        at: usize,
        bytes: usize,
        kind: Kind,
        current: Current,
        changes: impl Fn(usize) -> bool,
    ) -> Option<Conflict> {
        let mut conflict = None;
        let mut report = |earlier, kind| conflict = conflict.or(Some(Conflict { earlier, kind }));
        // An aligned access lies within one chunk.
        let chunk = self.chunks.get_mut(at / CHUNK)?;
        let chunk = chunk.get_or_insert_with(|| vec![Cell::default(); CHUNK].into_boxed_slice());
        let cells = chunk.get_mut(at % CHUNK..)?.get_mut(..bytes)?;
        for (place, cell) in cells.iter_mut().enumerate() {
            let Cell { write, read } = *cell;
            let written = if write.is_atomic() {
                Kind::Atomic
            } else {
                Kind::Write
            };
            let ever = read.0 & EVER;
            match kind {
                Kind::Read => {
                    if written == Kind::Write && !current.is_after(write) {
                        report(write, written);
                    }
                    cell.read = Stamp(current.merge(read).0 & !EVER | ever | 1 << 12);
                }
                Kind::Write => {
                    if changes(place) {
                        if !current.is_after(write) {
                            report(write, written);
                        }
                        if !current.is_after(Stamp(read.0 & !EVER)) {
                            report(read, Kind::Read);
                        }
                    }
                    cell.write = current.me;
                    cell.read = Stamp(read.0 | 1 << 13);
                }
                Kind::Atomic => {
                    if written == Kind::Write && !current.is_after(write) {
                        report(write, written);
                    }
                    cell.write = Stamp(current.merge(write).0 | ATOMIC);
                    cell.read = Stamp(read.0 | 1 << 14);
                }
            }
        }
        conflict
    }

    /// Returns the ranges that were read, written and updated, in order and merged.
    pub(super) fn accesses(&self) -> [Vec<Range<u64>>; 3] {
        let mut ranges: [Vec<Range<u64>>; 3] = Default::default();
        for (number, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            for (place, cell) in chunk.iter().enumerate() {
                let at = (number * CHUNK + place) as u64;
                for (kind, ranges) in ranges.iter_mut().enumerate() {
                    if cell.read.0 >> (12 + kind) & 1 == 0 {
                        continue;
                    }
                    match ranges.last_mut() {
                        Some(last) if last.end == at => last.end += 1,
                        _ => ranges.push(at..at + 1),
                    }
                }
            }
        }
        ranges
    }
}

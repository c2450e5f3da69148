//! Who touched which bytes within a launch, byte by byte: for what the launch touched in all, and to find races
//! between its threads.
//!
//! Two accesses of a byte by different threads, of which one writes, race unless a barrier of their block is between
//! them, or one of their warp, if they are of one. Atomic operations race with plain writes alone, and a write that
//! changes nothing with nothing. Kernels that order memory by fences are not judged: what those order is not followed.

use std::ops::Range;

use crate::Kind;

/// A moment of a thread, or of several: when they touched a byte.
///
/// ```text
///  bits 63..32  the epoch: how many barriers and blocks were before, from 1 on; 0 is never
///  bits 31..16  the barriers of the warp before
///  bit  15      it was an atomic operation
///  bits 14..12  the byte was ever read, written, updated (of the reader's alone)
///  bits 10..0   who: a thread of the block, or `MANY_OF_WARP + warp`, `MANY`, `MANY_BLOCKS`
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Stamp(u64);

const WHO: u64 = 0x7FF;
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

    fn who(self) -> u64 {
        self.0 & WHO
    }

    fn is_atomic(self) -> bool {
        self.0 & ATOMIC != 0
    }

    fn by(self, who: u64) -> Self {
        Self(self.0 & !WHO | who)
    }

    fn warp(self) -> Option<u64> {
        match self.who() {
            thread @ 0..MANY_OF_WARP => Some(thread / 32),
            who @ MANY_OF_WARP..1056 => Some(who - MANY_OF_WARP),
            _ => None,
        }
    }

    /// The thread, if it was one alone.
    pub(super) fn thread(self) -> Option<u32> {
        (self.who() < MANY_OF_WARP).then(|| self.who() as u32)
    }
}

/// What is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) me: Stamp,
    /// The first epoch of this block; what was before is of others, who know nothing of it.
    pub(super) block: u32,
}

impl Now {
    /// Did that end before this began?
    #[inline(always)]
    fn knows(self, then: Stamp) -> bool {
        if then.0 >> 32 == 0 {
            return true;
        }
        if then.who() == MANY_BLOCKS || then.epoch() < self.block {
            return false;
        }
        let same_warp = then.warp().is_some() && then.warp() == self.me.warp();
        then.epoch() < self.me.epoch()
            || then.who() == self.me.who()
            || (same_warp && then.syncs() < self.me.syncs())
    }

    /// Those of then and of now, for whoever must know both.
    #[inline(always)]
    fn joined(self, then: Stamp) -> Stamp {
        if self.knows(then) {
            return self.me;
        }
        if then.who() == MANY_BLOCKS || then.epoch() < self.block {
            return self.me.by(MANY_BLOCKS);
        }
        match then.warp() == self.me.warp() {
            true => self.me.by(MANY_OF_WARP + self.me.warp().unwrap_or(0)),
            false => self.me.by(MANY),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Cell {
    write: Stamp,
    read: Stamp,
}

/// Bytes whose cells come together.
const CHUNK: usize = 4096;

/// What was touched of a block of memory.
#[derive(Default)]
pub(super) struct Shadow {
    chunks: Vec<Option<Box<[Cell]>>>,
}

/// An access that another one races with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub(super) then: Stamp,
    /// What it did.
    pub(super) kind: Kind,
}

impl Shadow {
    pub(super) fn new(bytes: u64) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((bytes as usize).div_ceil(CHUNK), || None);
        Self { chunks }
    }

    /// Notes an access of some bytes, of which a write changes those at which `changes` is true.
    #[inline]
    pub(super) fn note(
        &mut self,
        at: usize,
        bytes: usize,
        kind: Kind,
        now: Now,
        changes: impl Fn(usize) -> bool,
    ) -> Option<Conflict> {
        let mut conflict = None;
        let mut found = |then, kind| conflict = conflict.or(Some(Conflict { then, kind }));
        // What is aligned is within one chunk.
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
                    if written == Kind::Write && !now.knows(write) {
                        found(write, written);
                    }
                    cell.read = Stamp(now.joined(read).0 & !EVER | ever | 1 << 12);
                }
                Kind::Write => {
                    if changes(place) {
                        if !now.knows(write) {
                            found(write, written);
                        }
                        if !now.knows(Stamp(read.0 & !EVER)) {
                            found(read, Kind::Read);
                        }
                    }
                    cell.write = now.me;
                    cell.read = Stamp(read.0 | 1 << 13);
                }
                Kind::Atomic => {
                    if written == Kind::Write && !now.knows(write) {
                        found(write, written);
                    }
                    cell.write = Stamp(now.joined(write).0 | ATOMIC);
                    cell.read = Stamp(read.0 | 1 << 14);
                }
            }
        }
        conflict
    }

    /// The bytes that were read, written and updated, in order, none touching another.
    pub(super) fn touched(&self) -> [Vec<Range<u64>>; 3] {
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

//! Small slices: blocks of one class, cut from a chunk, which is a range of a shared page.
//!
//! A clean block is a set bit of its chunk; a block that is in use or busy is a cleared bit. So a chunk returns to its
//! page only when every block is clean (I4), and a live block costs 2 to 32 bits here. Each class keeps one chunk
//! without a block in use, so that a slice that comes and goes does not allocate a chunk each time.

use millstream_protocol::{Cursor, MAX_QUEUES, PageId, Point, QueueId};
use slab::Slab;

use super::class::{BLOCKS_MAX, CLASSES, Class, Layout, chunk_units};
use super::reservation::Origin;
use super::shared::Range;
use crate::pending::Pending;
use crate::points::Points;

/// The number of words of a chunk's bits.
const WORDS: usize = BLOCKS_MAX as usize / 64;

struct Chunk {
    /// A set bit is a clean block.
    clean: [u64; WORDS],
    page: PageId,
    /// The range of the shared page.
    range: u32,
    /// The first unit in the page.
    offset: u32,
    /// Its index in the open list of its class, if it has a clean block.
    position: u32,
    class: Class,
    /// The number of clean blocks.
    left: u16,
    /// The number of all blocks.
    blocks: u16,
}

/// The chunks of one class.
#[derive(Default)]
struct OfClass {
    /// Chunks with a clean block; the last one is used first.
    open: Vec<u32>,
    /// A chunk whose blocks are all clean.
    idle: Option<u32>,
}

/// All chunks.
pub(super) struct Blocks {
    chunks: Slab<Chunk>,
    classes: Vec<OfClass>,
}

impl Blocks {
    pub(super) fn new(layout: &Layout) -> Self {
        let classes = (0..=layout.small_max.0)
            .map(|_| OfClass::default())
            .collect();
        Self {
            chunks: Slab::new(),
            classes,
        }
    }

    /// Takes a block. Returns its chunk and its number.
    #[inline]
    pub(super) fn take(&mut self, class: Class) -> Option<(u32, u8)> {
        let of_class = &mut self.classes[class.index()];
        let key = *of_class.open.last()?;
        let chunk = &mut self.chunks[key as usize];
        let word = chunk.clean.iter().position(|word| *word != 0)?;
        let bit = chunk.clean[word].trailing_zeros();
        chunk.clean[word] &= chunk.clean[word] - 1;
        if chunk.left == chunk.blocks {
            of_class.idle = None;
        }
        chunk.left -= 1;
        if chunk.left == 0 {
            of_class.open.pop();
        }
        Some((key, (word as u32 * 64 + bit) as u8))
    }

    /// Frees a block, which is clean. Returns the range of its chunk if that is to be freed, too.
    #[inline]
    pub(super) fn free(&mut self, key: u32, block: u8) -> Option<u32> {
        let chunk = &mut self.chunks[key as usize];
        let (word, bit) = (usize::from(block) / 64, 1 << (block % 64));
        debug_assert!(chunk.clean[word] & bit == 0, "a block is freed once");
        chunk.clean[word] |= bit;
        chunk.left += 1;
        let of_class = &mut self.classes[chunk.class.index()];
        if chunk.left == 1 {
            chunk.position = of_class.open.len() as u32;
            of_class.open.push(key);
        }
        if chunk.left < chunk.blocks {
            return None;
        }
        if of_class.idle.is_none() {
            of_class.idle = Some(key);
            return None;
        }
        Some(self.remove(key))
    }

    /// Cuts a range of [`chunk_units`] into blocks.
    pub(super) fn add(&mut self, class: Class, key: u32, range: &Range) {
        let blocks = chunk_units(class) / class.units() as u32;
        let mut clean = [0; WORDS];
        for (word, bits) in clean.iter_mut().enumerate() {
            *bits = match blocks.saturating_sub(word as u32 * 64) {
                0 => 0,
                left if left < 64 => (1 << left) - 1,
                _ => u64::MAX,
            };
        }
        let of_class = &mut self.classes[class.index()];
        let chunk = self.chunks.insert(Chunk {
            clean,
            page: range.page,
            range: key,
            offset: range.offset,
            position: of_class.open.len() as u32,
            class,
            left: blocks as u16,
            blocks: blocks as u16,
        }) as u32;
        of_class.open.push(chunk);
        of_class.idle = of_class.idle.or(Some(chunk));
    }

    /// Returns the page, the first unit and the number of units of a block.
    #[inline]
    pub(super) fn place(&self, chunk: u32, block: u8, class: Class) -> (PageId, u64, u64) {
        let chunk = &self.chunks[chunk as usize];
        let units = class.units();
        (
            chunk.page,
            u64::from(chunk.offset) + u64::from(block) * units,
            units,
        )
    }

    /// Returns the range of a chunk.
    pub(super) fn range(&self, chunk: u32) -> u32 {
        self.chunks[chunk as usize].range
    }

    /// Removes an idle chunk of the next class that has one. Returns its range.
    pub(super) fn remove_idle(&mut self) -> Option<u32> {
        let idle = self
            .classes
            .iter_mut()
            .find_map(|of_class| of_class.idle.take())?;
        Some(self.remove(idle))
    }

    fn remove(&mut self, key: u32) -> u32 {
        let chunk = self.chunks.remove(key as usize);
        let open = &mut self.classes[chunk.class.index()].open;
        open.swap_remove(chunk.position as usize);
        if let Some(moved) = open.get(chunk.position as usize) {
            self.chunks[*moved as usize].position = chunk.position;
        }
        chunk.range
    }
}

// All busy ranges, by class and queue, and the points that have passed (I4).
//
// A range enters with its points. It leaves in one of two ways: to a queue for which all of its points are covered,
// with the open ones as its residue, or clean, when all of them have passed. Points that have passed are never stored,
// so each range here waits for a point that will come.

/// The number of words of a set of classes.
const CLASS_WORDS: usize = CLASSES / 64;

/// The busy ranges, by class and queue.
#[derive(Debug)]
pub(super) struct BusyRanges {
    /// The busy ranges of each class.
    classes: Vec<Pending<Origin>>,
    /// A bit for each class that may have busy ranges.
    active: [u64; CLASS_WORDS],
    /// For each queue, the cursor up to which everything has passed.
    passed: [Cursor; MAX_QUEUES],
}

impl BusyRanges {
    pub(super) fn new() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| Pending::default()).collect(),
            active: [0; CLASS_WORDS],
            passed: [0; MAX_QUEUES],
        }
    }

    /// Adds a range that waits for its points. Returns `false`, and adds nothing, if all of them have passed.
    #[inline]
    pub(super) fn push(&mut self, origin: Origin, mut points: Points) -> bool {
        points.retain_open(|point| has_passed(&self.passed, point));
        let Some(home) = points.pop() else {
            return false;
        };
        let class = origin.class().index();
        self.classes[class].push(origin, home, points);
        self.active[class / 64] |= 1 << (class % 64);
        true
    }

    /// Takes a range of `class` that `queue` may use without a wait. Returns it with its open points.
    #[inline]
    pub(super) fn take(
        &mut self,
        class: Class,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
        fits: impl Fn(&Origin) -> bool,
    ) -> Option<(Origin, Points)> {
        let passed = |point| has_passed(&self.passed, point);
        let covered = |point| passed(point) || covered(point);
        let (origin, mut points) = self.classes[class.index()].take(queue, covered, fits)?;
        points.retain_open(passed);
        Some((origin, points))
    }

    /// Records that everything on `queue` up to `cursor` has passed. Calls `clean` for each range that has no open
    /// points any more.
    pub(super) fn pass(&mut self, queue: QueueId, cursor: Cursor, mut clean: impl FnMut(Origin)) {
        if cursor <= self.passed[queue.index()] {
            return;
        }
        self.passed[queue.index()] = cursor;
        for index in classes_of(self.active) {
            let class = &mut self.classes[index];
            let passed = |point| has_passed(&self.passed, point);
            while let Some(origin) = class.pop_passed(queue, passed) {
                clean(origin);
            }
            if class.is_empty() {
                self.active[index / 64] &= !(1 << (index % 64));
            }
        }
    }

    /// Returns the least cursor on `queue` that a range waits for.
    pub(super) fn oldest(&self, queue: QueueId) -> Option<Cursor> {
        let oldest = |index: usize| self.classes[index].oldest(queue);
        classes_of(self.active).filter_map(oldest).min()
    }
}

/// Iterates over the indices of the classes of a set.
fn classes_of(set: [u64; CLASS_WORDS]) -> impl Iterator<Item = usize> {
    set.into_iter().enumerate().flat_map(|(word, bits)| {
        let rest = |bits: &u64| Some(bits & bits.wrapping_sub(1));
        let left = std::iter::successors(Some(bits), rest).take_while(|bits| *bits != 0);
        left.map(move |bits| word * 64 + bits.trailing_zeros() as usize)
    })
}

#[inline]
fn has_passed(passed: &[Cursor; MAX_QUEUES], point: Point) -> bool {
    point.cursor <= passed[point.queue.index()]
}

//! All busy ranges, by class and queue, and the points that have passed (I4).
//!
//! A range enters with its points. It leaves in one of two ways: to a queue for which all of its points are covered,
//! with the open ones as its residue, or clean, when all of them have passed. Points that have passed are never stored,
//! so each range here waits for a point that will come.

use millstream_protocol::{Cursor, MAX_QUEUES, Point, QueueId};

use super::class::{CLASSES, Class};
use super::reservation::Origin;
use crate::pending::Pending;
use crate::points::Points;

/// The number of words of a set of classes.
const WORDS: usize = CLASSES / 64;

/// The busy ranges, by class and queue.
#[derive(Debug)]
pub(super) struct BusyRanges {
    /// The busy ranges of each class.
    classes: Vec<Pending<Origin>>,
    /// A bit for each class that may have busy ranges.
    active: [u64; WORDS],
    /// For each queue, the cursor up to which everything has passed.
    passed: [Cursor; MAX_QUEUES],
}

impl BusyRanges {
    pub(super) fn new() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| Pending::default()).collect(),
            active: [0; WORDS],
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
fn classes_of(set: [u64; WORDS]) -> impl Iterator<Item = usize> {
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

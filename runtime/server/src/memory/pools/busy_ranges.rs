//! All busy ranges, by class and queue, and the points that have passed (I4).
//!
//! A range enters with its points. It leaves in one of two ways: to a queue for which all of its points are covered,
//! with the open ones as its residue, or clean, when all of them have passed. Points that have passed are never stored,
//! so each range here waits for a point that will come.

use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, QueueId};
use slab::Slab;

use super::busy_heaps::{BusyHeaps, Entry};
use super::class::{CLASSES, Class};
use super::reservation::Origin;
use crate::points::Points;

/// The number of words of a set of classes.
const WORDS: usize = CLASSES / 64;

/// The busy ranges, by class and queue.
#[derive(Debug)]
pub(super) struct BusyRanges {
    /// The busy ranges of each class.
    classes: Vec<BusyHeaps>,
    /// For each queue, the classes with ranges that may wait for it.
    active: [[u64; WORDS]; MAX_QUEUES],
    /// The other points of ranges: all but their homes.
    other_points: Slab<Points>,
    /// For each queue, the cursor up to which everything has passed.
    passed: [Cursor; MAX_QUEUES],
    /// The number of busy ranges.
    count: usize,
}

/// A range that was taken for a queue.
pub(super) struct Taken {
    pub(super) origin: Origin,
    home: Point,
    others: u32,
}

impl BusyRanges {
    pub(super) fn new() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| BusyHeaps::default()).collect(),
            active: [[0; WORDS]; MAX_QUEUES],
            other_points: Slab::new(),
            passed: [0; MAX_QUEUES],
            count: 0,
        }
    }

    /// Adds a range that waits for its points. Returns `false`, and adds nothing, if all of them have passed.
    #[inline]
    pub(super) fn push(&mut self, origin: Origin, points: &Points) -> bool {
        match points.only() {
            Some(home) if has_passed(&self.passed, home) => false,
            Some(home) => {
                self.count += 1;
                self.insert_at(origin, home, Entry::NO_OTHERS);
                true
            }
            None => self.push_many(origin, points.clone()),
        }
    }

    #[inline(never)]
    fn push_many(&mut self, origin: Origin, mut points: Points) -> bool {
        points.retain_open(|point| has_passed(&self.passed, point));
        let Some(home) = points.pop() else {
            return false;
        };
        self.count += 1;
        let others = self.keep_others(points);
        self.insert_at(origin, home, others);
        true
    }

    /// Takes a range of `class` that `queue` may use without a wait. The caller must take its points by
    /// [`residue`](Self::residue).
    #[inline]
    pub(super) fn take(
        &mut self,
        class: Class,
        queue: QueueId,
        covered: &dyn Fn(Point) -> bool,
        fits: impl Fn(Origin) -> bool,
    ) -> Option<Taken> {
        let busy = &mut self.classes[class.index()];
        if busy.is_empty() {
            return None;
        }
        let (other_points, passed) = (&self.other_points, &self.passed);
        let rest_covered = |entry: &Entry| {
            let covered =
                |others: &Points| others.all(|point| has_passed(passed, point) || covered(point));
            entry.others == Entry::NO_OTHERS
                || other_points.get(entry.others as usize).is_some_and(covered)
        };
        let (home, entry) = busy.take(queue, |home, entry| {
            fits(entry.origin) && covered(home) && rest_covered(entry)
        })?;
        self.count -= 1;
        Some(Taken {
            origin: entry.origin,
            home,
            others: entry.others,
        })
    }

    /// Returns the open points of a range that was taken.
    #[inline]
    pub(super) fn residue(&mut self, taken: &Taken) -> Points {
        if taken.others == Entry::NO_OTHERS {
            return Points::from(taken.home);
        }
        let mut points = self.take_others(taken.others);
        points.insert(taken.home);
        points
    }

    /// Records that everything on `queue` up to `cursor` has passed. Calls `clean` for each range that has no open
    /// points any more. Returns `true` if there was one.
    pub(super) fn pass(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        mut clean: impl FnMut(Origin),
    ) -> bool {
        let passed = &mut self.passed[queue.index()];
        if cursor <= *passed {
            return false;
        }
        *passed = cursor;
        let before = self.count;
        for word in 0..WORDS {
            let mut classes = self.active[queue.index()][word];
            while classes != 0 {
                let class = Class((word * 64) as u16 + classes.trailing_zeros() as u16);
                classes &= classes - 1;
                while let Some(entry) = self.classes[class.index()].pop_passed(queue, cursor) {
                    let mut others = self.take_others(entry.others);
                    match others.pop() {
                        // A point of another queue: all points of this queue up to `cursor` are removed.
                        Some(home) => {
                            let others = self.keep_others(others);
                            self.insert_at(entry.origin, home, others);
                        }
                        None => {
                            self.count -= 1;
                            clean(entry.origin);
                        }
                    }
                }
                if self.classes[class.index()].oldest(queue).is_none() {
                    self.active[queue.index()][word] &= !(1 << (class.0 % 64));
                }
            }
        }
        self.count < before
    }

    /// Returns the least cursor on `queue` that a range waits for.
    pub(super) fn oldest(&self, queue: QueueId) -> Option<Cursor> {
        if self.count == 0 {
            return None;
        }
        let mut oldest = None;
        for (word, classes) in self.active[queue.index()].iter().enumerate() {
            let mut classes = *classes;
            while classes != 0 {
                let class = word * 64 + classes.trailing_zeros() as usize;
                classes &= classes - 1;
                let of_class = self.classes[class].oldest(queue);
                oldest = match (oldest, of_class) {
                    (Some(a), Some(b)) => Some(Cursor::min(a, b)),
                    (a, b) => a.or(b),
                };
            }
        }
        oldest
    }

    /// Returns `true` if no range is busy.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Inserts a range, which is counted already, where it waits for `home`.
    #[inline]
    fn insert_at(&mut self, origin: Origin, home: Point, others: u32) {
        let class = origin.class();
        let entry = Entry {
            cursor: home.cursor,
            origin,
            others,
        };
        if self.classes[class.index()].push(home.queue, entry) {
            self.active[home.queue.index()][class.index() / 64] |= 1 << (class.index() % 64);
        }
    }

    /// Stores the other points of an entry, and returns their key.
    fn keep_others(&mut self, others: Points) -> u32 {
        if others.is_empty() {
            Entry::NO_OTHERS
        } else {
            self.other_points.insert(others) as u32
        }
    }

    /// Removes the other points of an entry, and returns those that have not passed.
    fn take_others(&mut self, others: u32) -> Points {
        if others == Entry::NO_OTHERS {
            return Points::new();
        }
        let mut points = self
            .other_points
            .try_remove(others as usize)
            .unwrap_or_default();
        points.retain_open(|point| has_passed(&self.passed, point));
        points
    }
}

#[inline]
fn has_passed(passed: &[Cursor; MAX_QUEUES], point: Point) -> bool {
    point.cursor <= passed[point.queue.index()]
}

//! All freed ranges that some point still uses, and which points have passed (I4).
//!
//! A range enters with its points and leaves either to a queue for which all of them are covered,
//! with those that are still open as its residue, or clean, when all of them have passed. Points
//! that are known to have passed are never kept: what is here waits for something that will come.

use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, QueueId};
use slab::Slab;

use super::busy::{Busy, Entry};
use super::class::{CLASSES, Class};
use super::reservation::Origin;
use crate::points::Points;

/// Words of a set of classes.
const WORDS: usize = CLASSES / 64;

/// Ranges that wait, by class and queue.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The waiting ranges of each class.
    classes: Vec<Busy>,
    /// Per queue, the classes of which something may wait for it.
    active: [[u64; WORDS]; MAX_QUEUES],
    /// The points of a range besides its home.
    rests: Slab<Points>,
    /// Everything up to this cursor has passed.
    passed: [Cursor; MAX_QUEUES],
    /// How many ranges wait.
    count: usize,
}

/// A range that left for a queue.
pub(super) struct Taken {
    pub(super) origin: Origin,
    home: Point,
    rest: u32,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| Busy::default()).collect(),
            active: [[0; WORDS]; MAX_QUEUES],
            rests: Slab::new(),
            passed: [0; MAX_QUEUES],
            count: 0,
        }
    }

    /// Keeps a range until its points have passed. Returns false, and keeps nothing, if all have.
    #[inline]
    pub(super) fn push(&mut self, origin: Origin, points: &Points) -> bool {
        match points.only() {
            Some(home) if has_passed(&self.passed, home) => false,
            Some(home) => {
                self.count += 1;
                self.settle_at(origin, home, Entry::SOLE);
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
        let rest = self.keep_rest(points);
        self.settle_at(origin, home, rest);
        true
    }

    /// Takes a range of `class` that `queue` may use without a wait. Its points are the
    /// [residue](Self::residue), which must be asked for.
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
        let (rests, passed) = (&self.rests, &self.passed);
        let rest_covered = |entry: &Entry| {
            let covered =
                |rest: &Points| rest.all(|point| has_passed(passed, point) || covered(point));
            entry.rest == Entry::SOLE || rests.get(entry.rest as usize).is_some_and(covered)
        };
        let (home, entry) = busy.take(queue, |home, entry| {
            fits(entry.origin) && covered(home) && rest_covered(entry)
        })?;
        self.count -= 1;
        Some(Taken {
            origin: entry.origin,
            home,
            rest: entry.rest,
        })
    }

    /// The open points of a range that was taken.
    #[inline]
    pub(super) fn residue(&mut self, taken: &Taken) -> Points {
        if taken.rest == Entry::SOLE {
            return Points::from(taken.home);
        }
        let mut points = self.take_rest(taken.rest);
        points.insert(taken.home);
        points
    }

    /// Everything on `queue` up to `cursor` has passed: `clean` is called with every range that
    /// waits for nothing more. Returns whether there was one.
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
                    let mut rest = self.take_rest(entry.rest);
                    match rest.pop() {
                        // Another queue's: all points of this one up to `cursor` are gone.
                        Some(home) => {
                            let rest = self.keep_rest(rest);
                            self.settle_at(entry.origin, home, rest);
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

    /// The oldest cursor on `queue` that some range waits for.
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

    /// Does nothing wait?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts a range, counted already, where it waits for `home`.
    #[inline]
    fn settle_at(&mut self, origin: Origin, home: Point, rest: u32) {
        let class = origin.class();
        let entry = Entry {
            cursor: home.cursor,
            origin,
            rest,
        };
        if self.classes[class.index()].push(home.queue, entry) {
            self.active[home.queue.index()][class.index() / 64] |= 1 << (class.index() % 64);
        }
    }

    /// Keeps the points of an entry besides its home.
    fn keep_rest(&mut self, rest: Points) -> u32 {
        if rest.is_empty() {
            Entry::SOLE
        } else {
            self.rests.insert(rest) as u32
        }
    }

    /// The points of an entry besides its home that have not passed.
    fn take_rest(&mut self, rest: u32) -> Points {
        if rest == Entry::SOLE {
            return Points::new();
        }
        let mut points = self.rests.try_remove(rest as usize).unwrap_or_default();
        points.retain_open(|point| has_passed(&self.passed, point));
        points
    }
}

#[inline]
fn has_passed(passed: &[Cursor; MAX_QUEUES], point: Point) -> bool {
    point.cursor <= passed[point.queue.index()]
}

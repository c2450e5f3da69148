//! The last accesses to each byte: the last write, and the last read of each queue since then, as in FastTrack.
//!
//! A queue is ordered, so its last read stands for its earlier ones.

use std::collections::BTreeMap;
use std::ops::Range;

use millstream_protocol::{Access, Cursor, MAX_QUEUES, PageId, Point};

use super::violation::Touch;
use crate::ranges::RangeMap;

/// The last access of one kind to a byte: the task's point, and what a violation shows of it.
type LastAccess = (Point, Touch);

#[derive(Clone, Default, PartialEq, Debug)]
struct Cell {
    write: Option<LastAccess>,
    readers: Vec<LastAccess>,
}

impl Cell {
    /// Returns the accesses that conflict with an access of this kind.
    fn conflicting(&self, access: Access) -> impl Iterator<Item = &LastAccess> {
        let readers = self.readers.iter().filter(move |_| access.writes());
        self.write.iter().chain(readers)
    }

    fn all(&self) -> impl Iterator<Item = &LastAccess> {
        self.write.iter().chain(&self.readers)
    }
}

/// The accesses of all live pages.
#[derive(Default)]
pub(super) struct Accesses {
    pages: BTreeMap<PageId, RangeMap<Cell>>,
}

impl Accesses {
    /// Returns the first bytes of the range that have a conflicting access for which `is_before` is false.
    pub(super) fn conflict(
        &self,
        page: PageId,
        range: Range<u64>,
        access: Access,
        is_before: impl Fn(Point) -> bool,
    ) -> Option<(Range<u64>, Touch)> {
        self.pages.get(&page)?.iter(range).find_map(|(part, cell)| {
            let mut others = cell.conflicting(access);
            let (_, touch) = others.find(|(other, _)| !is_before(*other))?;
            Some((part, touch.clone()))
        })
    }

    /// Records an access of a task.
    pub(super) fn record(&mut self, page: PageId, range: Range<u64>, point: Point, touch: &Touch) {
        let access = (point, touch.clone());
        self.pages.entry(page).or_default().update(range, |cell| {
            if touch.access.writes() {
                cell.write = Some(access.clone());
                cell.readers.clear();
            } else {
                let queue = point.queue;
                cell.readers.retain(|(reader, _)| reader.queue != queue);
                cell.readers.push(access.clone());
                cell.readers.sort_by_key(|(reader, _)| *reader);
            }
        });
    }

    /// Returns an access to the page that is not known to have passed.
    pub(super) fn user(&self, page: PageId, has_passed: impl Fn(Point) -> bool) -> Option<Touch> {
        let mut cells = self.pages.get(&page)?.iter(0..u64::MAX);
        cells.find_map(|(_, cell)| {
            let user = cell.all().find(|(user, _)| !has_passed(*user));
            user.map(|(_, touch)| touch.clone())
        })
    }

    /// Removes accesses that have passed: nothing can conflict with them any more.
    pub(super) fn forget(
        &mut self,
        page: PageId,
        range: Range<u64>,
        has_passed: impl Fn(Point) -> bool,
    ) {
        if let Some(page) = self.pages.get_mut(&page) {
            page.update(range, |cell| {
                cell.write.take_if(|(write, _)| has_passed(*write));
                cell.readers.retain(|(reader, _)| !has_passed(*reader));
            });
        }
    }

    pub(super) fn page_freed(&mut self, page: PageId) {
        self.pages.remove(&page);
    }
}

// Vector clocks over queues. The checker has its own, because it must not trust the ones it checks.

/// For every queue, the cursor up to which its tasks happen before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Clock([Cursor; MAX_QUEUES]);

impl Clock {
    pub(super) fn covers(&self, point: Point) -> bool {
        self.0
            .get(point.queue.index())
            .is_some_and(|known| *known >= point.cursor)
    }

    /// Adds everything that `other` covers.
    pub(super) fn join(&mut self, other: &Clock) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Adds a point and all earlier points of its queue.
    pub(super) fn advance(&mut self, point: Point) {
        if let Some(mine) = self.0.get_mut(point.queue.index()) {
            *mine = (*mine).max(point.cursor);
        }
    }
}

/// What happens before the next task of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Known {
    /// Through any order: queues, waits, and publication.
    pub(super) all: Clock,
    /// Through waits alone, which is all that a runtime's own clock can know (I3).
    pub(super) waited: Clock,
}

impl Known {
    pub(super) fn join(&mut self, other: &Known) {
        self.all.join(&other.all);
        self.waited.join(&other.waited);
    }

    pub(super) fn advance(&mut self, point: Point) {
        self.all.advance(point);
        self.waited.advance(point);
    }
}

/// The clocks that the tasks of a queue were issued with, with one entry where the clock changed.
#[derive(Default, Debug)]
pub(super) struct History(BTreeMap<Cursor, Known>);

impl History {
    /// The task at `cursor` was issued with this clock.
    pub(super) fn push(&mut self, cursor: Cursor, clock: Known) {
        if self.at(cursor) != clock {
            self.0.insert(cursor, clock);
        }
    }

    /// Returns what happens before the task at `cursor`, on other queues.
    pub(super) fn at(&self, cursor: Cursor) -> Known {
        let last = self.0.range(..=cursor).next_back();
        last.map(|(_, known)| *known).unwrap_or_default()
    }

    /// Removes entries before `cursor`, which will not be read any more.
    pub(super) fn prune(&mut self, cursor: Cursor) {
        if let Some((&from, _)) = self.0.range(..=cursor).next_back() {
            self.0 = self.0.split_off(&from);
        }
    }
}

//! The last accesses to each byte: the last write, and the last read of each queue since then, as in FastTrack.
//!
//! A queue is ordered, so its last read stands for its earlier ones.

use std::collections::BTreeMap;
use std::ops::Range;

use millstream_protocol::{Access, PageId, Point};

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

//! The checker: told of every call, it finds what breaks the backend's rules. Pure: it has no thread, no clock
//! and no memory of the device, and is tested by itself.
//!
//! | module | what it is |
//! | --- | --- |
//! | `order` | which task comes after which: queues, waits, and what the host could see |
//! | `clock` | vector clocks |
//! | `accesses` | who touched each byte last |
//! | `slices` | which slices live, and where |
//! | `violation` | what can be found |
//!
//! A task is checked when it is issued, against everything issued before it. What is not ordered by then
//! never will be, so a race is found in whatever order the two happen to run.

mod accesses;
mod clock;
mod order;
mod slices;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use accesses::Accesses;
use millstream_protocol::access::Access;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::id::{Point, QueueId, SliceId};
use millstream_protocol::memory::PageId;
use order::Order;
pub use order::Waits;
use slices::Slices;
pub use violation::{Bytes, Place, Touch, Violation};

/// Elements of a binding that a kernel declares as written and did not store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unwritten {
    /// The binding, by its place among the task's.
    pub(crate) binding: usize,
    /// The first such elements, as bytes of the binding.
    pub(crate) bytes: Range<u64>,
}

/// The state of all checks.
pub(crate) struct Checker {
    order: Order,
    slices: Slices,
    accesses: Accesses,
    /// What guards of the host use now.
    guards: BTreeMap<u64, Vec<BoundSlice>>,
    guards_made: u64,
    host: Arc<str>,
    violations: Vec<Violation>,
}

impl Checker {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            order: Order::new(queues),
            slices: Slices::default(),
            accesses: Accesses::default(),
            guards: BTreeMap::new(),
            guards_made: 0,
            host: "guard".into(),
            violations: Vec::new(),
        }
    }

    /// What was found since the last call.
    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    pub(crate) fn waits(&self) -> Waits {
        self.order.waits
    }

    pub(crate) fn page_allocated(&mut self, page: PageId, bytes: u64) {
        self.slices.page_allocated(page, bytes);
    }

    pub(crate) fn page_freed_lost(&mut self, page: PageId) {
        self.violations.push(Violation::PageFreedLost { page });
    }

    pub(crate) fn page_freed(&mut self, page: PageId) {
        let order = &self.order;
        if let Some(user) = self.accesses.user(page, |point| order.is_seen(point)) {
            self.violations.push(Violation::PageInUse { page, user });
        }
        if let Some(user) = self.guard_on(page, 0..u64::MAX, Access::Write) {
            self.violations.push(Violation::PageInUse { page, user });
        }
        self.slices.page_freed(page, &mut self.violations);
        self.accesses.page_freed(page);
    }

    pub(crate) fn slice_reserved(&mut self, slice: SliceId, page: PageId, range: Range<u64>) {
        let order = &self.order;
        let seen = |point| order.is_seen(point);
        self.accesses.forget(page, range.clone(), seen);
        let bytes = Bytes { page, range };
        self.slices.reserved(slice, bytes, &mut self.violations);
    }

    pub(crate) fn slice_released(&mut self, slice: SliceId) {
        self.slices.released(slice, &mut self.violations);
    }

    /// A task is issued.
    pub(crate) fn task(&mut self, point: Point, name: &Arc<str>, bindings: &[BoundSlice]) {
        self.violations.extend(self.order.issue(point));
        for bound in bindings {
            let Some((bytes, touch)) = self.touch(bound, name, Place::Queue(point)) else {
                continue;
            };
            let (page, range) = (bytes.page, bytes.range.clone());
            let before = |earlier| self.order.is_before(earlier, point.queue);
            let mut others = Vec::new();
            others.extend(
                self.accesses
                    .conflict(page, range.clone(), touch.access, before),
            );
            let guard = self.guard_on(page, range.clone(), touch.access);
            others.extend(guard.map(|guard| (range.clone(), guard)));
            self.races(others, &touch, page);
            self.accesses.record(page, range, point, &touch);
        }
    }

    /// A task has run, and these bytes it declared as written and did not store.
    pub(crate) fn ran(
        &mut self,
        point: Point,
        name: &Arc<str>,
        bindings: &[BoundSlice],
        unwritten: &[Unwritten],
    ) {
        for missed in unwritten {
            let bound = &bindings[missed.binding];
            let Some(page) = bound.page else { continue };
            let range = bound.offset + missed.bytes.start..bound.offset + missed.bytes.end;
            self.violations.push(Violation::Unwritten {
                task: Touch {
                    task: name.clone(),
                    place: Place::Queue(point),
                    access: bound.access,
                    slice: bound.slice,
                },
                bytes: Bytes { page, range },
            });
        }
    }

    /// A task was refused because its memory cannot be found: perhaps its slices say why.
    pub(crate) fn refused(&mut self, point: Point, name: &Arc<str>, bindings: &[BoundSlice]) {
        for bound in bindings {
            self.touch(bound, name, Place::Queue(point));
        }
    }

    /// A guard of the host begins: everything that conflicts was seen to have passed.
    pub(crate) fn host_begins(&mut self, bindings: &[BoundSlice]) -> u64 {
        self.guards_made += 1;
        let guard = self.guards_made;
        let host = self.host.clone();
        for bound in bindings {
            let Some((bytes, touch)) = self.touch(bound, &host, Place::Host(guard)) else {
                continue;
            };
            let (page, range) = (bytes.page, bytes.range);
            let seen = |earlier| self.order.is_seen(earlier);
            let other = self.accesses.conflict(page, range, touch.access, seen);
            self.races(other.into_iter().collect(), &touch, page);
        }
        self.guards.insert(guard, bindings.to_vec());
        guard
    }

    pub(crate) fn host_ends(&mut self, guard: u64) {
        self.guards.remove(&guard);
    }

    pub(crate) fn flushed(&mut self, point: Point) {
        self.violations.extend(self.order.flush(point));
    }

    /// The host can see from here on that `point` has passed.
    pub(crate) fn published(&mut self, point: Point) {
        self.order.publish(point);
    }

    pub(crate) fn wait(&mut self, queue: QueueId, point: Point) {
        self.violations.extend(self.order.wait(queue, point));
    }

    /// The device goes away. `held` says whether somebody has a handle of a slice.
    pub(crate) fn closed(&mut self, held: impl Fn(SliceId) -> bool) {
        self.slices.leaks(held, &mut self.violations);
    }

    /// The bytes that a binding touches, if it touches any, checked against its slice.
    fn touch(
        &mut self,
        bound: &BoundSlice,
        name: &Arc<str>,
        place: Place,
    ) -> Option<(Bytes, Touch)> {
        let page = bound.page.filter(|_| bound.len > 0)?;
        let range = bound.offset..bound.offset.saturating_add(bound.len);
        let bytes = Bytes { page, range };
        let touch = Touch {
            task: name.clone(),
            place,
            access: bound.access,
            slice: bound.slice,
        };
        let checked = self.slices.check_use(bound, bytes.clone(), &touch);
        self.violations.extend(checked);
        Some((bytes, touch))
    }

    /// A guard that uses bytes of this range in a way that conflicts.
    fn guard_on(&self, page: PageId, range: Range<u64>, access: Access) -> Option<Touch> {
        let conflicts = |bound: &&BoundSlice| {
            bound.page == Some(page)
                && bound.offset < range.end
                && range.start < bound.offset.saturating_add(bound.len)
                && (bound.access.writes() || access.writes())
        };
        self.guards.iter().find_map(|(guard, bindings)| {
            let bound = bindings.iter().find(conflicts)?;
            Some(Touch {
                task: self.host.clone(),
                place: Place::Host(*guard),
                access: bound.access,
                slice: bound.slice,
            })
        })
    }

    fn races(&mut self, others: Vec<(Range<u64>, Touch)>, later: &Touch, page: PageId) {
        for (range, earlier) in others {
            self.violations.push(Violation::Race {
                earlier,
                later: later.clone(),
                bytes: Bytes { page, range },
            });
        }
    }
}

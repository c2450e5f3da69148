//! The checker: it observes every backend call and reports calls that break the backend contract.
//! It is pure: no thread, no clock and no device memory, so it is tested alone.
//!
//! | module | contents |
//! | --- | --- |
//! | `order` | happens-before between tasks: queues, waits, and what the host has seen |
//! | `accesses` | the last accesses to each byte, by vector clocks |
//! | `slices` | live slices and their places |
//! | `violation` | everything that the checker can report |
//!
//! # State
//! For each byte of a page, [`Accesses`] keeps the last write and, per queue, the last read since that write. A queue
//! is ordered, so its last read stands for its earlier ones (as in FastTrack).
//!
//! For each queue, [`Order`] keeps a vector clock: for every queue, the cursor up to which tasks happen before the
//! next task of this queue. It also keeps the clock of each task in flight, as the task had it when it was issued.
//! Three events add to a queue's clock, and nothing else does:
//!
//! 1. Issuing a task: tasks of one queue run in order.
//! 2. A wait for a point: it adds the point, and the clock that **the task at that point** was issued with. Waits
//!    that the other queue issued after that task do not count.
//! 3. Publication: a point that the host can see as passed happens before every task that is issued later, on any
//!    queue.
//!
//! # Checks
//! - **Race (I2, I4).** A task is checked when it is issued, against every task issued before it. Two accesses race
//!   if they share bytes, at least one writes, and the later task's clock does not cover the earlier point. If they
//!   are unordered at that moment they stay unordered, so a race is reported whichever of the two happens to run
//!   first. A guard of the host takes part as well: conflicting tasks must be seen to have passed when it begins, and
//!   a task that conflicts with a live guard is a race.
//! - **Use of memory (I4).** Each binding must lie within its slice, which must be live; live slices do not overlap;
//!   a page is freed only after every use of it was seen to have passed.
//! - **Needless wait (I3).** A wait is *implied* if the clock from waits alone already covers its point, or if
//!   another wait of the same task covers it. It is *passed* if the point was already published. Both are counted in
//!   [`Waits`], not reported.
//! - **Leak (I10).** When the device closes, a live slice without a handle, or a page without slices, is reported.
//!
//! # Example
//! Task `a` writes bytes that task `b` reads. `{..}` is the clock that a task is issued with.
//!
//! ```text
//!  issue order       queue 0         queue 1             checker
//!  1  a: write       0@1 {}                              last write = 0@1
//!  2  flush 0@1                                          0@1 may be waited for
//!  3  wait 0@1                       waits for 0@1       clock of queue 1 = {0@1}
//!  4  b: read                        1@1 {0@1}           {0@1} covers the last write: no race
//!  5  wait 0@1                       waits for 0@1       covered already: implied += 1
//!
//!  without 3:        0@1 {}          1@1 {}              {} does not cover 0@1: Race { earlier: a, later: b }
//! ```
//!
//! # Tests
//! `tests` (beside this file) breaks each rule once. `tests/device/calls.rs` drops the wait above under many seeds.
//! The mutants in `tests/mutants/server` plant such mistakes in the server; the swarm on this device must report
//! them.

mod accesses;
mod order;
mod slices;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use accesses::Accesses;
use millstream_protocol::{Access, BoundSlice, PageId, Point, QueueId, SliceId};
use order::Order;
pub use order::Waits;
use slices::Slices;
pub use violation::{AccessSite, Bytes, Touch, Violation};

use crate::threads::KernelMistake;

/// A range of a binding that a kernel declares as written and did not store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unwritten {
    /// The index of the binding in the task's bindings.
    pub(crate) binding: usize,
    /// The first elements that were not stored, as bytes of the binding.
    pub(crate) bytes: Range<u64>,
}

/// What a launch did wrong while it ran.
#[derive(Default)]
pub(crate) struct Observed {
    /// The bytes that it declared as written and did not store.
    pub(crate) unwritten: Vec<Unwritten>,
    /// The mistake of its kernel, which ended it.
    pub(crate) mistake: Option<Box<KernelMistake>>,
}

/// The state of all checks.
pub(crate) struct Checker {
    order: Order,
    slices: Slices,
    accesses: Accesses,
    /// The bindings of the live host guards, by the guard's number.
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

    /// Returns the violations found since the last call.
    pub(crate) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    pub(crate) fn waits(&self) -> Waits {
        self.order.waits
    }

    pub(crate) fn page_allocated(&mut self, page: PageId, bytes: u64) {
        self.slices.page_allocated(page, bytes);
    }

    /// A page is freed, of a device that may be lost.
    pub(crate) fn page_freed(&mut self, page: PageId, lost: bool) {
        if lost {
            self.violations.push(Violation::PageFreedLost { page });
        }
        let task = self.accesses.user(page, |point| self.order.is_seen(point));
        let guard = self.guard_on(page, 0..u64::MAX, Access::Write);
        let users = task.into_iter().chain(guard);
        let in_use = users.map(|user| Violation::PageInUse { page, user });
        self.violations.extend(in_use);
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

    /// Checks a task when it is issued.
    pub(crate) fn task(&mut self, point: Point, name: &Arc<str>, bindings: &[BoundSlice]) {
        self.violations.extend(self.order.issue(point));
        for bound in bindings {
            let Some((bytes, touch)) = self.touch(bound, name, AccessSite::Queue(point)) else {
                continue;
            };
            let (page, range) = (bytes.page, bytes.range.clone());
            let before = |earlier| self.order.is_before(earlier, point.queue);
            let accesses = &self.accesses;
            let task = accesses.conflict(page, range.clone(), touch.access, before);
            let guard = self.guard_on(page, range.clone(), touch.access);
            let guard = guard.map(|guard| (range.clone(), guard));
            self.races(task.into_iter().chain(guard), &touch, page);
            self.accesses.record(page, range, point, &touch);
        }
    }

    /// Reports what a task did wrong while it ran.
    pub(crate) fn ran(
        &mut self,
        point: Point,
        name: &Arc<str>,
        bindings: &[BoundSlice],
        observed: &Observed,
    ) {
        if let Some(mistake) = &observed.mistake {
            self.violations.push(Violation::Kernel {
                kernel: name.clone(),
                mistake: KernelMistake::clone(mistake),
            });
        }
        for missed in &observed.unwritten {
            let bound = &bindings[missed.binding];
            let Some(page) = bound.page else { continue };
            let range = bound.offset + missed.bytes.start..bound.offset + missed.bytes.end;
            self.violations.push(Violation::Unwritten {
                task: Touch::new(name, AccessSite::Queue(point), bound),
                bytes: Bytes { page, range },
            });
        }
    }

    /// Checks the slices of a task that was refused because its memory does not resolve; they may explain the
    /// refusal.
    pub(crate) fn refused(&mut self, point: Point, name: &Arc<str>, bindings: &[BoundSlice]) {
        for bound in bindings {
            self.touch(bound, name, AccessSite::Queue(point));
        }
    }

    /// Checks a new guard of the host: everything that conflicts must have been seen to have passed. Returns its
    /// number.
    pub(crate) fn host_begins(&mut self, bindings: &[BoundSlice]) -> u64 {
        self.guards_made += 1;
        let guard = self.guards_made;
        let host = self.host.clone();
        for bound in bindings {
            let Some((bytes, touch)) = self.touch(bound, &host, AccessSite::Host(guard)) else {
                continue;
            };
            let (page, range) = (bytes.page, bytes.range);
            let seen = |earlier| self.order.is_seen(earlier);
            let other = self.accesses.conflict(page, range, touch.access, seen);
            self.races(other.into_iter(), &touch, page);
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

    /// From now on the host can see that `point` has passed.
    pub(crate) fn published(&mut self, point: Point) {
        self.order.publish(point);
    }

    pub(crate) fn wait(&mut self, queue: QueueId, point: Point) {
        self.violations.extend(self.order.wait(queue, point));
    }

    /// The device closes. `held` returns whether a slice has a handle.
    pub(crate) fn closed(&mut self, held: impl Fn(SliceId) -> bool) {
        self.slices.leaks(held, &mut self.violations);
    }

    /// Checks a binding against its slice, and returns the bytes it touches, if it touches any.
    fn touch(
        &mut self,
        bound: &BoundSlice,
        name: &Arc<str>,
        place: AccessSite,
    ) -> Option<(Bytes, Touch)> {
        let page = bound.page.filter(|_| bound.len > 0)?;
        let range = bound.offset..bound.offset.saturating_add(bound.len);
        let bytes = Bytes { page, range };
        let touch = Touch::new(name, place, bound);
        let checked = self.slices.check_use(bound, bytes.clone(), &touch);
        self.violations.extend(checked);
        Some((bytes, touch))
    }

    /// Returns a guard with a conflicting use of bytes in this range.
    fn guard_on(&self, page: PageId, range: Range<u64>, access: Access) -> Option<Touch> {
        let conflicts = |bound: &&BoundSlice| {
            bound.page == Some(page)
                && bound.offset < range.end
                && range.start < bound.offset.saturating_add(bound.len)
                && (bound.access.writes() || access.writes())
        };
        self.guards.iter().find_map(|(guard, bindings)| {
            let bound = bindings.iter().find(conflicts)?;
            Some(Touch::new(&self.host, AccessSite::Host(*guard), bound))
        })
    }

    fn races(
        &mut self,
        others: impl Iterator<Item = (Range<u64>, Touch)>,
        later: &Touch,
        page: PageId,
    ) {
        let race = |(range, earlier)| Violation::Race {
            earlier,
            later: later.clone(),
            bytes: Bytes { page, range },
        };
        self.violations.extend(others.map(race));
    }
}

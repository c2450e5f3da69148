//! Hazards: who uses which bytes of which slice, and what a new use must therefore come after.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`clock`] | the clock of one queue: which points what is issued there comes after already (I3) |
//! | [`poisoned_ranges`] | the failed ranges of one slice (I7) |
//! | `slice` | a slice as the device thread knows it: log, failed ranges, and what is behind it |
//!
//! [`Hazards`] owns the slices and the clocks. [`Hazards::enter`] is the one way in: for a task that a stream holds, for one that is
//! issued at once, for a replay, which is one task here, and for a host function. Memory that is used again enters by
//! [`Hazards::give`], with the points that still use it, so that reuse is one more hazard (I4 follows from I2).
//!
//! Nothing here knows a stream's or a queue's state: a stream is a number, and whether a point has passed is asked of the caller.

pub(crate) mod clock;
pub(crate) mod poisoned_ranges;
mod slice;

#[cfg(test)]
mod tests;

use std::ops::Range;

use clock::{Clock, QueueClock};
use millstream_protocol::access::Access;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::binding::Binding;
use millstream_protocol::failure::FailureRef;
use millstream_protocol::hazard::log::{AccessLog, Use};
use millstream_protocol::id::{ClientId, Cursor, Point, QueueId, SliceId};
use slab::Slab;
use slice::Slice;
pub(crate) use slice::{Backing, Unbound};

use crate::points::Points;

/// The slices of a device, and the clocks of its queues.
pub(crate) struct Hazards {
    slices: Slab<Slice>,
    clocks: Vec<QueueClock>,
    /// Orders that a clock implied, so that no wait was needed.
    implied: u64,
}

/// A task that uses bytes.
#[derive(Clone, Copy)]
pub(crate) struct Accessor {
    /// As the logs have it.
    used: Use,
    /// Where it runs: on no queue, if it is a host function.
    queue: Option<QueueId>,
}

impl Accessor {
    /// A task that has its place on a queue.
    #[inline(always)]
    pub(crate) fn issued(point: Point) -> Self {
        Self {
            used: Use::Issued(point),
            queue: Some(point.queue),
        }
    }

    /// The task `sequence` of `stream`, which holds it: to run on `queue`, or as a host function.
    pub(crate) fn held(stream: u32, sequence: u64, queue: Option<QueueId>) -> Self {
        Self {
            used: Use::Held { stream, sequence },
            queue,
        }
    }
}

/// What a slice leaves when it goes.
pub(crate) struct Freed {
    pub(crate) id: SliceId,
    pub(crate) client: ClientId,
    /// What was behind it.
    pub(crate) backing: Backing,
    /// The points that still use it.
    pub(crate) busy: Points,
    /// When its last handle went, as [`Hazards::drop_slice`] was given it, or 0.
    pub(crate) dropped_ns: u64,
}

impl Hazards {
    /// No slices, on this many queues.
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            slices: Slab::new(),
            clocks: (0..queues).map(|_| QueueClock::default()).collect(),
            implied: 0,
        }
    }

    /// Enters a use of the bytes of a binding whose slice has this key. `before` is given each use that it must come after and that
    /// is not known to come before it anyway.
    ///
    /// What is bound comes back, if the slice has memory and no failed ranges: nearly always.
    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        key: u32,
        binding: &Binding,
        accessor: &Accessor,
        passed: impl Fn(Point) -> bool,
        before: impl FnMut(Use),
    ) -> Option<BoundSlice> {
        let slice = self.slices.get_mut(key as usize)?;
        let (start, access) = (binding.offset, binding.access);
        let end = start.saturating_add(binding.len);
        let is_alone = match accessor.used {
            Use::Issued(point) => slice.log.enter_own(start, end, access, point),
            Use::Held { .. } => false,
        };
        if !is_alone {
            let range = start..end;
            self.implied += enter_shared(
                &mut slice.log,
                (range, access),
                accessor,
                &self.clocks,
                passed,
                before,
            );
        }
        slice.bind_clean(binding, end)
    }

    /// Calls `before` for the held tasks of other streams that a task of `stream` with this binding must come after.
    pub(crate) fn held_before(
        &self,
        key: u32,
        binding: &Binding,
        stream: u32,
        mut before: impl FnMut(u32, u64),
    ) {
        let range = binding.offset..binding.offset + binding.len;
        let log = &self.slices[key as usize].log;
        log.conflicts(range, binding.access, |used| match used {
            Use::Held {
                stream: other,
                sequence,
            } if other != stream => before(other, sequence),
            _ => {}
        });
    }

    /// The held task (`stream`, `sequence`), which has a binding of this slice, is at `point` now.
    #[inline]
    pub(crate) fn issued(&mut self, key: u32, (stream, sequence): (u32, u64), point: Point) {
        if let Some(slice) = self.slices.get_mut(key as usize) {
            slice.log.issue(stream, sequence, point);
        }
    }

    /// Is `point` known to come before what is issued to `queue` from now on?
    #[inline]
    pub(crate) fn implies(&self, queue: QueueId, point: Point) -> bool {
        self.clocks[queue.index()].covers(point)
    }

    /// Does `point` come after this other point, as far as its queue's clock tells?
    pub(crate) fn comes_after(&self, point: Point, other: Point) -> bool {
        self.clocks[point.queue.index()]
            .at(point.cursor)
            .covers(other)
    }

    /// One more order is implied, so that no wait is needed.
    #[inline]
    pub(crate) fn count_implied(&mut self) {
        self.implied += 1;
    }

    /// Orders that a clock implied so far.
    pub(crate) fn implied(&self) -> u64 {
        self.implied
    }

    /// The clock that a queue had when this point was issued.
    pub(crate) fn clock_at(&self, point: Point) -> Clock {
        self.clocks[point.queue.index()].at(point.cursor)
    }

    /// The task that is to be at `place` waits for a point with this clock.
    pub(crate) fn waits(&mut self, place: Point, point: Point, clock_at_point: Clock) {
        self.clocks[place.queue.index()].wait(place.cursor, point, clock_at_point);
    }

    /// A queue has come as far as `completed`.
    pub(crate) fn completed(&mut self, queue: QueueId, completed: Cursor) {
        self.clocks[queue.index()].prune(completed);
    }

    /// A slice becomes known. Nothing is behind it yet.
    pub(crate) fn insert(&mut self, id: SliceId, client: ClientId, bytes: u64) -> u32 {
        self.slices.insert(Slice::new(id, client, bytes)) as u32
    }

    /// Something is behind a slice from now on. Memory that is given to a fresh one may still be used by its `residue`, which its
    /// first tasks come after; one that is in use has a log already.
    pub(crate) fn give(&mut self, key: u32, backing: Backing, residue: Option<&Points>) {
        let slice = &mut self.slices[key as usize];
        if let Some(residue) = residue {
            slice.log = AccessLog::with_residue(slice.bytes(), residue.iter());
        }
        slice.backing = backing;
    }

    /// A slice gets no memory.
    pub(crate) fn fail(&mut self, key: u32, failure: FailureRef) {
        let slice = &mut self.slices[key as usize];
        slice.backing = Backing::Failed(slice.bytes(), failure);
    }

    /// What is behind a slice.
    pub(crate) fn backing(&self, key: u32) -> &Backing {
        &self.slices[key as usize].backing
    }

    /// A slice's id, its client, and the bytes that were asked for.
    pub(crate) fn describe(&self, key: u32) -> (SliceId, ClientId, u64) {
        let slice = &self.slices[key as usize];
        (slice.id, slice.client, slice.bytes())
    }

    /// A stream holds one more task on this slice.
    pub(crate) fn hold(&mut self, key: u32) {
        self.slices[key as usize].held_tasks += 1;
    }

    /// Streams hold one task less on this slice. Was that the last one, of a slice without handles?
    #[inline]
    pub(crate) fn release(&mut self, key: u32) -> bool {
        let Some(slice) = self.slices.get_mut(key as usize) else {
            return false;
        };
        slice.held_tasks -= 1;
        slice.dropped && slice.held_tasks == 0
    }

    /// The last handle of a slice is gone. Does no stream hold a task on it? Else it stays, and remembers the time of `now_ns`.
    pub(crate) fn drop_slice(&mut self, key: u32, now_ns: impl FnOnce() -> u64) -> bool {
        let slice = &mut self.slices[key as usize];
        slice.dropped = true;
        if slice.held_tasks > 0 {
            slice.dropped_ns = now_ns();
        }
        slice.held_tasks == 0
    }

    /// Has a slice lost its last handle?
    pub(crate) fn is_dropped(&self, key: u32) -> bool {
        self.slices[key as usize].dropped
    }

    /// A slice that no stream holds a task on goes.
    pub(crate) fn remove(&mut self, key: u32, passed: impl Fn(Point) -> bool) -> Freed {
        let slice = self.slices.remove(key as usize);
        Freed {
            id: slice.id,
            client: slice.client,
            busy: busy(&slice.log, passed),
            backing: slice.backing,
            dropped_ns: slice.dropped_ns,
        }
    }

    /// A binding as the backend sees it, or what keeps its bytes from being data.
    #[inline]
    pub(crate) fn bind(&self, binding: &Binding) -> Result<BoundSlice, Unbound> {
        match self.slices.get(binding.key as usize) {
            Some(slice) => slice.bind(binding),
            None => {
                debug_assert!(
                    binding.key == Binding::UNRESOLVED,
                    "a task names a slice that is gone (I4)"
                );
                Err(Unbound::Gone)
            }
        }
    }

    /// These bytes of a slice hold no data because of `failure`.
    pub(crate) fn poison(&mut self, key: u32, range: Range<u64>, failure: FailureRef) {
        if let Some(slice) = self.slices.get_mut(key as usize) {
            slice.poisoned_ranges.mark(range, failure);
        }
    }

    /// These bytes of a slice were defined anew.
    #[inline]
    pub(crate) fn heal(&mut self, key: u32, range: &Range<u64>) {
        if let Some(slice) = self.slices.get_mut(key as usize)
            && !slice.poisoned_ranges.is_clean()
        {
            slice.poisoned_ranges.clear(range);
        }
    }

    /// Has a slice no failed ranges?
    pub(crate) fn is_clean(&self, key: u32) -> bool {
        self.slices[key as usize].poisoned_ranges.is_clean()
    }

    /// Why these bytes of a slice cannot be touched in this way: what failed there, or that the slice got no memory.
    pub(crate) fn failure(
        &self,
        key: u32,
        range: &Range<u64>,
        access: Access,
    ) -> Option<FailureRef> {
        let slice = &self.slices[key as usize];
        match &slice.backing {
            Backing::Failed(_, failure) => Some(failure.clone()),
            _ if !access.reads() => None,
            _ => slice.poisoned_ranges.find(range).cloned(),
        }
    }

    /// The ids of all slices.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SliceId> {
        self.slices.iter().map(|(_, slice)| slice.id)
    }

    /// How many slices there are, those included whose last handle is gone.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    /// How many slices have handles.
    pub(crate) fn live(&self) -> usize {
        let live = self.slices.iter().filter(|(_, slice)| !slice.dropped);
        live.count()
    }

    /// How many slices with handles hold bytes that are no data, by what is known here, or by what is known of them as `settled`.
    pub(crate) fn poisoned(&self, settled: impl Fn(SliceId) -> bool) -> usize {
        let live = self.slices.iter().filter(|(_, slice)| !slice.dropped);
        let poisoned =
            live.filter(|(_, slice)| slice.has_failed().unwrap_or_else(|| settled(slice.id)));
        poisoned.count()
    }
}

/// The points that still use bytes that no stream holds a task on.
fn busy(log: &AccessLog, passed: impl Fn(Point) -> bool) -> Points {
    let mut busy = Points::default();
    log.for_each(|_, used| match used {
        Use::Issued(point) if !passed(point) => busy.insert(point),
        Use::Issued(_) => {}
        Use::Held { .. } => debug_assert!(
            false,
            "a slice is freed while a stream holds a task on it (I4)"
        ),
    });
    busy
}

/// Enters a use of bytes that others than its own queue may use, and tells how many of those it comes after anyway.
#[inline(never)]
fn enter_shared(
    log: &mut AccessLog,
    (range, access): (Range<u64>, Access),
    accessor: &Accessor,
    clocks: &[QueueClock],
    passed: impl Fn(Point) -> bool,
    mut before: impl FnMut(Use),
) -> u64 {
    let mut implied = 0;
    log.conflicts(range.clone(), access, |used| {
        match (used, accessor.queue) {
            // A host function is on no queue: only what has completed comes before it.
            (Use::Issued(point), None) => {
                if !passed(point) {
                    before(used);
                }
            }
            (Use::Issued(point), Some(queue)) if point.queue == queue => {}
            (Use::Issued(point), Some(queue)) => {
                if passed(point) || clocks[queue.index()].covers(point) {
                    implied += u64::from(point.cursor > 0);
                } else {
                    before(used);
                }
            }
            (Use::Held { stream, .. }, _) => {
                let is_own =
                    matches!(accessor.used, Use::Held { stream: own, .. } if own == stream);
                if !is_own {
                    before(used);
                }
            }
        }
    });
    log.admit(range, access, accessor.used);
    implied
}

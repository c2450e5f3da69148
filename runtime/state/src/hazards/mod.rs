//! Hazards: which task must run before which, because they touch a byte in common and one of them writes it.
//!
//! [`Hazards`] owns the slices and the vector clocks of the queues. It knows no stream and no queue: a stream is a
//! number, and the caller says whether a point has passed.
//!
//! | module | what it is |
//! | --- | --- |
//! | `clock` | the vector clock of one queue: which points come before its next task anyway (I3) |
//! | `slice` | a slice as the device thread sees it: access log, poisoned ranges (I7), memory |
//!
//! # Protocol
//!
//! Each slice has an [`AccessLog`]: for each byte range the last writers, and the readers since. A use of bytes has two
//! states, and one transition between them:
//!
//! ```text
//!   enter(held)                       issued(point)
//! ──────────────► Use::Held ──────────────────────────► Use::Issued ──► passed: the completed cursor reaches it
//!                 (stream, sequence)                    (queue, cursor)
//! ──────────────────────────────────────────────────────────▲
//!   enter(issued): a task that passes through
//! ```
//!
//! 1. [`Hazards::enter`] is the only way to make an entry: for a held task, a task that is issued at once, a replay
//!    (one task here) and a host function. It first reports the conflicting uses that the new one must come after, then
//!    enters the new use. The server calls it in mailbox order, so "after" always leads to an earlier message (I2).
//! 2. A conflicting use that is *held* by another stream becomes a link between two held tasks, which the scheduler
//!    keeps (`scheduler/dependencies.rs`). A stream keeps its own order, so a task has no links to its own stream.
//! 3. A conflicting use that is *issued* needs nothing if its queue is the queue of the new task, if it has passed, or
//!    if the `QueueClock` of the new task's queue covers it. Otherwise it becomes a point that the new task comes
//!    after. A host function runs on no queue, so for it only a point that has passed needs nothing.
//! 4. When the server issues a held task it calls [`Hazards::issued`], which replaces the held entries by the point.
//!    The links of other held tasks become points at the same time. When it issues a wait it calls
//!    [`Hazards::add_wait`], which joins the clock that the point had *at its own moment* into the clock of the waiting
//!    queue.
//! 5. Memory that is used again enters by [`Hazards::give`] with the points that still use it (the *residue*). They are
//!    the first entries of the new slice's log, so reuse is one more hazard, and I4 follows from I2.
//!
//! # Example
//!
//! Stream A is assigned to queue q0, stream B to q1. Both hold their tasks; x is a slice.
//!
//! ```text
//!  mailbox         stream A (q0)                   stream B (q1)                        log of x: writer / readers
//!  1  A: write x   enter: no conflict              -                                    Held(A, 1) / -
//!  2  B: read x    held_before reports (A, 1):     -
//!                  A is flushed, issued(q0, 1)                                          (q0, 1) / -
//!                  -                               enter: after (q0, 1)                 (q0, 1) / Held(B, 1)
//!                  -                               issue: queue_wait(q1, (q0, 1)), and
//!                                                  add_wait: q1 covers (q0, 1)          (q0, 1) / (q1, 1)
//!  3  B: read x    -                               enter: q1 covers (q0, 1), so there
//!                                                  is no second wait (I3)               (q0, 1) / (q1, 1), Held(B, 2)
//!  4  A: write x   -                               held_before reports (B, 2):
//!                                                  B is flushed, issued(q1, 2)          (q0, 1) / (q1, 2)
//!                  enter: after (q1, 2); its own   -                                    Held(A, 2) / -
//!                  queue's (q0, 1) needs nothing
//! ```
//!
//! If A cannot be flushed at step 2, because its first task waits for memory or a host function, then `enter` reports
//! `Held(A, 1)`, and B's task parks behind A's.
//!
//! # What checks it
//!
//! `hazards/tests.rs` has a property test that compares `enter` with happens-before by queues, waits and completions,
//! and fails on a missing order (I2) as well as on a superfluous wait (I3). The random programs of `server/tests` check
//! the calls of the backend with vector clocks of their own. The mutants `server/conflict_ignored`,
//! `server/write_ignores_readers`, `server/range_short`, `server/residue_forgotten`, `server/reuse_ignores_readers`,
//! `invariants/i3_clock_forgets_the_rest` and `invariants/i3_clock_forgets_the_wait` break this module.

mod clock;
mod slice;

#[cfg(test)]
mod tests;

use std::ops::Range;

use clock::QueueClock;
use millstream_protocol::{
    Access, Binding, BoundSlice, ClientId, Cursor, FailureRef, Point, QueueId, SliceId,
    hazard::log::{AccessLog, Use},
};
use slab::Slab;
use slice::Slice;
pub use slice::{Backing, Removed, Unbound};

use crate::points::Points;

/// The slices of a device, and the clocks of its queues.
pub struct Hazards {
    slices: Slab<Slice>,
    clocks: Vec<QueueClock>,
    /// The number of orders that a clock implied, so that no wait was issued.
    pub implied: u64,
}

/// A task that uses bytes, as its entries in the access logs name it.
#[derive(Clone, Copy)]
pub struct Accessor {
    /// The entry in the access logs.
    used: Use,
    /// The queue that it runs on; `None` for a host function.
    queue: Option<QueueId>,
}

impl Accessor {
    /// A task that has a point on its queue.
    #[inline(always)]
    pub fn issued(point: Point) -> Self {
        Self {
            used: Use::Issued(point),
            queue: Some(point.queue),
        }
    }

    /// Task `sequence` of `stream`, which the stream holds. It will run on `queue`, or on no queue if it is a host
    /// function.
    pub fn held(stream: u32, sequence: u64, queue: Option<QueueId>) -> Self {
        Self {
            used: Use::Held { stream, sequence },
            queue,
        }
    }
}

impl Hazards {
    /// Creates hazards without slices, for this number of queues.
    pub fn new(queues: usize) -> Self {
        Self {
            slices: Slab::new(),
            clocks: (0..queues).map(|_| QueueClock::default()).collect(),
            implied: 0,
        }
    }

    /// Enters the use of a binding's bytes in the log of the slice with this key. Calls `before` for each earlier use
    /// that the task must come after and that is not known to come before it anyway.
    ///
    /// Returns the bound range if the slice has memory and no poisoned ranges, which is the common case.
    #[inline(always)]
    pub fn enter(
        &mut self,
        key: u32,
        binding: &Binding,
        accessor: Accessor,
        passed: impl Fn(Point) -> bool,
        before: impl FnMut(Use),
    ) -> Option<BoundSlice> {
        let slice = self.slices.get_mut(key as usize)?;
        let (start, access) = (binding.offset, binding.access);
        // Clients check this. Without a bound range the task is refused, and uses nothing.
        let end = start.checked_add(binding.len)?;
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

    /// Calls `before` for each task that another stream holds and that a task of `stream` with this binding must come
    /// after.
    pub fn held_before(
        &self,
        key: u32,
        binding: &Binding,
        stream: u32,
        mut before: impl FnMut(u32, u64),
    ) {
        let range = binding.offset..binding.offset.saturating_add(binding.len);
        let log = &self.slices[key as usize].log;
        log.conflicts(range, binding.access, |used| match used {
            Use::Held {
                stream: other,
                sequence,
            } if other != stream => before(other, sequence),
            _ => {}
        });
    }

    /// Replaces the entries of the held task (`stream`, `sequence`) in the log of this slice by `point`: the task is
    /// issued.
    #[inline]
    pub fn issued(&mut self, key: u32, (stream, sequence): (u32, u64), point: Point) {
        if let Some(slice) = self.slices.get_mut(key as usize) {
            slice.log.issue(stream, sequence, point);
        }
    }

    /// Returns `true` if `point` is known to come before everything that is issued to `queue` from now on.
    #[inline]
    pub fn implies(&self, queue: QueueId, point: Point) -> bool {
        self.clocks[queue.index()].covers(point)
    }

    /// Returns `true` if `point` comes after `other`, by the clock that its queue had at `point`.
    pub fn comes_after(&self, point: Point, other: Point) -> bool {
        self.clocks[point.queue.index()]
            .at(point.cursor)
            .covers(other)
    }

    /// Records that the task at `place` waits for `point`, and so for all that came before `point` on its queue.
    pub fn add_wait(&mut self, place: Point, point: Point) {
        let clock_at_point = self.clocks[point.queue.index()].at(point.cursor);
        self.clocks[place.queue.index()].wait(place.cursor, point, clock_at_point);
    }

    /// Prunes the clock of a queue that has completed up to `completed`.
    pub fn completed(&mut self, queue: QueueId, completed: Cursor) {
        self.clocks[queue.index()].prune(completed);
    }

    /// Adds a slice without memory, and returns its key.
    pub fn insert(&mut self, id: SliceId, client: ClientId, bytes: u64) -> u32 {
        self.slices.insert(Slice::new(id, client, bytes)) as u32
    }

    /// Gives a slice its memory. A fresh slice may get memory that `residue` still uses; its first tasks come after
    /// these points. A slice that is in use has a log already and gets no residue.
    pub fn give(&mut self, key: u32, backing: Backing, residue: Option<&Points>) {
        let slice = &mut self.slices[key as usize];
        if let Some(residue) = residue {
            slice.log = AccessLog::with_residue(slice.bytes(), residue.iter());
        }
        slice.backing = backing;
    }

    /// Records that the slice gets no memory.
    pub fn fail(&mut self, key: u32, failure: FailureRef) {
        let slice = &mut self.slices[key as usize];
        slice.backing = Backing::Failed(slice.bytes(), failure);
    }

    /// Returns a slice.
    pub fn slice(&self, key: u32) -> &Slice {
        &self.slices[key as usize]
    }

    /// Counts one more held task that names this slice.
    pub fn hold(&mut self, key: u32) {
        self.slices[key as usize].held_tasks += 1;
    }

    /// Counts one held task less that names this slice. Returns `true` if that was the last one of a dropped slice.
    #[inline]
    pub fn release(&mut self, key: u32) -> bool {
        let Some(slice) = self.slices.get_mut(key as usize) else {
            return false;
        };
        slice.held_tasks -= 1;
        slice.dropped && slice.held_tasks == 0
    }

    /// Marks a slice as dropped: its last handle is gone. Returns `true` if no stream holds a task that names it.
    /// Otherwise the slice stays until the last such task is issued.
    pub fn drop_slice(&mut self, key: u32) -> bool {
        let slice = &mut self.slices[key as usize];
        slice.dropped = true;
        slice.held_tasks == 0
    }

    /// Removes a slice that no held task names.
    pub fn remove(&mut self, key: u32, passed: impl Fn(Point) -> bool) -> Removed {
        let slice = self.slices.remove(key as usize);
        Removed {
            busy: busy(&slice.log, passed),
            id: slice.id,
            client: slice.client,
            backing: slice.backing,
        }
    }

    /// Resolves a binding for the backend. Returns an error if its bytes cannot be handed to the backend.
    #[inline]
    pub fn bind(&self, binding: &Binding) -> Result<BoundSlice, Unbound> {
        match self.slices.get(binding.key as usize) {
            Some(slice) => slice.bind(binding),
            None => {
                debug_assert!(
                    binding.key == Binding::UNRESOLVED,
                    "a task names a slice that was removed (I4)"
                );
                Err(Unbound::Missing)
            }
        }
    }

    /// Poisons bytes of a slice with `failure`.
    pub fn poison(&mut self, key: u32, range: Range<u64>, failure: FailureRef) {
        if let Some(slice) = self.slices.get_mut(key as usize)
            && !range.is_empty()
        {
            slice.poisoned.get_or_insert_default().set(range, failure);
        }
    }

    /// Heals bytes of a slice: a task has overwritten them.
    #[inline]
    pub fn heal(&mut self, key: u32, range: &Range<u64>) {
        if let Some(slice) = self.slices.get_mut(key as usize) {
            slice.poisoned.take_if(|poisoned| {
                poisoned.clear(range);
                poisoned.is_empty()
            });
        }
    }

    /// Returns the failure that keeps a task from accessing these bytes: the failure of a byte that it reads, or that
    /// the slice got no memory.
    pub fn failure(&self, key: u32, range: &Range<u64>, access: Access) -> Option<FailureRef> {
        let slice = &self.slices[key as usize];
        match &slice.backing {
            Backing::Failed(_, failure) => Some(failure.clone()),
            _ if !access.reads() => None,
            _ => slice.poisoned.as_ref()?.find(range).cloned(),
        }
    }

    /// Iterates over the ids of all slices.
    pub fn ids(&self) -> impl Iterator<Item = SliceId> {
        self.slices.iter().map(|(_, slice)| slice.id)
    }

    /// Returns the number of slices with handles.
    pub fn live(&self) -> usize {
        let live = self.slices.iter().filter(|(_, slice)| !slice.dropped);
        live.count()
    }

    /// Returns the number of slices with handles that have poisoned bytes. `settled` reports poison that a queue found
    /// while a task ran.
    pub fn poisoned(&self, settled: impl Fn(SliceId) -> bool) -> usize {
        let live = self.slices.iter().filter(|(_, slice)| !slice.dropped);
        let poisoned =
            live.filter(|(_, slice)| slice.has_failed().unwrap_or_else(|| settled(slice.id)));
        poisoned.count()
    }
}

/// Returns the points that still use a slice that no held task names.
fn busy(log: &AccessLog, passed: impl Fn(Point) -> bool) -> Points {
    let mut busy = Points::default();
    log.for_each(|_, used| match used {
        Use::Issued(point) if !passed(point) => busy.insert(point),
        Use::Issued(_) => {}
        Use::Held { .. } => debug_assert!(
            false,
            "a slice is freed while a stream holds a task that names it (I4)"
        ),
    });
    busy
}

/// Enters a use of bytes that other queues or streams may use, too. Returns the number of conflicting points that come
/// before it anyway.
#[inline(never)]
fn enter_shared(
    log: &mut AccessLog,
    (range, access): (Range<u64>, Access),
    accessor: Accessor,
    clocks: &[QueueClock],
    passed: impl Fn(Point) -> bool,
    mut before: impl FnMut(Use),
) -> u64 {
    let mut implied = 0;
    log.conflicts(range.clone(), access, |used| {
        match (used, accessor.queue) {
            // A host function is on no queue: only a point that has passed comes before it.
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

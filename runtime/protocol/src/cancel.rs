//! Withdrawing tasks that have not been issued: by a token, or because their time is up.
//!
//! Withdrawing changes no order. A withdrawn task keeps its place, and when its turn comes it fails with
//! [`Reason::Cancelled`] or
//! [`Reason::DeadlinePassed`] instead of being issued: what it
//! would have written is poisoned by that, whoever reads it is told (I6, I7). What has been issued runs
//! to its end, and is *detached* from then on: its answers come as they would have, and a [`Tally`] says how
//! many tasks it is.

mod drop_guard;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

pub use drop_guard::DropGuard;
use millstream_sync::facade::{Mutex, MutexGuard, lock};
use millstream_sync::timeline::Timeline;

use crate::failure::Reason;
use crate::id::Cursor;

/// Withdraws the tasks that were submitted with it. Cheap to clone; clones are one token.
///
/// ```
/// use millstream_protocol::cancel::CancelToken;
/// # fn f(stream: &millstream_client::Stream, values: &millstream_client::handle::Handle<u32>) -> Result<(), millstream_protocol::error::Error> {
/// let token = CancelToken::new();
/// let request = stream.with_cancel(&token);
/// request.fill(values, 1)?;
/// let tally = token.cancel();
/// println!("{} tasks run on, {} will not run", tally.detached, tally.waiting());
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    accepted: AtomicU64,
    withdrawn: AtomicU64,
    issued: Mutex<Issued>,
    /// The open devices that may hold tasks of the token. A cancel rings for them, without a message that might find no room.
    rings: Mutex<Vec<Weak<dyn Ring>>>,
}

/// A device that is woken to look at what it holds.
pub trait Ring: Send + Sync {
    /// Wakes it.
    fn ring(&self);

    /// Does it take nothing any more?
    fn is_over(&self) -> bool;
}

/// The tasks that were issued.
#[derive(Default)]
struct Issued {
    finished: u64,
    on_host: u64,
    /// A lane for each queue; a queue whose device is gone has none.
    lanes: Vec<Lane>,
}

/// The tasks of one queue that may still run, by their cursors; no more than the queue has in flight.
struct Lane {
    timeline: Arc<Timeline>,
    running: VecDeque<Cursor>,
}

/// What has become of the tasks of a token, or of a deadline, so far. Everything but these is
/// [waiting](Tally::waiting) for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Tasks that were submitted.
    pub accepted: u64,
    /// Those that were removed before they were issued.
    pub withdrawn: u64,
    /// Those that have been issued, and have ended.
    pub finished: u64,
    /// Those that have been issued, and have not ended.
    pub running: u64,
    /// Those of the running ones that were met by the cancel or the deadline: they run to their end, and what
    /// they write is there then. None before that.
    pub detached: u64,
}

impl Tally {
    /// Tasks that have not been issued, nor removed. Those of a token that was cancelled will be removed.
    pub fn waiting(&self) -> u64 {
        self.accepted
            .saturating_sub(self.withdrawn + self.finished + self.running)
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Withdraws what has not been issued, and whatever is submitted with the token from now on. Never
    /// waits. The tally is of this moment: what runs is detached, what is waiting will be removed by the device
    /// as its turn comes, but for a task that it is issuing just now.
    pub fn cancel(&self) -> Tally {
        // Release: pairs with the Acquire in `is_cancelled`. The rings order it before the device's next turn.
        self.0.cancelled.store(true, Ordering::Release);
        let rings = std::mem::take(&mut *self.rings());
        for device in rings.iter().filter_map(Weak::upgrade) {
            device.ring();
        }
        self.tally()
    }

    /// Has it been cancelled?
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the Release in `cancel`.
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// What has become of its tasks so far.
    pub fn tally(&self) -> Tally {
        self.0.tally(self.is_cancelled())
    }

    /// This device is woken when the token is cancelled.
    pub fn ring<R: Ring + 'static>(&self, device: &Arc<R>) {
        let mut rings = self.rings();
        let is_known =
            |ring: &Weak<dyn Ring>| std::ptr::addr_eq(ring.as_ptr(), Arc::as_ptr(device));
        if self.is_cancelled() || rings.iter().any(is_known) {
            return;
        }
        // A device was opened: the rings of lost or closed ones have no use any more.
        let mut devices = Vec::new();
        rings.retain(|ring| {
            let met = ring.upgrade();
            let is_live = met.as_ref().is_some_and(|device| !device.is_over());
            devices.extend(met);
            is_live
        });
        let device: Weak<R> = Arc::downgrade(device);
        rings.push(device);
        drop(rings);
        // The last one drops a table: after the lock.
        drop(devices);
    }

    fn rings(&self) -> MutexGuard<'_, Vec<Weak<dyn Ring>>> {
        lock(&self.0.rings)
    }
}

impl std::fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .field("tally", &self.tally())
            .finish()
    }
}

impl Shared {
    fn tally(&self, is_over: bool) -> Tally {
        let mut issued = self.issued();
        issued.settle();
        let lanes = issued.lanes.iter().map(|lane| lane.running.len() as u64);
        let running = lanes.sum::<u64>() + issued.on_host;
        Tally {
            // Relaxed: figures.
            accepted: self.accepted.load(Ordering::Relaxed),
            withdrawn: self.withdrawn.load(Ordering::Relaxed),
            finished: issued.finished,
            running,
            detached: if is_over { running } else { 0 },
        }
    }

    fn issued(&self) -> MutexGuard<'_, Issued> {
        lock(&self.issued)
    }
}

impl Issued {
    /// Takes note of what has ended.
    fn settle(&mut self) {
        let finished = &mut self.finished;
        self.lanes.retain_mut(|lane| {
            *finished += lane.settle();
            let over = lane.timeline.has_ended();
            if over {
                // They ended with their device.
                *finished += lane.running.len() as u64;
            }
            !over
        });
    }
}

impl Lane {
    fn settle(&mut self) -> u64 {
        let (completed, mut ended) = (self.timeline.completed(), 0);
        while self.running.front().is_some_and(|at| *at <= completed) {
            self.running.pop_front();
            ended += 1;
        }
        ended
    }
}

/// Under which terms tasks are submitted. Shared by all that are submitted under the same.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What withdraws them; where only a deadline does, a token that nobody else has, for the tally.
    cancel: CancelToken,
    /// When they are withdrawn, if they have not been issued.
    deadline: Option<Instant>,
    /// A moment that has passed, at which the deadline was set: it is later than this.
    since: Option<Instant>,
}

impl Terms {
    /// The terms of a token.
    pub fn of(token: &CancelToken) -> Self {
        Self {
            cancel: token.clone(),
            deadline: None,
            since: None,
        }
    }

    /// The same with this token instead.
    pub fn with_cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// The same with this deadline, unless there is an earlier one.
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        let earlier = self.deadline.filter(|earlier| *earlier <= deadline);
        self.deadline = Some(earlier.unwrap_or(deadline));
        self.since = Some(Instant::now());
        self
    }

    /// When tasks are withdrawn.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A moment that has passed.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// What has become of the tasks so far.
    pub fn tally(&self) -> Tally {
        let over = self.deadline.is_some_and(|end| end <= Instant::now());
        self.cancel.0.tally(over || self.cancel.is_cancelled())
    }

    /// Why a task under these terms is not to be issued at `now`.
    pub fn withdrawn(&self, now: Option<Instant>) -> Option<Reason> {
        if self.cancel.is_cancelled() {
            return Some(Reason::Cancelled);
        }
        let passed = self.deadline.zip(now).is_some_and(|(end, now)| end <= now);
        passed.then_some(Reason::DeadlinePassed)
    }

    /// A task is accepted under these terms.
    pub(crate) fn accepted(&self) {
        // Relaxed: a figure.
        self.cancel.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A task is removed.
    pub fn removed(&self) {
        // Relaxed: a figure.
        self.cancel.0.withdrawn.fetch_add(1, Ordering::Relaxed);
    }

    /// A task is issued, and ends when its queue has come to `cursor`.
    pub fn issued(&self, timeline: &Arc<Timeline>, cursor: Cursor) {
        let mut issued = self.cancel.0.issued();
        let known = |lane: &&mut Lane| Arc::ptr_eq(&lane.timeline, timeline);
        if let Some(lane) = issued.lanes.iter_mut().find(known) {
            let ended = lane.settle();
            lane.running.push_back(cursor);
            issued.finished += ended;
            return;
        }
        // A device was opened: those of lost ones go.
        issued.settle();
        issued.lanes.push(Lane {
            timeline: timeline.clone(),
            running: VecDeque::from([cursor]),
        });
    }

    /// The task that was issued last ends at another cursor than its first.
    pub fn ends_later(&self, timeline: &Arc<Timeline>, first: Cursor, last: Cursor) {
        let mut issued = self.cancel.0.issued();
        let known = |lane: &&mut Lane| Arc::ptr_eq(&lane.timeline, timeline);
        let running = issued
            .lanes
            .iter_mut()
            .find(known)
            .map(|lane| &mut lane.running);
        if let Some(end) = running
            .and_then(VecDeque::back_mut)
            .filter(|end| **end == first)
        {
            *end = last;
        }
    }

    /// A task that takes no time is done.
    pub fn done(&self) {
        self.cancel.0.issued().finished += 1;
    }

    /// User code begins to run.
    pub fn begins_on_host(&self) {
        self.cancel.0.issued().on_host += 1;
    }

    /// User code that was about to begin never will: it is removed after all.
    pub fn never_began_on_host(&self) {
        let mut issued = self.cancel.0.issued();
        issued.on_host = issued.on_host.saturating_sub(1);
        drop(issued);
        self.removed();
    }

    /// User code has ended, or never will.
    pub fn ends_on_host(&self) {
        let mut issued = self.cancel.0.issued();
        issued.on_host = issued.on_host.saturating_sub(1);
        issued.finished += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn figures(tally: Tally) -> [u64; 5] {
        let waiting = tally.waiting();
        [
            tally.accepted,
            waiting,
            tally.running,
            tally.detached,
            tally.finished,
        ]
    }

    /// A deadline meets running work like a cancel does.
    #[test]
    fn what_runs_at_the_deadline_is_detached_until_it_ends() {
        let timeline = Arc::new(Timeline::default());
        let now = Instant::now();
        let of = |deadline| Terms::of(&CancelToken::new()).with_deadline(deadline);
        let (early, late) = (of(now), of(now + Duration::from_secs(3_600)));
        let both = late
            .clone()
            .with_deadline(now)
            .with_deadline(now + Duration::from_secs(1));
        assert_eq!(both.deadline(), Some(now), "the earliest counts");
        for terms in [&early, &late] {
            (0..3).for_each(|_| terms.accepted());
            terms.issued(&timeline, 4);
            terms.issued(&timeline, 7);
        }
        assert_eq!(figures(early.tally()), [3, 1, 2, 2, 0]);
        assert_eq!(figures(late.tally()), [3, 1, 2, 0, 0]);
        timeline.publish(4);
        assert_eq!(figures(early.tally()), [3, 1, 1, 1, 1]);
        early.ends_later(&timeline, 7, 9);
        timeline.publish(8);
        assert_eq!(figures(early.tally()), [3, 1, 1, 1, 1]);
        assert_eq!(figures(late.tally()), [3, 1, 0, 0, 2]);
        timeline.publish(9);
        assert_eq!(figures(early.tally()), [3, 1, 0, 0, 2]);
    }

    /// I12: what has ended is not kept, nor are queues of devices that are gone.
    #[test]
    fn a_long_lived_token_keeps_only_what_runs() {
        let token = CancelToken::new();
        let terms = Terms::of(&token);
        for _ in 0..10 {
            let timeline = Arc::new(Timeline::default());
            for cursor in 1..=1_000 {
                terms.accepted();
                terms.issued(&timeline, cursor);
                timeline.publish(cursor);
            }
            terms.issued(&timeline, 1_001);
            timeline.end();
            assert_eq!(token.0.issued().lanes.len(), 1, "lost devices are kept");
        }
        assert_eq!(token.tally().finished, 10_010);
        assert!(token.0.issued().lanes.is_empty());
    }

    /// I12: epochs end, and a token that meets many of them keeps only those that go on.
    #[test]
    fn a_long_lived_token_rings_for_open_devices_only() {
        use millstream_sync::{facade::Edges, gate::Gate, mailbox::mailbox, slots::Slots};

        use crate::table::{Outlet, Table};
        let token = CancelToken::new();
        let mut tables = Vec::new();
        for _ in 0..10 {
            let (sender, mut receiver) = mailbox(4, Arc::new(Gate::new()));
            let outlet = Outlet::new(sender.probe(), Arc::new(Edges::default()));
            let table: Arc<Table> = Slots::new(4, outlet);
            token.ring(&table);
            token.ring(&table);
            tables.push(Arc::downgrade(&table));
            assert_eq!(token.rings().len(), 1, "those of ended epochs are kept");
            receiver.close();
            drop((sender, receiver));
        }
        let alive = tables.iter().filter(|table| table.strong_count() > 0);
        assert_eq!(alive.count(), 0);
    }
}

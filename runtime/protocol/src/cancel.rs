//! Withdrawal of tasks that have not begun: by a token or a deadline.
//!
//! Withdrawal changes no order. A withdrawn task keeps its place, and in its turn it fails with [`Reason::Cancelled`]
//! or [`Reason::DeadlinePassed`] instead of running. The failure poisons what the task would have written, and
//! readers of the data receive it (I6, I7). A task that has begun runs to its end, *detached* from the moment of the
//! cancel or the deadline: its answers come as usual, and a [`Tally`] counts it.
//!
//! **When a task begins.** On a GPU a task begins when it is issued, since a driver's command cannot be taken back; how
//! many are issued early is bounded by their time (`DeviceOptions::max_in_flight_time`). The CPU and the simulator begin
//! their tasks themselves: they look at the terms when they take a task from its queue ([`Withdrawal`]). While the
//! submission log is enabled a task begins when it is issued there too, because the log names the withdrawn ones.
//!
//! ```text
//! accepted ──► waiting ──► running ──► finished
//!                 │           └ counted as detached once the token is cancelled or the deadline has passed; a task that
//!                 │             is issued counts as running, and as withdrawn once it is found not to begin
//!                 └─────► withdrawn
//! ```

mod drop_guard;
mod ledger;

use std::sync::{Arc, Weak};
use std::time::Instant;

pub use drop_guard::DropGuard;
pub use ledger::{Withdrawal, Withdrawals};
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, MutexGuard, Statistic, lock};
use millstream_sync::timeline::Timeline;

use crate::failure::Reason;
use crate::id::Cursor;
use ledger::{Event, Ledger};

/// Withdraws the tasks that were submitted with it. Cheap to clone; all clones are the same token.
///
/// ```
/// use millstream_protocol::CancelToken;
/// # use millstream_client::{Stream, handle::Handle};
/// # use millstream_protocol::Error;
/// # fn f(stream: &Stream, values: &Handle<u32>) -> Result<(), Error> {
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
    accepted: Statistic,
    withdrawn: Statistic,
    issued: Ledger,
    /// The open devices that may hold tasks of the token. A cancel wakes them directly, since a message might find no
    /// room.
    rings: Mutex<Vec<Weak<dyn Ring>>>,
}

/// A device that can be woken to look at what it holds.
pub trait Ring: Send + Sync {
    /// Wakes the device.
    fn ring(&self);

    /// Returns `true` if the device accepts no messages any more.
    fn is_over(&self) -> bool;
}

/// The state of the tasks of a token, or of a deadline. Tasks that are not counted in another field are
/// [waiting](Tally::waiting).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Submitted tasks.
    pub accepted: u64,
    /// Tasks that were withdrawn before they began.
    pub withdrawn: u64,
    /// Tasks that were issued and have ended.
    pub finished: u64,
    /// Tasks that were issued and have not ended.
    pub running: u64,
    /// Running tasks after the cancel or the deadline: they run to their end, and their outputs are valid. Zero
    /// before that.
    pub detached: u64,
}

impl Tally {
    /// Tasks that have been neither issued nor withdrawn. If the token is cancelled they will be withdrawn.
    pub fn waiting(&self) -> u64 {
        self.accepted
            .saturating_sub(self.withdrawn + self.finished + self.running)
    }
}

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Withdraws the tasks that have not begun, and all tasks that are submitted with the token from now on.
    /// Never waits. The returned tally is of this moment: the device withdraws waiting tasks in their turn, except for a
    /// task that it is just issuing. Issued tasks count as running and so as detached; those that a CPU finds not to have
    /// begun count as withdrawn when their turn comes.
    pub fn cancel(&self) -> Tally {
        // Release: pairs with the Acquire in `is_cancelled`. The rings order the store before the device's next turn.
        self.0.cancelled.store(true, Ordering::Release);
        let rings = std::mem::take(&mut *self.rings());
        for device in rings.iter().filter_map(Weak::upgrade) {
            device.ring();
        }
        self.tally()
    }

    /// Returns `true` if the token is cancelled.
    pub fn is_cancelled(&self) -> bool {
        // Acquire: pairs with the Release in `cancel`.
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Returns the state of the tasks of the token.
    pub fn tally(&self) -> Tally {
        self.0.tally(self.is_cancelled())
    }

    /// Registers a device to be woken when the token is cancelled.
    pub fn ring<R: Ring + 'static>(&self, device: &Arc<R>) {
        let mut rings = self.rings();
        let is_known =
            |ring: &Weak<dyn Ring>| std::ptr::addr_eq(ring.as_ptr(), Arc::as_ptr(device));
        if self.is_cancelled() || rings.iter().any(is_known) {
            return;
        }
        // A device was opened, so entries of lost or closed devices may be left.
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
        // This may drop the last reference to a table, so it comes after the lock.
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
        let (finished, running) = self.issued.counts();
        Tally {
            accepted: self.accepted.get(),
            withdrawn: self.withdrawn.get(),
            finished,
            running,
            detached: if is_over { running } else { 0 },
        }
    }
}

/// The terms of submission: what may withdraw a task. Tasks with the same terms share them.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The token. With only a deadline it is a private one, for the tally.
    cancel: CancelToken,
    /// The deadline: a task that was not issued by then is withdrawn.
    deadline: Option<Instant>,
    /// The time at which the deadline was set: a lower bound of the current time for the server, which reads no clock.
    since: Option<Instant>,
}

impl Terms {
    /// Creates the terms of a token.
    pub fn of(token: &CancelToken) -> Self {
        Self {
            cancel: token.clone(),
            deadline: None,
            since: None,
        }
    }

    /// Replaces the token.
    pub fn with_cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// Sets the deadline, unless there is an earlier one.
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        let earlier = self.deadline.filter(|earlier| *earlier <= deadline);
        self.deadline = Some(earlier.unwrap_or(deadline));
        self.since = Some(Instant::now());
        self
    }

    /// Returns the deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the time at which the deadline was set: a lower bound of the current time.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Returns the state of the tasks so far.
    pub fn tally(&self) -> Tally {
        let over = self.deadline.is_some_and(|end| end <= Instant::now());
        self.cancel.0.tally(over || self.cancel.is_cancelled())
    }

    /// Returns why a task under these terms must not be issued at `now`, or `None` if it may be.
    pub fn withdrawn(&self, now: Option<Instant>) -> Option<Reason> {
        if self.cancel.is_cancelled() {
            return Some(Reason::Cancelled);
        }
        let passed = self.deadline.zip(now).is_some_and(|(end, now)| end <= now);
        passed.then_some(Reason::DeadlinePassed)
    }

    /// Counts an accepted task.
    pub(crate) fn accepted(&self) {
        self.cancel.0.accepted.add(1);
    }

    /// Counts a withdrawn task.
    pub fn removed(&self) {
        self.cancel.0.withdrawn.add(1);
    }

    /// Counts an issued task, which ends when its queue has passed `cursor`.
    pub fn issued(&self, timeline: &Arc<Timeline>, cursor: Cursor) {
        self.cancel.0.issued.note(Event::Issued(timeline, cursor));
    }

    /// Moves the end of the task that was issued last from cursor `first` to cursor `last`.
    pub fn ends_later(&self, timeline: &Arc<Timeline>, first: Cursor, last: Cursor) {
        let event = Event::EndsLater(timeline, first, last);
        self.cancel.0.issued.note(event);
    }

    /// Counts an issued task with the cursors `first` to `last` as withdrawn: it did not begin.
    fn did_not_begin(&self, timeline: &Arc<Timeline>, first: Cursor, last: Cursor) {
        let event = Event::DidNotBegin(timeline, first, last);
        self.cancel.0.issued.note(event);
        self.removed();
    }

    /// Counts a task without run time as finished.
    pub fn done(&self) {
        self.cancel.0.issued.note(Event::Done);
    }

    /// Counts user code that starts on the host.
    pub fn begins_on_host(&self) {
        self.cancel.0.issued.note(Event::BeginsOnHost);
    }

    /// Counts user code that was counted as started, but never will start, as withdrawn.
    pub fn never_began_on_host(&self) {
        self.cancel.0.issued.note(Event::NeverBegan);
        self.removed();
    }

    /// Counts user code that has ended, or never will, as finished.
    pub fn ends_on_host(&self) {
        self.cancel.0.issued.note(Event::EndsOnHost);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn counts(tally: Tally) -> [u64; 5] {
        let waiting = tally.waiting();
        [
            tally.accepted,
            waiting,
            tally.running,
            tally.detached,
            tally.finished,
        ]
    }

    /// A deadline affects running tasks as a cancel does.
    #[test]
    fn tasks_that_run_at_the_deadline_are_detached_until_they_end() {
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
        assert_eq!(counts(early.tally()), [3, 1, 2, 2, 0]);
        assert_eq!(counts(late.tally()), [3, 1, 2, 0, 0]);
        timeline.publish(4);
        assert_eq!(counts(early.tally()), [3, 1, 1, 1, 1]);
        early.ends_later(&timeline, 7, 9);
        timeline.publish(8);
        assert_eq!(counts(early.tally()), [3, 1, 1, 1, 1]);
        assert_eq!(counts(late.tally()), [3, 1, 0, 0, 2]);
        timeline.publish(9);
        assert_eq!(counts(early.tally()), [3, 1, 0, 0, 2]);
    }

    /// I12: the device never waits for a caller that counts; what it notes meanwhile is not lost.
    #[test]
    fn device_notes_tasks_while_a_caller_counts_i12() {
        let (token, timeline) = (CancelToken::new(), Arc::new(Timeline::default()));
        let terms = Terms::of(&token);
        (0..5).for_each(|_| terms.accepted());
        terms.issued(&timeline, 1);
        token.0.issued.while_counting(|| {
            terms.issued(&timeline, 3);
            terms.ends_later(&timeline, 3, 4);
            terms.begins_on_host();
            terms.done();
        });
        assert_eq!(counts(token.tally()), [5, 1, 3, 0, 1]);
        terms.ends_on_host();
        timeline.publish(3);
        assert_eq!(counts(token.tally()), [5, 1, 1, 0, 3]);
        timeline.publish(4);
        assert_eq!(counts(token.tally()), [5, 1, 0, 0, 4]);
    }

    /// I5: a caller may find the cursor of a withdrawn task before it finds the withdrawal.
    #[test]
    fn task_that_is_withdrawn_while_a_caller_counts_is_counted_once_i5() {
        let (token, timeline) = (CancelToken::new(), Arc::new(Timeline::default()));
        let terms = Terms::of(&token);
        terms.accepted();
        terms.issued(&timeline, 1);
        token.0.issued.while_counting(|| {
            terms.did_not_begin(&timeline, 1, 1);
            timeline.publish(1);
        });
        let tally = token.tally();
        assert_eq!((tally.withdrawn, tally.finished), (1, 0));
    }

    /// I12: ended tasks are removed, and so are the queues of lost devices.
    #[test]
    fn long_lived_token_keeps_only_running_tasks_i12() {
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
            assert_eq!(
                token.0.issued.queues(),
                1,
                "entries of lost devices are left"
            );
        }
        assert_eq!(token.tally().finished, 10_010);
        assert_eq!(token.0.issued.queues(), 0);
    }

    /// I12: a token that is used in many epochs keeps only the entries of open devices.
    #[test]
    fn long_lived_token_rings_for_open_devices_only_i12() {
        use millstream_sync::{facade::Edges, gate::Gate, mailbox::mailbox, slots::Slots};

        use crate::table::{DropSink, Table};
        let token = CancelToken::new();
        let mut tables = Vec::new();
        for _ in 0..10 {
            let (sender, mut receiver) = mailbox(4, Arc::new(Gate::new()));
            let outlet = DropSink::new(sender.probe(), Arc::new(Edges::default()));
            let table: Arc<Table> = Slots::new(4, outlet);
            token.ring(&table);
            token.ring(&table);
            tables.push(Arc::downgrade(&table));
            assert_eq!(token.rings().len(), 1, "entries of ended epochs are left");
            receiver.close();
            drop((sender, receiver));
        }
        let alive = tables.iter().filter(|table| table.strong_count() > 0);
        assert_eq!(alive.count(), 0);
    }
}

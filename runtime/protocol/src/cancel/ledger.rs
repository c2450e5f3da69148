//! The issued tasks of a token: devices note events, callers count.
//!
//! The list is under a lock, which a device only tries: it must not wait for a caller that counts, nor for another device
//! (I12). If the lock is taken, the device leaves its event in a second list, whose lock no thread holds for longer than
//! a push or a take. A thread that has the first lock takes the late events before it changes or counts anything, so the events
//! of one device stay in order, and a count misses none that came before it.
//!
//! The models in `loom-tests/tests/models/cancel.rs` check that each task is counted once; the mutants `cancel_*` and
//! `ledger_*` break that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, lock, try_lock};
use millstream_sync::timeline::Timeline;

use super::Terms;
use crate::failure::Reason;
use crate::id::Cursor;

/// What a device notes. `T` is a reference to a timeline.
pub(super) enum Event<T> {
    /// A task was issued; it ends when its queue has passed the cursor.
    Issued(T, Cursor),
    /// The task that was issued last, which would end at the first cursor, ends at the second.
    EndsLater(T, Cursor, Cursor),
    /// An issued task with the cursors from the first to the second was withdrawn when it was to begin.
    DidNotBegin(T, Cursor, Cursor),
    /// A task without run time has ended.
    Done,
    /// User code begins on the host.
    BeginsOnHost,
    /// User code that was counted as begun will not begin.
    NeverBegan,
    /// User code has ended, or never will.
    EndsOnHost,
}

impl<T> Event<T> {
    /// Applies a function to a reference to the timeline.
    fn map<'a, U>(&'a self, map: impl FnOnce(&'a T) -> U) -> Event<U> {
        match self {
            Event::Issued(timeline, cursor) => Event::Issued(map(timeline), *cursor),
            Event::EndsLater(timeline, first, last) => {
                Event::EndsLater(map(timeline), *first, *last)
            }
            Event::DidNotBegin(timeline, first, last) => {
                Event::DidNotBegin(map(timeline), *first, *last)
            }
            Event::Done => Event::Done,
            Event::BeginsOnHost => Event::BeginsOnHost,
            Event::NeverBegan => Event::NeverBegan,
            Event::EndsOnHost => Event::EndsOnHost,
        }
    }
}

/// The issued tasks of a token.
#[derive(Default)]
pub(super) struct Ledger {
    issued: Mutex<Issued>,
    /// Events that found the lock taken.
    late: Mutex<Vec<Event<Arc<Timeline>>>>,
    /// Whether there are any; written under their lock.
    has_late: AtomicBool,
}

#[derive(Default)]
struct Issued {
    finished: u64,
    on_host: u64,
    /// The tasks of each queue; a queue whose device is lost has no entry.
    queues: Vec<QueueTasks>,
}

/// The tasks of one queue that may still run, by their cursors; bounded by the queue's tasks in flight.
struct QueueTasks {
    timeline: Arc<Timeline>,
    running: VecDeque<Cursor>,
}

impl Ledger {
    /// Notes an event. Never waits for a caller that counts.
    pub(super) fn note(&self, event: Event<&Arc<Timeline>>) {
        match try_lock(&self.issued) {
            Some(mut issued) => {
                self.take_late(&mut issued);
                issued.note(event);
            }
            None => {
                // I12: no thread holds this lock for longer than a push.
                let mut late = lock(&self.late);
                late.push(event.map(|timeline| Arc::clone(timeline)));
                // Relaxed: a later event of this thread sees its own store; a count that must include the event comes
                // after it.
                self.has_late.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of tasks that have ended, and of those that run.
    pub(super) fn counts(&self) -> (u64, u64) {
        let mut issued = lock(&self.issued);
        self.take_late(&mut issued);
        issued.count_ended();
        let queues = issued.queues.iter().map(|queue| queue.running.len() as u64);
        (issued.finished, queues.sum::<u64>() + issued.on_host)
    }

    fn take_late(&self, issued: &mut Issued) {
        // Relaxed: see `note`.
        if !self.has_late.load(Ordering::Relaxed) {
            return;
        }
        let mut late = lock(&self.late);
        // Relaxed: the lock orders it with the other stores.
        self.has_late.store(false, Ordering::Relaxed);
        let events = std::mem::take(&mut *late);
        drop(late);
        for event in &events {
            issued.note(event.map(|timeline| timeline));
        }
    }

    /// Returns the number of queues with an entry.
    #[cfg(test)]
    pub(super) fn queues(&self) -> usize {
        lock(&self.issued).queues.len()
    }

    /// Calls a function as if it ran while a caller begins to count.
    #[cfg(test)]
    pub(super) fn while_counting(&self, run: impl FnOnce()) {
        let mut issued = lock(&self.issued);
        run();
        issued.count_ended();
    }
}

impl Issued {
    fn note(&mut self, event: Event<&Arc<Timeline>>) {
        match event {
            Event::Issued(timeline, cursor) => self.add(timeline, cursor),
            Event::EndsLater(timeline, first, last) => {
                let queue = self.queue(timeline);
                let end = queue.and_then(|queue| queue.running.back_mut());
                if let Some(end) = end.filter(|end| **end == first) {
                    *end = last;
                }
            }
            Event::DidNotBegin(timeline, first, last) => {
                let found = self.queue(timeline).is_some_and(|queue| {
                    let place = queue.running.partition_point(|end| *end < first);
                    // It ends at its first cursor until the device has noted the last one.
                    let is_found = queue.running.get(place).is_some_and(|end| *end <= last);
                    is_found.then(|| queue.running.remove(place)).is_some()
                });
                if !found {
                    // A holder that did not have this event yet has counted it as finished.
                    self.finished = self.finished.saturating_sub(1);
                }
            }
            Event::Done => self.finished += 1,
            Event::BeginsOnHost => self.on_host += 1,
            Event::NeverBegan => self.on_host = self.on_host.saturating_sub(1),
            Event::EndsOnHost => {
                self.on_host = self.on_host.saturating_sub(1);
                self.finished += 1;
            }
        }
    }

    fn queue(&mut self, timeline: &Arc<Timeline>) -> Option<&mut QueueTasks> {
        self.queues
            .iter_mut()
            .find(|queue| Arc::ptr_eq(&queue.timeline, timeline))
    }

    fn add(&mut self, timeline: &Arc<Timeline>, cursor: Cursor) {
        if let Some(queue) = self.queue(timeline) {
            let ended = queue.count_ended();
            queue.running.push_back(cursor);
            self.finished += ended;
            return;
        }
        // A device was opened, so entries of lost devices may be left.
        self.count_ended();
        self.queues.push(QueueTasks {
            timeline: timeline.clone(),
            running: VecDeque::from([cursor]),
        });
    }

    /// Counts tasks that have ended, and removes them.
    fn count_ended(&mut self) {
        let finished = &mut self.finished;
        self.queues.retain_mut(|queue| {
            *finished += queue.count_ended();
            let over = queue.timeline.has_ended();
            if over {
                // The running tasks ended with their device.
                *finished += queue.running.len() as u64;
            }
            !over
        });
    }
}

impl QueueTasks {
    fn count_ended(&mut self) -> u64 {
        let (completed, mut ended) = (self.timeline.completed(), 0);
        while self.running.front().is_some_and(|at| *at <= completed) {
            self.running.pop_front();
            ended += 1;
        }
        ended
    }
}

// Withdrawal of a task that is issued and has not begun, by a device that begins its tasks itself.

/// The terms of one task of a queue. A task may have several cursors (a replay, a copy of several results): whether it is
/// withdrawn is decided when its first cursor begins, for all of them.
#[derive(Clone, Debug)]
pub struct Withdrawal {
    /// The terms.
    pub terms: Arc<Terms>,
    /// The task's first cursor.
    pub first: Cursor,
    /// Its last cursor.
    pub last: Cursor,
    /// Whether the clock is read for a deadline. Otherwise a deadline that passes after the task was issued does not
    /// withdraw it.
    pub has_clock: bool,
}

/// The task of a queue that may be withdrawn when it begins, for the thread that runs the queue.
///
/// ```
/// use std::sync::Arc;
/// use millstream_protocol::{CancelToken, Terms, Withdrawal, Withdrawals};
/// use millstream_protocol::Reason;
///
/// let (token, timeline) = (CancelToken::new(), Arc::default());
/// let terms = Arc::new(Terms::of(&token));
/// let task = |first, last| Withdrawal { terms: terms.clone(), first, last, has_clock: true };
/// let mut queue = Withdrawals::default();
///
/// queue.set(task(7, 8));
/// assert_eq!(queue.reason(7, &timeline), None);
/// token.cancel();
/// assert_eq!(queue.reason(8, &timeline), None, "the task has begun");
///
/// queue.set(task(9, 9));
/// assert_eq!(queue.reason(9, &timeline), Some(Reason::Cancelled));
/// assert_eq!(queue.reason(10, &timeline), None, "a task without terms");
/// ```
#[derive(Default, Debug)]
pub struct Withdrawals {
    /// A task that has not begun, or further cursors of one that was withdrawn.
    task: Option<Withdrawal>,
}

impl Withdrawals {
    /// Sets the terms of the task that comes next.
    pub fn set(&mut self, task: Withdrawal) {
        self.task = Some(task);
    }

    /// Returns why the work at `cursor`, which is about to begin, must not run, or `None` if it may. `timeline` is that
    /// of the queue.
    #[inline]
    pub fn reason(&mut self, cursor: Cursor, timeline: &Arc<Timeline>) -> Option<Reason> {
        let task = self.task.take()?;
        let reason = task.reason(cursor, timeline)?;
        self.task = Some(task);
        Some(reason)
    }
}

impl Withdrawal {
    #[cold]
    fn reason(&self, cursor: Cursor, timeline: &Arc<Timeline>) -> Option<Reason> {
        if cursor > self.last {
            return None;
        }
        let now = self.terms.deadline().filter(|_| self.has_clock);
        let reason = self.terms.withdrawn(now.map(|_| Instant::now()))?;
        if cursor == self.first {
            self.terms.did_not_begin(timeline, self.first, self.last);
        }
        Some(reason)
    }
}

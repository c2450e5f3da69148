//! The issued tasks of a token: devices note events, callers count.
//!
//! The list is under a lock, which a device only tries: it must not wait for a caller that counts, nor for another device
//! (I12). If the lock is taken, the device leaves its event behind, and the holder takes it.
//!
//! ```text
//!   device                                holder
//!   late: push the event                  change the list
//!   fence             (SeqCst)            unlock
//!   try_lock: taken                       fence             (SeqCst)
//!                                         late is not empty: lock again, take them
//! ```
//! Either the fence of the device comes first, and the holder sees the event; or that of the holder does, and the device
//! sees the lock free, or taken by a later holder, which also looks. A device takes the late events before it makes a
//! change of its own, so the events of one device stay in order.
//!
//! The models in `loom-tests/tests/models/cancel.rs` check that each task is counted once, and that no event is left behind;
//! the mutants `cancel_*` and `ledger_*` break both.

use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::Arc;

use millstream_sync::facade::atomic::{AtomicPtr, Ordering, fence};
use millstream_sync::facade::{Mutex, MutexGuard, lock, try_lock};
use millstream_sync::timeline::Timeline;

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
    /// Events that found the lock taken, the last one first.
    late: AtomicPtr<LateEvent>,
}

struct LateEvent {
    event: Event<Arc<Timeline>>,
    before: *mut LateEvent,
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
    /// Notes an event. Never waits.
    pub(super) fn note(&self, event: Event<&Arc<Timeline>>) {
        match try_lock(&self.issued) {
            Some(issued) => self.change(issued, |issued| issued.note(event)),
            None => self.leave(event.map(|timeline| Arc::clone(timeline))),
        }
    }

    /// Returns the number of tasks that have ended, and of those that run.
    pub(super) fn counts(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        self.change(lock(&self.issued), |issued| {
            issued.count_ended();
            let queues = issued.queues.iter().map(|queue| queue.running.len() as u64);
            counts = (issued.finished, queues.sum::<u64>() + issued.on_host);
        });
        counts
    }

    /// Returns the number of queues with an entry.
    #[cfg(test)]
    pub(super) fn queues(&self) -> usize {
        lock(&self.issued).queues.len()
    }

    /// Calls a function as if it ran while a caller begins to count.
    #[cfg(test)]
    pub(super) fn while_counting(&self, run: impl FnOnce()) {
        self.change(lock(&self.issued), |issued| {
            run();
            issued.count_ended();
        });
    }

    /// Takes the late events, changes the list, and takes the events that are left behind meanwhile.
    fn change(&self, mut issued: MutexGuard<'_, Issued>, change: impl FnOnce(&mut Issued)) {
        self.take_late(&mut issued);
        change(&mut issued);
        drop(issued);
        // SeqCst: pairs with the fence in `leave`.
        fence(Ordering::SeqCst);
        self.take_left();
    }

    /// Leaves an event to the holder of the lock.
    #[cold]
    fn leave(&self, event: Event<Arc<Timeline>>) {
        let late = Box::into_raw(Box::new(LateEvent {
            event,
            before: null_mut(),
        }));
        // Relaxed: a guess for the exchange.
        let mut before = self.late.load(Ordering::Relaxed);
        loop {
            // SAFETY: the event is not in the list yet, so only this thread has it.
            unsafe { (*late).before = before };
            // Release: pairs with the Acquire in `take_late`.
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            match self.late.compare_exchange_weak(before, late, won, lost) {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        // SeqCst: pairs with the fence in `change`.
        fence(Ordering::SeqCst);
        self.take_left();
    }

    /// Takes events that were left behind, unless another thread has the lock, which then takes them.
    fn take_left(&self) {
        // Relaxed: the fence before orders it.
        while !self.late.load(Ordering::Relaxed).is_null() {
            let Some(mut issued) = try_lock(&self.issued) else {
                return;
            };
            self.take_late(&mut issued);
            drop(issued);
            // SeqCst: pairs with the fence in `leave`.
            fence(Ordering::SeqCst);
        }
    }

    fn take_late(&self, issued: &mut Issued) {
        // Relaxed: another look follows when the lock is free.
        if self.late.load(Ordering::Relaxed).is_null() {
            return;
        }
        // Acquire: pairs with the Release in `leave`.
        let mut late = self.late.swap(null_mut(), Ordering::Acquire);
        let mut events = Vec::new();
        while !late.is_null() {
            // SAFETY: from `Box::into_raw` in `leave`; the exchange took the list from all other threads.
            let LateEvent { event, before } = *unsafe { Box::from_raw(late) };
            events.push(event);
            late = before;
        }
        while let Some(event) = events.pop() {
            issued.note(event.map(|timeline| timeline));
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // The last holder of the lock has taken all events; this frees none unless a change panicked.
        self.take_late(&mut Issued::default());
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

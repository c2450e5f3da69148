//! The wait list of producers that wait for room: parked threads, and tasks with a waker; first
//! come, first served.
//!
//! `waiting` is the length of the list, written under its lock only, so that the receiver decides
//! with one load whether to wake. A wake removes the producer from the list; a producer that finds
//! the mailbox full again returns to its old place, by its ticket.
//!
//! Each wake reaches a thread if one waits. A task may be polled late, or have been dropped, so a
//! wake spent on a task alone could be lost, and the threads behind it would sleep beside an empty
//! mailbox. Therefore a wake takes the first thread and all tasks in front of it.

use crate::facade::atomic::{AtomicUsize, Ordering};
use crate::facade::thread;
use crate::facade::{Mutex, lock};
use crate::wait::Waiter;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::task::Waker;

/// Producers that one wake takes without allocating (I9).
const WOKEN_INLINE: usize = 8;

pub(super) struct WaitList {
    waiting: AtomicUsize,
    list: Mutex<List>,
}

struct List {
    next_ticket: u64,
    /// By ticket, the oldest first.
    queue: BTreeMap<u64, Waiter>,
}

/// One producer's place in the list, kept over all its waits for one message.
#[derive(Debug)]
pub(super) struct Ticket(Option<u64>);

impl Ticket {
    pub(super) const NEW: Self = Self(None);
}

impl WaitList {
    pub(super) fn new() -> Self {
        let list = List {
            next_ticket: 0,
            queue: BTreeMap::new(),
        };
        Self {
            waiting: AtomicUsize::new(0),
            list: Mutex::new(list),
        }
    }

    /// Returns `true` if a producer waits. The caller has fenced after making room.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        // Relaxed: ordered by the caller's fence.
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Enters the calling thread unless it is in the list. The caller then fences and tries once
    /// more before parking.
    pub(super) fn enter(&self, ticket: &mut Ticket) {
        self.enter_as(ticket, Waiter::Thread(thread::current()));
    }

    /// Enters a task, or replaces its waker. The caller then fences and looks for room once more.
    pub(super) fn enter_task(&self, ticket: &mut Ticket, waker: &Waker) {
        self.enter_as(ticket, Waiter::Task(waker.clone()));
    }

    fn enter_as(&self, ticket: &mut Ticket, waiter: Waiter) {
        let mut list = lock(&self.list);
        let number = *ticket.0.get_or_insert(list.next_ticket);
        list.next_ticket = list.next_ticket.max(number + 1);
        let before = list.queue.insert(number, waiter);
        self.count(&list);
        drop(list);
        // Dropping a waker runs foreign code: after the lock.
        drop(before);
    }

    pub(super) fn leave(&self, ticket: &Ticket) {
        let Some(number) = ticket.0 else { return };
        let mut list = lock(&self.list);
        let left = list.queue.remove(&number);
        self.count(&list);
        drop(list);
        drop(left);
    }

    /// Wakes the producer that has waited longest; if that is a task, all up to the first thread.
    #[cold]
    pub(super) fn wake_one(&self) {
        let mut list = lock(&self.list);
        let mut woken = SmallVec::<[Waiter; WOKEN_INLINE]>::new();
        while let Some((_, waiter)) = list.queue.pop_first() {
            let is_thread = matches!(waiter, Waiter::Thread(_));
            woken.push(waiter);
            if is_thread {
                break;
            }
        }
        self.count(&list);
        drop(list);
        woken.into_iter().for_each(Waiter::wake);
    }

    /// Wakes all producers: the mailbox is closed.
    pub(super) fn wake_all(&self) {
        let mut list = lock(&self.list);
        let all = std::mem::take(&mut list.queue);
        self.count(&list);
        drop(list);
        all.into_values().for_each(Waiter::wake);
    }

    fn count(&self, list: &List) {
        // Relaxed: written under the lock; loads are ordered by fences.
        self.waiting.store(list.queue.len(), Ordering::Relaxed);
    }
}

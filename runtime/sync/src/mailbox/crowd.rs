//! Producers that wait for room, first come, first served: threads that are parked, and tasks with a waker.
//!
//! `waiting` is the number of those in the queue, written under the lock only, so that whoever makes
//! room looks with one load. Being woken means being taken out of the queue: a woken producer that is
//! still out of luck goes back to its old place, by its number.
//!
//! A wake reaches a thread if one waits: nobody knows when a task is polled, or whether it was dropped meanwhile, so a
//! wake that is spent on a task alone could be lost, and the threads behind it would sleep beside an empty mailbox.
//! Therefore a wake takes the tasks in front of the first thread along with that thread.

use crate::facade::atomic::{AtomicUsize, Ordering};
use crate::facade::thread;
use crate::facade::{Mutex, lock};
use crate::wait::Waiter;
use std::collections::VecDeque;
use std::task::Waker;

pub(super) struct Crowd {
    waiting: AtomicUsize,
    parked: Mutex<Parked>,
}

struct Parked {
    next_ticket: u64,
    /// By ticket, the oldest in front.
    queue: VecDeque<(u64, Waiter)>,
}

/// One producer's place, over all its turns in the queue.
#[derive(Debug)]
pub(super) struct Ticket(Option<u64>);

impl Ticket {
    pub(super) const NEW: Self = Self(None);
}

impl Crowd {
    pub(super) fn new() -> Self {
        let parked = Parked {
            next_ticket: 0,
            queue: VecDeque::new(),
        };
        Self {
            waiting: AtomicUsize::new(0),
            parked: Mutex::new(parked),
        }
    }

    /// Whether somebody waits. The caller has fenced after making room.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        // Relaxed: ordered by the caller's fence.
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Makes sure that the calling thread is in the queue. It must then fence and try once more before parking.
    pub(super) fn enter(&self, ticket: &mut Ticket) {
        self.enter_as(ticket, Waiter::Thread(thread::current()));
    }

    /// Makes sure that a task is in the queue, with this waker. It must then fence and look once more.
    pub(super) fn enter_task(&self, ticket: &mut Ticket, waker: &Waker) {
        self.enter_as(ticket, Waiter::Task(waker.clone()));
    }

    fn enter_as(&self, ticket: &mut Ticket, waiter: Waiter) {
        let mut parked = lock(&self.parked);
        let number = *ticket.0.get_or_insert(parked.next_ticket);
        parked.next_ticket = parked.next_ticket.max(number + 1);
        let at = parked.queue.partition_point(|(n, _)| *n < number);
        let before = match parked.queue.get_mut(at) {
            Some((n, before)) if *n == number => Some(std::mem::replace(before, waiter)),
            _ => {
                parked.queue.insert(at, (number, waiter));
                None
            }
        };
        self.count(&parked);
        drop(parked);
        // Dropping a waker is foreign code: after the lock.
        drop(before);
    }

    pub(super) fn leave(&self, ticket: &Ticket) {
        let Some(number) = ticket.0 else { return };
        let mut parked = lock(&self.parked);
        let at = parked.queue.partition_point(|(n, _)| *n < number);
        let is_mine = parked.queue.get(at).is_some_and(|(n, _)| *n == number);
        let left = is_mine.then(|| parked.queue.remove(at));
        self.count(&parked);
        drop(parked);
        drop(left);
    }

    /// Wakes the one that has waited longest; if that is a task, all up to the first thread.
    #[cold]
    pub(super) fn wake_one(&self) {
        let mut parked = lock(&self.parked);
        let is_thread = |(_, waiter): &(u64, Waiter)| matches!(waiter, Waiter::Thread(_));
        let first = parked.queue.iter().position(is_thread);
        let woken = first.map_or(parked.queue.len(), |first| first + 1);
        if woken == 1 {
            // The common case, without the heap.
            let only = parked.queue.pop_front();
            self.count(&parked);
            drop(parked);
            return only.into_iter().for_each(|(_, waiter)| waiter.wake());
        }
        let woken: Vec<_> = parked.queue.drain(..woken).collect();
        self.count(&parked);
        drop(parked);
        woken.into_iter().for_each(|(_, waiter)| waiter.wake());
    }

    /// Wakes everybody: the mailbox is closed.
    pub(super) fn wake_all(&self) {
        let mut parked = lock(&self.parked);
        let all = std::mem::take(&mut parked.queue);
        self.count(&parked);
        drop(parked);
        all.into_iter().for_each(|(_, waiter)| waiter.wake());
    }

    fn count(&self, parked: &Parked) {
        // Relaxed: written under the lock; readers order it by fences.
        self.waiting.store(parked.queue.len(), Ordering::Relaxed);
    }
}

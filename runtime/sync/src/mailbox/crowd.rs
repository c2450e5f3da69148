//! Producers that wait for room, first come, first served.
//!
//! `waiting` is the number of those in the queue, written under the lock only, so that whoever makes
//! room looks with one load. Being woken means being taken out of the queue: a woken producer that is
//! still out of luck goes back in at the front.

use crate::facade::atomic::{AtomicUsize, Ordering};
use crate::facade::thread::{self, Thread};
use crate::facade::{Mutex, lock};
use std::collections::VecDeque;

pub(super) struct Crowd {
    waiting: AtomicUsize,
    parked: Mutex<Parked>,
}

struct Parked {
    next_ticket: u64,
    queue: VecDeque<(u64, Thread)>,
}

/// One producer's place, over all its turns in the queue.
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

    /// Makes sure that the caller is in the queue. It must then fence and try once more before parking.
    pub(super) fn enter(&self, ticket: &mut Ticket) {
        let mut parked = lock(&self.parked);
        match ticket.0 {
            None => {
                let number = parked.next_ticket;
                parked.next_ticket += 1;
                ticket.0 = Some(number);
                parked.queue.push_back((number, thread::current()));
            }
            Some(number) if parked.queue.iter().any(|(n, _)| *n == number) => {}
            Some(number) => parked.queue.push_front((number, thread::current())),
        }
        self.count(&parked);
    }

    pub(super) fn leave(&self, ticket: &Ticket) {
        let mut parked = lock(&self.parked);
        parked.queue.retain(|(n, _)| Some(*n) != ticket.0);
        self.count(&parked);
    }

    /// Wakes the one that has waited longest.
    #[cold]
    pub(super) fn wake_one(&self) {
        let mut parked = lock(&self.parked);
        let first = parked.queue.pop_front();
        self.count(&parked);
        drop(parked);
        if let Some((_, thread)) = first {
            thread.unpark();
        }
    }

    /// Wakes everybody: the mailbox is closed.
    pub(super) fn wake_all(&self) {
        let mut parked = lock(&self.parked);
        let all = std::mem::take(&mut parked.queue);
        self.count(&parked);
        drop(parked);
        for (_, thread) in all {
            thread.unpark();
        }
    }

    fn count(&self, parked: &Parked) {
        // Relaxed: written under the lock; readers order it by fences.
        self.waiting.store(parked.queue.len(), Ordering::Relaxed);
    }
}

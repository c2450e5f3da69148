//! Many sleepers, many ringers: everybody who sleeps wakes when it rings.
//!
//! The same handshake as the gate's, over a count of rings instead of a flag: the ringer counts, fences and
//! looks for sleepers; the sleeper enters the list, fences and looks at the count. One of the two sees the
//! other. Who sleeps has heard the bell up to some count and then found nothing to do, so a ring in between
//! sends him back at once.

use crate::facade::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::facade::thread::{self, Thread};
use crate::facade::{Mutex, lock};
use std::sync::Arc;
use std::task::Wake;
use std::time::Instant;

/// Many sleepers, many ringers.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU64,
    /// How many are in `list`; written under its lock.
    sleepers: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next_ticket: u64,
    sleepers: Vec<(u64, Thread)>,
}

/// How often a bell had rung at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "listen first, look for work, then sleep"]
pub struct Heard(u64);

impl Bell {
    /// A bell that nobody listens to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes everybody who sleeps. Call it after publishing work.
    #[inline]
    pub fn ring(&self) {
        // Release: pairs with the Acquire of a sleeper's look; he sees the work.
        self.rings.fetch_add(1, Ordering::Release);
        // SeqCst: pairs with the fence in `sleep`; count-then-look here, enter-then-look there.
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let mut list = lock(&self.list);
        list.sleepers
            .drain(..)
            .for_each(|(_, sleeper)| sleeper.unpark());
        // Relaxed: ordered by the fences.
        self.sleepers.store(0, Ordering::Relaxed);
    }

    /// How often it has rung. To be asked before the look for work that comes before sleeping.
    #[inline]
    pub fn heard(&self) -> Heard {
        // Acquire: what was published before these rings is seen.
        Heard(self.rings.load(Ordering::Acquire))
    }

    /// Sleeps until it has rung since `heard`, and says so, or until the deadline has passed. Blocks. In a
    /// model no deadline comes.
    pub fn sleep(&self, heard: Heard, deadline: Option<Instant>) -> bool {
        let mut ticket = self.enter();
        let rung = loop {
            // SeqCst: pairs with the fence in `ring`.
            fence(Ordering::SeqCst);
            if self.heard() != heard {
                break true;
            }
            if !thread::park_until(deadline) {
                break self.heard() != heard;
            }
            // A ring that had been heard before may have come late to the list, and taken us off.
            self.leave(ticket);
            ticket = self.enter();
        };
        self.leave(ticket);
        rung
    }

    /// How many threads sleep at this moment.
    pub fn sleepers(&self) -> usize {
        // Relaxed: a figure.
        self.sleepers.load(Ordering::Relaxed)
    }

    fn enter(&self) -> u64 {
        let mut list = lock(&self.list);
        let ticket = list.next_ticket;
        list.next_ticket += 1;
        list.sleepers.push((ticket, thread::current()));
        // Relaxed: ordered by the fences.
        self.sleepers.store(list.sleepers.len(), Ordering::Relaxed);
        ticket
    }

    /// Whoever rang has taken us off the list, unless he did not see us.
    fn leave(&self, ticket: u64) {
        let mut list = lock(&self.list);
        list.sleepers.retain(|(other, _)| *other != ticket);
        // Relaxed: ordered by the fences.
        self.sleepers.store(list.sleepers.len(), Ordering::Relaxed);
    }
}

/// So that a bell can be given where a waker is taken.
impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_ring_wakes_everybody_and_nobody_stays_on_the_list() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 2_000 };
        let bell = Arc::new(Bell::new());
        let posted = Arc::new(AtomicU64::new(0));
        let sleepers: Vec<_> = (0..3)
            .map(|_| {
                let (bell, posted) = (bell.clone(), posted.clone());
                std::thread::spawn(move || {
                    loop {
                        let heard = bell.heard();
                        if posted.load(Ordering::Acquire) == ROUNDS {
                            return;
                        }
                        bell.sleep(heard, None);
                    }
                })
            })
            .collect();
        for round in 1..=ROUNDS {
            posted.store(round, Ordering::Release);
            bell.ring();
        }
        sleepers.into_iter().for_each(|s| s.join().unwrap());
        assert_eq!(bell.sleepers(), 0);
    }

    #[test]
    fn a_ring_in_between_sends_back_at_once_and_a_deadline_passes() {
        let bell = Bell::new();
        let heard = bell.heard();
        bell.ring();
        assert!(bell.sleep(heard, None));
        let until = Instant::now() + Duration::from_millis(1);
        assert!(!bell.sleep(bell.heard(), Some(until)));
        assert_eq!(bell.sleepers(), 0);
    }
}

//! Parks any number of threads until a thread rings.
//!
//! A caller reads the count of rings ([`Bell::heard`]), looks for work, and sleeps if it found
//! none. A ring after that read sends it back at once.
//!
//! # State
//! `rings` only grows. `list` holds the threads that sleep, and `sleepers` is its length, written
//! under the list's lock so that a ringer reads one word. A ringer empties the list and unparks
//! every thread of it; a sleeper that stops waiting removes its own entry.
//!
//! # No ring is lost (I5)
//! The handshake is that of the [gate](crate::gate): each side writes, fences, then reads what the
//! other side wrote.
//!
//! ```text
//!   sleeper                                     ringer
//!   heard = rings              (Acquire)
//!   look for work: none                         publish work
//!   enter the list, sleepers = length           rings += 1               (Release)
//!   fence(SeqCst)                               fence(SeqCst)
//!   rings != heard: return                      sleepers != 0:           (Relaxed)
//!   park, enter the list again, fence, ..         empty the list, unpark its threads
//! ```
//! If the ringer's fence comes first, the sleeper reads the new count; otherwise the ringer reads
//! that a thread sleeps. The Release of `rings` pairs with the Acquire in `heard`: a thread that
//! sees the ring sees the work.
//!
//! A sleeper enters the list again after each park. A ring that it had already heard may reach the
//! list late and remove the entry; without a new entry the next ring would not find the thread.
//!
//! Checked by the models in `loom-tests/tests/models/bell.rs`; the mutants `bell_*` remove each
//! fence and the second entry.

use crate::facade::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::facade::thread::{self, Thread};
use crate::facade::{Mutex, lock};
use std::sync::Arc;
use std::task::Wake;
use std::time::Instant;

/// Parks any number of threads until a thread rings.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU64,
    /// The length of `list`; written under its lock.
    sleepers: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next_ticket: u64,
    sleepers: Vec<(u64, Thread)>,
}

/// The number of times a bell had rung at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "call `heard` first, then look for work, then sleep"]
pub struct Heard(u64);

impl Bell {
    /// Creates a bell without sleepers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes all threads that sleep. Call it after publishing work.
    #[inline]
    pub fn ring(&self) {
        // Release: pairs with the Acquire in `heard`; a sleeper that sees the ring sees the work.
        self.rings.fetch_add(1, Ordering::Release);
        // SeqCst: pairs with the fence in `sleep`. Here: count, then read `sleepers`; there: enter
        // the list, then read the count.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
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

    /// Returns how often the bell has rung. Call it before the look for work that precedes [`Self::sleep`].
    #[inline]
    pub fn heard(&self) -> Heard {
        // Acquire: pairs with the Release in `ring`; work published before these rings is visible.
        Heard(self.rings.load(Ordering::Acquire))
    }

    /// Sleeps until the bell has rung since `heard`, or until the deadline. Blocks. Returns `true`
    /// if it has rung. In a model deadlines never pass.
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
            // A ring that `heard` counts may have reached the list late and removed our entry.
            self.leave(ticket);
            ticket = self.enter();
        };
        self.leave(ticket);
        rung
    }

    /// Returns the number of threads that sleep at this moment.
    pub fn sleepers(&self) -> usize {
        // Relaxed: a statistic.
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

    /// Removes the sleeper's entry, unless a ringer has removed it.
    fn leave(&self, ticket: u64) {
        let mut list = lock(&self.list);
        list.sleepers.retain(|(other, _)| *other != ticket);
        // Relaxed: ordered by the fences.
        self.sleepers.store(list.sleepers.len(), Ordering::Relaxed);
    }
}

/// Lets a bell serve as a waker.
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
    fn a_ring_wakes_every_sleeper_and_empties_the_list() {
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
    fn a_ring_after_heard_returns_at_once_and_a_deadline_passes() {
        let bell = Bell::new();
        let heard = bell.heard();
        bell.ring();
        assert!(bell.sleep(heard, None));
        let until = Instant::now() + Duration::from_millis(1);
        assert!(!bell.sleep(bell.heard(), Some(until)));
        assert_eq!(bell.sleepers(), 0);
    }
}

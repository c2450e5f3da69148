//! A lock around state that its owner thread works on, and that another thread may work on while
//! the owner sleeps (stepping in).
//!
//! The owner sleeps at a [`Gate`] while there is no work. A visitor, which is a thread that has
//! published work, tries to lock the door once and never blocks. If the door is locked, the visitor
//! sets `again`, and the thread inside looks for work once more after it has left.
//!
//! # State
//! The lock `inside`, and the flag `again`. A visitor sets `again` when it finds the door locked;
//! the thread that leaves clears it and looks for work again, or wakes a thread that does.
//!
//! # No work is left behind (I6)
//! Each side writes, fences, then reads what the other side wrote:
//!
//! ```text
//!   visitor                                   thread inside
//!   publish work
//!   try to lock: fails                        work
//!   again = true             (Release)        unlock
//!   fence(SeqCst)                             fence(SeqCst)
//!   try to lock once more                     again?                  (Relaxed, then swap, Acquire)
//!     locked: done                              true: look for work again
//!     free:   do the work
//! ```
//! If the visitor's fence comes first, the thread that leaves reads `again`; otherwise the
//! visitor's second try finds the door unlocked. Either way a thread is inside after the
//! publication and sees the work: by the lock, or by `again`, whose Release pairs with the Acquire
//! of the swap.
//!
//! # Owner and visitor
//!
//! ```text
//!   owner                                     visitor
//!   idle: asleep = ASLEEP, has_news? no       publish work
//!   park                                      wake_unless: ASLEEP, so try to lock
//!                                             do the work, leave
//!                                               no work left: return true, the owner sleeps on
//!                                               work left, or `again`: return false, wake the owner
//! ```
//! A visitor that leaves work to the owner makes `has_news` return `true` before it leaves. The
//! owner polls `has_news` with the door locked, between setting `ASLEEP` and parking. So it parks
//! only if it has seen no news, or if another thread is inside, which then sees `again` and wakes
//! it if needed.
//!
//! Checked by the models in `loom-tests/tests/models/door.rs`: `no_work_is_left_behind`,
//! `a_visitor_leaves_the_rest_to_the_owner`, `two_visitors_beside_the_owner`. The mutants `door_*`
//! remove each fence and the second try.

use crate::facade::atomic::{AtomicBool, Ordering, fence};
use crate::facade::{Mutex, MutexGuard, Spinner, lock, try_lock};
use crate::gate::Gate;
use std::time::Instant;

/// State that one thread at a time works on: its owner, or a visitor.
#[derive(Debug, Default)]
pub struct HandoffLock<T> {
    inside: Mutex<T>,
    /// Whether a visitor has found the door locked since this was last cleared.
    again: AtomicBool,
}

impl<T> HandoffLock<T> {
    /// Creates an unlocked door.
    pub fn new(inside: T) -> Self {
        Self {
            inside: Mutex::new(inside),
            again: AtomicBool::new(false),
        }
    }

    /// Locks the door. Blocks while another thread is inside. For the owner; it leaves by [`HandoffLock::leave`].
    pub fn enter(&self) -> MutexGuard<'_, T> {
        lock(&self.inside)
    }

    /// Locks the door if no thread is inside; otherwise makes that thread look for work once more.
    /// Never blocks. Call it after publishing work.
    pub fn try_enter(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(&self.inside).or_else(|| {
            // Release: pairs with the swap in `leave`; a thread that sees the flag sees the published work.
            self.again.store(true, Ordering::Release);
            // SeqCst: pairs with the fence in `leave`; either the thread inside sees `again`, or
            // our second try locks.
            fence(Ordering::SeqCst);
            try_lock(&self.inside)
        })
    }

    /// Locks the door if no thread is inside, only to read the state: a thread that is inside does
    /// not look for work again because of it.
    pub fn look(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(&self.inside)
    }

    /// Unlocks the door. Returns `true` if a visitor has found it locked meanwhile; the caller then
    /// looks for work once more, or wakes a thread that does.
    #[must_use = "a visitor that found the door locked relies on another look for work"]
    pub fn leave(&self, inside: MutexGuard<'_, T>) -> bool {
        drop(inside);
        // SeqCst: pairs with the fence in `try_enter`.
        fence(Ordering::SeqCst);
        // Relaxed, ordered by the fence: a load first, as the flag is seldom set. Acquire: pairs
        // with `try_enter`.
        self.again.load(Ordering::Relaxed) && self.again.swap(false, Ordering::Acquire)
    }

    /// Sleeps outside the door until `has_news` returns `true`, or a visitor found the door locked.
    /// For the owner. May return early. Blocks, but not beyond the deadline. A visitor that does
    /// all the work need not wake the gate. A visitor that leaves work to the owner makes
    /// `has_news` return `true`, leaves, and wakes the gate.
    pub fn idle(
        &self,
        gate: &Gate,
        spin: &mut Spinner,
        deadline: Option<Instant>,
        mut has_news: impl FnMut(&mut T) -> bool,
    ) {
        let look = || {
            // A thread that is inside looks for work once more, and wakes us if it leaves some to us.
            let mut inside = self.try_enter()?;
            let news = has_news(&mut inside);
            (self.leave(inside) || news).then_some(())
        };
        gate.wait_until_deadline(spin, deadline, look);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::facade::SpinPolicy;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_failed_try_is_reported_once_by_leave() {
        let door = HandoffLock::new(());
        let inside = door.enter();
        assert!(door.look().is_none());
        assert!(door.try_enter().is_none());
        assert!(door.leave(inside));
        let inside = door.try_enter().expect("no thread is inside");
        assert!(!door.leave(inside));
    }

    #[test]
    fn posted_work_is_taken_by_the_owner_or_by_a_visitor() {
        const EACH: usize = if cfg!(miri) { 50 } else { 20_000 };
        let shared = Arc::new((HandoffLock::new(0), Gate::new(), AtomicUsize::new(0)));
        let posters: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let (door, gate, posted) = &*shared;
                    for _ in 0..EACH {
                        posted.fetch_add(1, Ordering::Release);
                        gate.wake_unless(|| {
                            let Some(mut taken) = door.try_enter() else {
                                return true;
                            };
                            *taken = posted.load(Ordering::Acquire);
                            let is_last = *taken == 2 * EACH;
                            !(door.leave(taken) || is_last)
                        });
                    }
                })
            })
            .collect();
        let (door, gate, posted) = &*shared;
        let mut spin = Spinner::new(SpinPolicy::never());
        loop {
            let mut taken = door.enter();
            *taken = posted.load(Ordering::Acquire);
            let is_last = *taken == 2 * EACH;
            if !door.leave(taken) && is_last {
                break;
            }
            if !is_last {
                door.idle(gate, &mut spin, None, |taken| {
                    let now = posted.load(Ordering::Acquire);
                    now != *taken || now == 2 * EACH
                });
            }
        }
        posters.into_iter().for_each(|p| p.join().unwrap());
    }
}

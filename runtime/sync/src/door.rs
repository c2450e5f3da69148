//! A lock around state that its owner thread works on, and that another thread may work on while the owner sleeps.
//!
//! The owner sleeps at a [`Gate`] while there is nothing to do. Another thread that has published work tries the door once
//! and never blocks. If the door is shut, that thread sets `again`, and the thread inside looks around once more after it
//! has left:
//!
//! ```text
//!   visitor:  publish; try; [shut] again = true; fence; try        thread inside:  work; open; fence; again?
//! ```
//! Each side writes, fences, then reads what the other side wrote: either the visitor's second try finds the door open, or
//! the thread that left sees `again`. So a thread that was inside after the publication has seen the published work
//! (`door::nothing_is_left_behind`), and with [`Door::idle`] the owner sleeps only while that holds
//! (`door::who_steps_in_leaves_the_rest_to_the_owner`).

use crate::facade::atomic::{AtomicBool, Ordering, fence};
use crate::facade::{Mutex, MutexGuard, Spinner, lock, try_lock};
use crate::gate::Gate;
use std::time::Instant;

/// State that one thread at a time works on: its owner, or a visitor.
#[derive(Debug, Default)]
pub struct Door<T> {
    inside: Mutex<T>,
    /// A thread found the door shut since the last look.
    again: AtomicBool,
}

impl<T> Door<T> {
    /// A door with no thread inside.
    pub fn new(inside: T) -> Self {
        Self {
            inside: Mutex::new(inside),
            again: AtomicBool::new(false),
        }
    }

    /// Enters. Blocks while another thread is inside. For the owner; it leaves by [`Door::leave`].
    pub fn enter(&self) -> MutexGuard<'_, T> {
        lock(&self.inside)
    }

    /// Enters; if another thread is inside, has that thread look around once more. Never blocks. Call it after publishing work.
    pub fn try_enter(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(&self.inside).or_else(|| {
            // Release: who sees it sees what was published before.
            self.again.store(true, Ordering::Release);
            // SeqCst: pairs with the fence in `leave`; either the one inside sees `again`, or we find it gone.
            fence(Ordering::SeqCst);
            try_lock(&self.inside)
        })
    }

    /// Enters if no thread is inside, to look only: a thread that is inside does not look around again for this.
    pub fn look(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(&self.inside)
    }

    /// Leaves, and returns whether another thread found the door shut meanwhile. If so, the caller looks around once
    /// more, or wakes a thread that does.
    #[must_use = "a thread that found the door shut relies on another look"]
    pub fn leave(&self, inside: MutexGuard<'_, T>) -> bool {
        drop(inside);
        // SeqCst: pairs with the fence in `try_enter`.
        fence(Ordering::SeqCst);
        // Relaxed, ordered by the fence: a look first, the flag is seldom set. Acquire: pairs with `try_enter`.
        self.again.load(Ordering::Relaxed) && self.again.swap(false, Ordering::Acquire)
    }

    /// The owner's sleep, outside: until `has_news` returns true, or another thread found the door shut. May return
    /// early. Blocks, but not beyond the deadline. A visitor that does all the work need not wake the gate. A visitor
    /// that leaves work to the owner makes `has_news` return true, leaves, and wakes the gate.
    pub fn idle(
        &self,
        gate: &Gate,
        spin: &mut Spinner,
        deadline: Option<Instant>,
        mut has_news: impl FnMut(&mut T) -> bool,
    ) {
        let look = || {
            // A thread that is inside looks around once more, and wakes us if we are needed.
            let mut inside = self.try_enter()?;
            let news = has_news(&mut inside);
            (self.leave(inside) || news).then_some(())
        };
        match deadline {
            None => gate.wait_until(spin, look),
            Some(deadline) => _ = gate.wait_until_deadline(spin, deadline, look),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::facade::SpinPolicy;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn who_finds_it_shut_is_looked_for_once() {
        let door = Door::new(());
        let inside = door.enter();
        assert!(door.look().is_none());
        assert!(door.try_enter().is_none());
        assert!(door.leave(inside));
        let inside = door.try_enter().expect("no thread is inside");
        assert!(!door.leave(inside));
    }

    #[test]
    fn what_is_posted_is_taken_by_the_owner_or_by_who_posts() {
        const EACH: usize = if cfg!(miri) { 50 } else { 20_000 };
        let shared = Arc::new((Door::new(0), Gate::new(), AtomicUsize::new(0)));
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

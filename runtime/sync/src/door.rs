//! What one thread at a time is inside of: its owner, which sleeps at a gate while there is nothing to do, or a
//! thread that comes by and does the owner's work itself.
//!
//! Nobody who comes by waits at the door. Who finds it shut says so in `again`, and whoever is inside looks around
//! once more after it has left:
//!
//! ```text
//!   comes by:  publish; try; [shut] again = true; fence; try        inside:  work; open; fence; again?
//! ```
//! Each writes, fences, then reads what the other wrote: either the second try finds the door open, or the one who
//! left sees `again`. So what was published before the try is seen by a thread that was inside after that
//! (`door::nothing_is_left_behind`), and with [`Door::idle`] its owner sleeps only while that is so
//! (`door::who_steps_in_leaves_the_rest_to_the_owner`).

use crate::facade::atomic::{AtomicBool, Ordering, fence};
use crate::facade::{Mutex, MutexGuard, Spinner, lock, try_lock};
use crate::gate::Gate;
use crate::planted::{Bug, on};
use std::time::Instant;

/// What one thread at a time is inside of.
#[derive(Debug, Default)]
pub struct Door<T> {
    inside: Mutex<T>,
    /// A thread found the door shut since the last look.
    again: AtomicBool,
}

impl<T> Door<T> {
    /// Nobody is inside.
    pub fn new(inside: T) -> Self {
        Self {
            inside: Mutex::new(inside),
            again: AtomicBool::new(false),
        }
    }

    /// Enters, after whoever is inside. Blocks. For the owner; it leaves by [`Door::leave`].
    pub fn enter(&self) -> MutexGuard<'_, T> {
        lock(&self.inside)
    }

    /// Enters, or has whoever is inside look around once more. Never blocks. Call it after publishing work.
    pub fn try_enter(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(&self.inside).or_else(|| {
            // Release: who sees it sees what was published before.
            self.again.store(true, Ordering::Release);
            if on(Bug::DoorNoSecondTry) {
                return None;
            }
            if !on(Bug::DoorNoFence) {
                // SeqCst: pairs with the fence in `leave`; either the one inside sees `again`, or we find it gone.
                fence(Ordering::SeqCst);
            }
            try_lock(&self.inside)
        })
    }

    /// Enters if nobody is inside, to look only: whoever is inside is not asked for anything.
    pub fn look(&self) -> Option<MutexGuard<'_, T>> {
        try_lock(&self.inside)
    }

    /// Leaves, and says whether a thread found the door shut meanwhile: then the caller looks around once more,
    /// or has another thread do so.
    #[must_use = "who found the door shut relies on another look"]
    pub fn leave(&self, inside: MutexGuard<'_, T>) -> bool {
        drop(inside);
        if !on(Bug::DoorLeaverNoFence) {
            // SeqCst: pairs with the fence in `try_enter`.
            fence(Ordering::SeqCst);
        }
        // Relaxed, ordered by the fence: a look first, the flag is seldom set. Acquire: pairs with `try_enter`.
        self.again.load(Ordering::Relaxed) && self.again.swap(false, Ordering::Acquire)
    }

    /// The owner's sleep, outside: until `has_news` finds something inside, or another thread wants a look. May
    /// return early. Blocks, but not beyond the deadline. Who comes by and does all there is to do need not wake
    /// the gate; who leaves something to the owner lets `has_news` find it, leaves, and wakes the gate.
    pub fn idle(
        &self,
        gate: &Gate,
        spin: &mut Spinner,
        deadline: Option<Instant>,
        mut has_news: impl FnMut(&mut T) -> bool,
    ) {
        let look = || {
            // Whoever is inside looks around once more, and wakes us if we are needed.
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
        let inside = door.try_enter().expect("nobody is inside");
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

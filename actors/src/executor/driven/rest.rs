//! What a waiting thread does that finds nothing to do: it sleeps at the bell, or waits in the driver.
//!
//! # The bell
//! A waiting thread with nothing to do sleeps at a bell (I11):
//! ```text
//!  1 reads the number of rings       4 polls the answer, which keeps the bell as its waker
//!  2 arms the gate with the bell     5 sleeps until the bell has rung since 1, or a deadline
//!  3 steps
//! ```
//! A message, a drop or a control wakes the gate and so rings; so do a step or user code that did something, a job that
//! becomes due, and a completion through the answer's waker. What happens before 1 is seen by 3 and 4; what happens
//! after it rings and ends the sleep (I5).
//!
//! # The wait in the driver
//! A backend that works without being pumped ([`Backend::RUNS_WITHOUT_PUMP`]) rings nothing when a task completes. While
//! such tasks run, step 5 is a wait for the driver ([`Backend::completion_wait`]), outside the lock, until the next task of
//! any queue has completed. If the backend or the driver cannot wait, it is a sleep at the bell. Both end after [`NAP`] at
//! the latest:
//! ```text
//!  5a chooses the tasks: the first one in flight of each queue
//!  5b has the bell rung since 1? then returns
//!  5c waits in the driver until one of the tasks has completed, for at most NAP
//! ```
//! - Between 5b and the end of 5c the thread does not hear the bell, so a message of another thread or due user code may
//!   wait for [`NAP`]. That is why the wait is bounded.
//! - The caller does not sleep through the completion of its own task, even if another thread pumps it. If that thread
//!   publishes the cursor before 5a, it has rung before 5b, through the answer's waker; otherwise 5a chooses that task or
//!   an earlier one, and 5c ends with it.
//! - A loss ends 5c. The thread then naps at the bell, and the next pump reports the loss (I5).
//! - No thread waits in the driver while no task runs, nor while a thread is inside (I11). That thread may be busy for
//!   long, with user code for example, and publishes nothing meanwhile: a wait for a task that has completed would return
//!   at once, again and again.
//!
//! # Example: a wait beside a pump
//! ```text
//!  thread A waits for a read                    thread B pumps a long kernel
//!                                               enters; the backend runs the kernel
//!  4 rings so far; arms the gate
//!  steps: the lock is taken, marks it wanted
//!  polls: no answer, leaves the bell as waker
//!  sleeps
//!                                               publishes the cursor: A's waker rings (5)
//!                                               leaves; it was wanted: one more turn; rings (6)
//!  wakes, takes the answer
//! ```
//!
//! The bell's model is in `loom-tests`; `driven/tests` checks the sleeps, `vulkan_faults` the waits in the driver.

use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_protocol::Backend;
use millstream_sync::facade::atomic::Ordering;

use super::Driven;
use crate::executor::Executor;

/// How long a waiting thread sleeps at a time while the backend works without being pumped: in the driver, or at the bell.
pub(super) const NAP: Duration = Duration::from_micros(50);

impl<B: Backend> Executor<B> {
    /// Returns the deadline of the next task that waits. If a thread is inside, it rings when it leaves.
    fn next_deadline(&self, driven: &Driven) -> Option<Instant> {
        let core = self.door.look().or_else(|| {
            // Relaxed: the door orders it. Either the thread inside finds the door tried and then reads this, or
            // `try_enter` finds that it has left.
            driven.deadline_wanted.store(true, Ordering::Relaxed);
            self.door.try_enter()
        })?;
        self.inside(core, |core| {
            let (actor, _) = core.parts.as_ref()?;
            actor.server.next_deadline()
        })
    }

    /// Returns whether the backend works without being pumped, so that nothing rings when a task completes. `None` if a
    /// thread is inside, since the backend cannot be checked then.
    pub(crate) fn has_running_tasks(&self) -> Option<bool> {
        if !B::RUNS_WITHOUT_PUMP {
            return Some(false);
        }
        let core = self.door.look()?;
        Some(self.inside(core, |core| {
            match &mut core.parts {
                Some((actor, _)) => {
                    !actor.server.is_lost() && actor.server.device.backend.has_running_tasks()
                }
                None => core
                    .remainder
                    .as_ref()
                    .is_some_and(|remainder| remainder.has_running_tasks()),
            }
        }))
    }

    /// Sleeps, after a `step` that did nothing, until there may be something to do: see `ComputeChannel::rest`.
    pub(crate) fn rest_after(
        &self,
        step: impl Fn() -> bool,
        deadline: Option<Instant>,
        ready: &mut dyn FnMut(&Waker) -> bool,
    ) {
        let Some(driven) = &self.driven else { return };
        let Driven {
            bell, bell_waker, ..
        } = driven;
        // Everything that happens from here on rings.
        let heard = bell.heard();
        self.gate.arm(bell_waker);
        if !step() && !ready(bell_waker) {
            // A task's own deadline is something to do as well.
            let until = deadline.into_iter().chain(self.next_deadline(driven)).min();
            let running = self.has_running_tasks();
            if running == Some(false) {
                bell.sleep(heard, until);
                return;
            }
            let now = Instant::now();
            let nap = until.map_or(NAP, |until| NAP.min(until.saturating_duration_since(now)));
            let waits = running == Some(true);
            if !(waits && self.wait_in_driver(nap, &|| bell.heard() != heard)) {
                bell.sleep(heard, Some(now + nap));
            }
        }
    }

    /// Waits in the driver, outside the lock, for the next completion. Returns `false` if that is not possible.
    pub(crate) fn wait_in_driver(&self, budget: Duration, is_over: &dyn Fn() -> bool) -> bool {
        let driven = self.driven.as_ref();
        let wait = driven.and_then(|driven| driven.completion_wait.as_ref());
        wait.is_some_and(|wait| wait.wait(budget, is_over))
    }
}

//! Callers that take the turns of a sleeping device thread.
//!
//! Waking the device thread costs a caller more than a turn, and so does waking the worker of a queue for a small
//! task. So a caller that is about to wait takes the turn itself, if no thread is inside:
//!
//! ```text
//!   caller, in place of a wake                      device thread
//!                                                   enters; turns until nothing is left
//!                                                   prepares to idle: registers at points; notes its timer; leaves
//!                                                   sleeps at the gate
//!   publishes its message
//!   thread asleep, and a wait is expected?
//!   enters; turns; runs small tasks
//!   prepares to idle in the thread's place; leaves
//!   anything left? sets `is_owner_due`, leaves,
//!   and wakes the thread                            woken: enters, turns until nothing is left
//! ```
//! The device thread sleeps as if callers did not exist: every event that would wake it still does, since the points
//! that a caller waits for are registered with the thread's own waker. So no wake is skipped that anything depends on.
//!
//! A caller leaves the rest to the thread after [`TURNS_MAX`] turns, if the device is closing or lost, if a timer is
//! earlier than the one the thread sleeps for, and if a turn panics. A caller never blocks here: if a thread is inside,
//! the [`HandoffLock`] makes that thread look around once more, so the published message is seen either way.
//!
//! # Which thread does the work is a guess
//! [`WaitPredictor`] guesses whether a wait follows, and whether it follows at once; then the caller also runs larger
//! tasks, after it has left the device ([`Held`]). A wrong guess only means that another thread does the work.
//!
//! Wakers that users left with the device are woken by its own threads: the caller of a launch may hold a lock that
//! such a waker takes. So from the first waker on callers do not step in. A caller may be inside when the first one is
//! registered; it collects the wakers that its turns reach ([`deferred_wakes`](millstream_sync::deferred_wakes)) and
//! leaves them to the device thread ([`LeftWakers`]):
//!
//! ```text
//!   caller that steps in                       device thread
//!   turns; collects a waker
//!   adds it to `left_wakers`
//!   leaves, and wakes the thread               looks around; leaves the device; wakes what is in `left_wakers`
//! ```
//! The device thread collects them as well, and wakes them after it has left: a thread that enters the device may hold a
//! lock that a waker takes. While a waker waits, it takes no further turn before it has left.
//!
//! # Custom tasks whose code runs within a call of the backend
//! That code may take a lock that a caller holds, so no caller may issue such a task ([`Backend::CALLS_RUN_CODE`]). Before
//! the first one is sent, its sender ends stepping in for good:
//!
//! ```text
//!   sender of a custom task                    caller that steps in
//!   has_code = true
//!   enters the door, leaves                    enters; has_code? leaves without a turn
//!   is_code_sent = true (Release)              (if it entered first, the sender waits until it has left)
//!   sends the task
//! ```
//! The door's lock orders the two. The sender may block at the door, but not for user code: until `is_code_sent` no
//! custom task has been sent, so the thread inside runs none. Later senders load `is_code_sent` (Acquire) and pass.
//!
//! The model `door` of `loom-tests` checks the handshake; `stepping_in/tests` count every wake, and the module
//! `stepping_in` of the conformance suite compares results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

use millstream_protocol::{
    Backend, Held, Large, StepIn,
    marks::{is_runtime_thread, mark_runtime_thread},
};
use millstream_sync::deferred_wakes::DeferredWakes;
use millstream_sync::facade::atomic::Ordering;
use millstream_sync::payload;

use crate::device_actor::DeviceActor;
use crate::executor::{Core, Executor};
use crate::step;

#[cfg(test)]
mod tests;

/// Time that a caller which waits at once spends on larger tasks. Waking a thread and being woken takes about 50 us, so
/// this bounds the cost of a wrong guess, not the gain of a right one.
const BUDGET: Duration = Duration::from_millis(2);

/// Turns that a caller takes before it leaves the rest to the device thread.
const TURNS_MAX: u32 = 16;

/// Rounds that a caller makes for other threads that found it inside.
const ROUNDS_MAX: u32 = 4;

impl<B: Backend> Core<B> {
    /// Takes a caller's turns. Returns `true` if nothing is left for the device thread. Adds the queues that received
    /// tasks to `queues`.
    fn step(&mut self, waker: &Waker, large: Large, queues: &mut u64) -> bool {
        let _mark = mark_runtime_thread();
        let Some((actor, effects)) = &mut self.parts else {
            // The thread of a closed device may wait for the end of a task that this caller has reported.
            return false;
        };
        actor.end_idle();
        let mut turns = TURNS_MAX;
        loop {
            if actor.server.is_lost() {
                return false;
            }
            actor.server.device.backend.defer_start();
            while turns > 0 && actor.turn(effects) {
                turns -= 1;
            }
            let done = actor.server.device.backend.start_deferred(large);
            *queues |= done.queues;
            if !done.ran || turns == 0 {
                break;
            }
        }
        if turns == 0 || actor.is_closing() || actor.server.is_lost() {
            return false;
        }
        let is_idle = !actor.prepare_idle(waker, effects);
        let timer = actor.server.next_deadline();
        is_idle && timer.is_none_or(|timer| self.sleeps_until.is_some_and(|until| until <= timer))
    }

    /// Handles a panic of a turn. Tasks that were issued before it are still started.
    #[cold]
    fn breaks(&mut self) {
        self.is_broken = true;
        if let Some((actor, _)) = &mut self.parts {
            let begun = || _ = actor.server.device.backend.start_deferred(Large::Begin);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(begun)) {
                payload::end(panic);
            }
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        let actor = self.parts.as_ref().map(|(actor, _)| actor);
        self.is_owner_due || self.is_broken || actor.is_some_and(DeviceActor::has_work)
    }
}

impl<B: Backend> Executor<B> {
    /// Turns the device on the calling thread. Returns `true` if the device thread need not be woken. Never waits.
    fn step_in(&self, large: Large) -> bool {
        step::step_in(&self.gate, || self.take_rounds(large))
    }

    fn take_rounds(&self, large: Large) -> bool {
        for round in 1..=ROUNDS_MAX {
            // A thread that is inside looks around once more after leaving.
            let Some(mut core) = self.door.try_enter() else {
                return true;
            };
            // Relaxed: the door's lock orders it; see the module.
            if core.is_owner_due
                || self.has_code.load(Ordering::Relaxed)
                || self.left_wakers.has_any()
            {
                // The device thread is woken and will look at everything; leave the door open for it.
                _ = self.door.leave(core);
                return false;
            }
            let deferred = DeferredWakes::begin();
            let mut queues = 0;
            let step = || core.step(&self.waker, large, &mut queues);
            let stepped = catch_unwind(AssertUnwindSafe(step));
            let is_rest = stepped.unwrap_or_else(|panic| {
                payload::end(panic);
                core.breaks();
                false
            });
            let leaves_wakers = self.left_wakers.leave(deferred.take());
            core.is_owner_due |= !is_rest || leaves_wakers || round == ROUNDS_MAX;
            self.predictor.issues(queues);
            let is_owner_due = core.is_owner_due;
            let again = self.door.leave(core);
            if is_owner_due {
                return false;
            }
            if !again {
                return true;
            }
        }
        false
    }

    /// Runs held tasks within `budget`. Returns `true` if the device thread need not be woken for them.
    fn run_held(&self, held: &dyn Held, budget: Duration) -> bool {
        let deferred = DeferredWakes::begin();
        let ran = catch_unwind(AssertUnwindSafe(|| held.run(budget)));
        let ran = ran.map_err(|panic| {
            payload::end(panic);
            self.inside(self.door.enter(), |core| core.is_broken = true);
        });
        !self.left_wakers.leave(deferred.take()) && ran.is_ok()
    }

    /// Returns the time since the device was opened.
    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Whether the calling thread may run the device. Not if it may be inside already; and not once users' wakers are
    /// registered: a waker only schedules, but may take a lock that the caller holds.
    fn may_step_in(&self) -> bool {
        // Relaxed: set before the first waker is registered. A turn that had begun by then leaves it to the device thread.
        // `has_code` is loaded again behind the door.
        !is_runtime_thread()
            && self.process.is_current()
            && !self.has_wakers.load(Ordering::Relaxed)
            && !self.has_code.load(Ordering::Relaxed)
    }

    /// Whether a caller steps in with a message at this tail of the mailbox.
    fn expects_a_wait(&self, tail: u64) -> bool {
        match B::BATCHES_ARE_COSTLY {
            false => self.predictor.expects_a_wait(tail),
            true => self.predictor.expects_a_wait_next(tail),
        }
    }

    /// Notes that a caller waits for an answer, which may be ready already.
    pub(crate) fn waits(&self) {
        self.predictor.waits(self.sender.tail(), || self.now());
    }

    /// Does pending work for a caller that waits, unless another thread does it.
    pub(crate) fn step_in_to_wait(&self) {
        if self.may_step_in() && !self.step_in(Large::Begin) {
            self.gate.wake();
        }
    }

    /// Notes that a user's waker will be left with the device: callers no longer step in.
    pub(crate) fn leaves_waker(&self) {
        // Relaxed: see `may_step_in`. Loads first, since the cache line is shared and this is set once.
        if !self.has_wakers.load(Ordering::Relaxed) {
            self.has_wakers.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that a custom task will be sent. Once this returns, no caller steps in if the backend runs its code within a
    /// call. May wait for a caller that is inside.
    pub(crate) fn sends_code(&self) {
        // Acquire: pairs with the store below.
        if !B::CALLS_RUN_CODE || self.is_code_sent.load(Ordering::Acquire) {
            return;
        }
        self.has_code.store(true, Ordering::Relaxed);
        self.inside(self.door.enter(), |_| ());
        self.is_code_sent.store(true, Ordering::Release);
    }
}

impl<B: Backend> StepIn for Executor<B> {
    fn step_in_for_a_wake(&self) -> bool {
        if !self.expects_a_wait(self.sender.tail()) || !self.may_step_in() {
            return false;
        }
        let Some(held) = &self.held else {
            // Whether the wait comes at once does not matter then, so read no clock.
            return self.step_in(Large::Begin);
        };
        let is_rest = match self.predictor.expects_it_at_once(|| self.now()) {
            true => {
                let is_rest = self.step_in(Large::Hold);
                // The device thread is woken after this, so run nothing long before that.
                let budget = if is_rest { BUDGET } else { Duration::ZERO };
                is_rest & self.run_held(&**held, budget)
            }
            false => self.step_in(Large::Begin),
        };
        self.predictor.leaves(self.now());
        is_rest
    }

    fn step_in_for_an_end(&self) -> bool {
        // The thread does not wait for the device itself, so it runs nothing large.
        self.expects_a_wait(self.sender.tail()) && self.may_step_in() && self.step_in(Large::Begin)
    }
}

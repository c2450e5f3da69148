//! A device without a thread: its owner and waiting callers run it.
//!
//! # What runs when, and under which lock
//! Messages go through the same mailbox as on a device with threads, so both kinds of device have one total order of
//! messages (I1). The lock is the door of the [`Executor`]; `Inside` marks the thread that holds it.
//!
//! | code | runs when | inside the lock |
//! | --- | --- | --- |
//! | admission and issuing (`Core::take_messages`) | a pump, a wait, a full mailbox | yes |
//! | kernels (`Backend::pump`) | a pump, a wait | yes |
//! | host functions, callbacks, destructors (`run_user_code`) | after a step | no |
//!
//! The thread inside never waits, neither for room nor for user code (decision 29). A kernel that finds the mailbox
//! full gets [`Refusal::NoWait`](millstream_protocol::Refusal::NoWait). User code runs outside the lock, so it may submit. If it finds the mailbox full, its
//! thread takes the messages and runs neither kernels nor other user code meanwhile, so user code never nests.
//!
//! # A step
//! Try the lock; if it is free, take a turn and leave. If another thread found the lock taken meanwhile, take one more
//! turn; if that thread wants the next deadline, ring; if it wants to close, close. Ring if anything was done. Then run
//! due user code, within what the kernels have left of the budget (on a simulated device a number of jobs). A thread that
//! finds the lock taken leaves its work to the thread inside.
//!
//! # Waiting
//! See `rest`: a waiting thread drives the device, and sleeps if there is nothing to do, at a bell or in the driver.
//!
//! # Closing
//! See `closing`: no thread exists that could wait for what a close leaves behind.
//!
//! The models `bell`, `door` and `gate` and the program `actors` of `loom-tests` check the handshakes; `driven/tests`
//! and `tests/alone/driven_frame.rs` of the workspace check sleeps, and the conformance suite runs every test on driven
//! devices.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use millstream_protocol::marks::{mark_runtime_thread, mark_user_code};
use millstream_protocol::{Backend, CompletionWait, Report};
use millstream_sync::bell::Bell;
use millstream_sync::deferred_wakes::{self, DeferredWakes};
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{THREADS, lock, thread, with_stack};
use millstream_sync::thread_flag;

use super::closing::{Attempt, Remainder};
use super::{Core, Executor};
use crate::effects::UserCode;

mod closing;
mod rest;
#[cfg(test)]
mod tests;

/// How long one step of a waiting thread lets the backend run before the thread checks for its answer.
pub(crate) const DRIVE_BUDGET: Duration = Duration::from_micros(200);

/// A budget without a limit.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of jobs of user code in one step of a simulated device. A job may make further ones due, so there
/// must be some limit.
const SIMULATED_JOBS_MAX: usize = 1_000;

/// What the threads that run a driven device share.
pub(crate) struct Driven {
    /// Where threads sleep that wait and find nothing to do.
    pub(crate) bell: Arc<Bell>,
    /// The bell as a waker, to be left with other events that end a sleep.
    bell_waker: Waker,
    /// The device was closed while a thread was inside; that thread completes the close when it leaves.
    pub(crate) close_pending: AtomicBool,
    /// A thread could not read the next deadline; the thread inside rings when it leaves.
    deadline_wanted: AtomicBool,
    /// How a thread waits for running tasks; `None` if it polls.
    completion_wait: Option<Arc<dyn CompletionWait>>,
    /// Code of the user waits for the device without driving it. In a model every call runs the device from then on.
    is_awaited: AtomicBool,
}

impl Driven {
    pub(crate) fn new(completion_wait: Option<Arc<dyn CompletionWait>>) -> Self {
        let bell = Arc::new(Bell::new());
        Self {
            bell_waker: Waker::from(bell.clone()),
            bell,
            close_pending: AtomicBool::new(false),
            deadline_wanted: AtomicBool::new(false),
            completion_wait,
            is_awaited: AtomicBool::new(false),
        }
    }
}

impl<B: Backend> Core<B> {
    /// Takes one turn of everything. Returns `true` if anything was done.
    pub(crate) fn turn(&mut self, budget: Duration) -> bool {
        with_stack(|| self.turn_here(budget))
    }

    fn turn_here(&mut self, budget: Duration) -> bool {
        let mut worked = self.take_messages();
        let _mark = mark_runtime_thread();
        let _inside = InsideMark::enter();
        let Some((actor, effects)) = &mut self.parts else {
            let ended = |remainder: &mut Arc<Remainder<B>>| remainder.free(false) != Attempt::InUse;
            return self.remainder.take_if(ended).is_some();
        };
        if !actor.server.is_lost() {
            worked |= actor.server.device.backend.pump(budget);
        }
        worked |= actor.turn(effects);
        worked | effects.collect()
    }

    /// Takes the device's own turn: makes decisions, and runs no code of users.
    pub(crate) fn take_messages(&mut self) -> bool {
        let _mark = mark_runtime_thread();
        let _inside = InsideMark::enter();
        let parts = self.parts.as_mut();
        parts.is_some_and(|(actor, effects)| actor.turn(effects))
    }
}

impl<B: Backend> Executor<B> {
    /// Takes turns of everything: one, and one more whenever a thread found the device busy; then runs user code. Returns
    /// `true` if anything was done. If another thread is inside, leaves the turns to it.
    pub(crate) fn step(&self, budget: Duration) -> bool {
        // Kernels take the first part of it: user code gets what they leave, or what a short budget leaves out.
        let until = Instant::now() + budget.clamp(DRIVE_BUDGET, LONG);
        self.turn_for(budget) | self.run_user_code(usize::MAX, Some(until))
    }

    fn turn_for(&self, mut budget: Duration) -> bool {
        let turn = |core: &mut Core<B>| core.turn(std::mem::replace(&mut budget, Duration::ZERO));
        self.turn_with(false, turn).0
    }

    /// A step of a caller that waits until `deadline`. Runs user code only if there is nothing else to do, and then one
    /// job: the caller looks for its answer and at its deadline before each.
    pub(crate) fn step_timed(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        self.turn_for(DRIVE_BUDGET.min(left))
            || (!thread::is_past(deadline) && self.run_user_code(1, None))
    }

    /// Takes turns with `turn`: one, and one more whenever a thread found the device busy. Wakes users' wakers after each,
    /// outside the lock: a thread that waits at the door may hold a lock that a waker takes. Returns whether anything was
    /// done, and whether a thread found the device busy.
    pub(crate) fn turn_with(
        &self,
        wait: bool,
        mut turn: impl FnMut(&mut Core<B>) -> bool,
    ) -> (bool, bool) {
        let (mut worked, mut again) = (false, false);
        let Some(driven) = self.driven.as_ref().filter(|_| self.process.is_current()) else {
            return (worked, again);
        };
        self.edges.acquire();
        loop {
            let deferred = DeferredWakes::begin();
            let core = match wait {
                true => Some(self.door.enter()),
                false => self.door.try_enter(),
            };
            let Some(mut core) = core else { break };
            worked |= turn(&mut core);
            let is_wanted = self.door.leave(core);
            // What the wakers begin may need another turn.
            worked |= deferred_wakes::has_any();
            drop(deferred);
            if !is_wanted {
                break;
            }
            again = true;
        }
        if worked {
            self.edges.pass_on();
        }
        // Relaxed: the thread that sets these tries the door afterwards.
        let is_wanted = again && driven.deadline_wanted.swap(false, Ordering::Relaxed);
        if worked || is_wanted {
            driven.bell.ring();
        }
        if again && driven.close_pending.swap(false, Ordering::Relaxed) {
            self.shut_down(None);
        }
        (worked, again)
    }

    /// Runs due user code, outside the lock: at least one job, and at most `jobs_max` that begin before the time `until`. On a
    /// simulated device ([`Backend::IS_SIMULATED`]) a number of jobs takes the place of the time.
    pub(crate) fn run_user_code(&self, mut jobs_max: usize, mut until: Option<Instant>) -> bool {
        let UserCode::Due(due) = &self.user_code else {
            return false;
        };
        if !self.process.is_current() {
            return false;
        }
        if B::IS_SIMULATED && until.take().is_some() {
            jobs_max = SIMULATED_JOBS_MAX;
        }
        let _mark = mark_user_code();
        let mut worked = false;
        for _ in 0..jobs_max {
            let Some(code) = ({ lock(due).pop_front() }) else {
                break;
            };
            code.run();
            worked = true;
            if until.is_some_and(thread::is_past) {
                break;
            }
        }
        if worked {
            self.edges.pass_on();
            self.ring();
        }
        worked
    }
}

/// An executor without its backend type, for the driver.
pub(crate) trait Drive: Send + Sync {
    /// Takes one step within the budget of a pump that began now.
    fn step(&self, budget: Duration) -> bool;

    /// Whether the backend works on tasks without being pumped. Also if a thread is inside.
    fn has_running_tasks(&self) -> bool;

    /// Closes the device: finishes what can finish until the deadline, answers everything, and reports
    /// what is left. Must be called outside the device. Reports nothing if the device was closed before.
    fn shut_down(&self, deadline: Option<Instant>) -> Report;

    /// Returns the number of threads that sleep at the bell.
    #[cfg(test)]
    fn sleepers(&self) -> usize;
}

impl<B: Backend> Drive for Executor<B> {
    fn step(&self, budget: Duration) -> bool {
        Self::step(self, budget)
    }

    fn has_running_tasks(&self) -> bool {
        Self::has_running_tasks(self).unwrap_or(true)
    }

    fn shut_down(&self, deadline: Option<Instant>) -> Report {
        Self::shut_down(self, deadline)
    }

    #[cfg(test)]
    fn sleepers(&self) -> usize {
        self.driven
            .as_ref()
            .map_or(0, |driven| driven.bell.sleepers())
    }
}

// The mark of the thread that is inside a driven device.

thread_flag! {
    /// Whether the thread is inside a driven device, under its lock.
    Inside
}

/// Returns `true` if the calling thread is inside a driven device.
pub(crate) fn is_inside() -> bool {
    Inside::get()
}

/// Marks the thread as inside the device until dropped.
struct InsideMark;

impl InsideMark {
    fn enter() -> Self {
        Inside::set(true);
        Self
    }
}

impl Drop for InsideMark {
    fn drop(&mut self) {
        Inside::set(false);
    }
}

// A driven device inside a user's model, where no thread pumps. Once code of the user waits for the device without
// driving it, every call runs it until there is nothing to do, and so does everything that ends without a call (a
// guard, a handle). Outside of models this does nothing.

impl<B: Backend> Executor<B> {
    /// Notes that code of the user waits for the device without driving it.
    pub(crate) fn set_awaited(self: &Arc<Self>) {
        if let Some(driven) = &self.driven {
            // Relaxed: read in models only, in which one thread runs at a time.
            driven.is_awaited.store(true, Ordering::Relaxed);
            self.run_model();
        }
    }

    /// In a model, runs the device on the calling thread until there is nothing to do, if code of the user waits for
    /// it.
    pub(crate) fn run_model(self: &Arc<Self>) {
        if THREADS {
            return;
        }
        let Some(driven) = &self.driven else { return };
        // Relaxed: see `set_awaited`.
        if !driven.is_awaited.load(Ordering::Relaxed) || is_inside() {
            return;
        }
        let waker = Waker::from(Arc::new(ModelWaker(Arc::downgrade(self))));
        loop {
            // Armed before the step, so that no wake during the step is missed.
            self.gate.arm(&waker);
            if !self.step(DRIVE_BUDGET) {
                break;
            }
        }
    }
}

/// Runs the device of a model when something ends without a message: a guard, a handle.
struct ModelWaker<B: Backend>(Weak<Executor<B>>);

impl<B: Backend> Wake for ModelWaker<B> {
    fn wake(self: Arc<Self>) {
        if let Some(device) = self.0.upgrade() {
            device.ring();
            device.run_model();
        }
    }
}

//! A device without a thread: its owner and waiting callers run it.
//!
//! # What runs when, and under which lock
//! Messages go through the same mailbox as on a device with threads, so both kinds of device have one total order of
//! messages (I1). The lock is a [`HandoffLock`] around [`Core`]; `Inside` marks the thread that holds it.
//!
//! | code | runs when | inside the lock |
//! | --- | --- | --- |
//! | admission and issuing (`Core::take_messages`) | a pump, a wait, a full mailbox | yes |
//! | kernels (`Backend::pump`) | a pump, a wait | yes |
//! | host functions, callbacks, destructors (`run_user_code`) | after a step | no |
//!
//! The thread inside never waits, neither for room nor for user code (decision 29). A kernel that finds the mailbox
//! full gets [`Refusal::NoWait`]. User code runs outside the lock, so it may submit. If it finds the mailbox full, its
//! thread takes the messages and runs neither kernels nor other user code meanwhile, so user code never nests.
//!
//! # A step
//! Try the lock; if it is free, take a turn and leave. If another thread found the lock taken meanwhile, take one more
//! turn; if that thread wants the next deadline, ring; if it wants to close, close. Ring if anything was done. Then run
//! due user code, within what the kernels have left of the budget (on a simulated device a number of jobs). A thread that finds the lock taken leaves
//! its work to the thread inside.
//!
//! # Waiting
//! See `rest`: a waiting thread drives the device, and sleeps if there is nothing to do, at a bell or in the driver.
//!
//! # Closing
//! See `closing`: no thread exists that could wait for what a close leaves behind.
//!
//! The models `bell`, `door` and `gate` and the program `actors` of `loom-tests` check the handshakes; `driven/tests`
//! and `tests/driven_frame.rs` of the workspace check sleeps, and the conformance suite runs every test on driven
//! devices.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::backend::{Backend, CompletionWait};
use millstream_protocol::device_status::DeviceStatus;
use millstream_protocol::marks::{mark_runtime_thread, mark_user_code};
use millstream_protocol::message::Task;
use millstream_protocol::process::Process;
use millstream_protocol::report::Report;
use millstream_sync::deferred_wakes::{self, DeferredWakes};
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Edges, Mutex, lock, thread, with_stack};
use millstream_sync::handoff_lock::HandoffLock;
use millstream_sync::mailbox::Sender;

use crate::actor::DeviceActor;
use crate::control::ControlSender;
use crate::gc::Gc;

mod channel;
mod closing;
mod driver;
mod inline;
mod inside;
mod model;
mod rest;
#[cfg(test)]
mod tests;

use closing::{Attempt, Remainder};
pub use driver::Driver;
pub(crate) use driver::DriverShared;
use inline::{Idle, Inline, UserJob};
use inside::InsideMark;
use rest::NAP;

/// How long one step of a waiting thread lets the backend run before the thread checks for its answer.
const DRIVE_BUDGET: Duration = Duration::from_micros(200);

/// The maximum number of jobs of user code in one step of a simulated device. A job may make further ones due, so there
/// must be some limit.
const SIMULATED_JOBS_MAX: usize = 1_000;

/// How much of the due user code a thread runs. A job that has begun is not interrupted.
#[derive(Clone, Copy)]
enum UserCode {
    /// One job.
    One,
    /// At least one job, and all that begin before this time has passed since the first.
    For(Duration),
    /// At least one job, and all that begin before this time. `None` if that is too far away.
    Until(Option<Instant>),
    /// All jobs, until none is due.
    All,
}

/// The state that a turn needs.
struct Core<B: Backend> {
    /// `None` once the device is closed.
    actor: Option<DeviceActor<B>>,
    /// What the close has left behind, until it is freed.
    remainder: Option<Arc<Remainder<B>>>,
    inline: Inline,
}

impl<B: Backend> Core<B> {
    /// Takes one turn of everything. Returns `true` if anything was done.
    fn turn(&mut self, budget: Duration) -> bool {
        with_stack(|| self.turn_here(budget))
    }

    fn turn_here(&mut self, budget: Duration) -> bool {
        let mut worked = self.take_messages();
        let _mark = mark_runtime_thread();
        let _inside = InsideMark::enter();
        let Self {
            actor,
            remainder,
            inline,
        } = self;
        let Some(actor) = actor else {
            return remainder
                .take_if(|remainder| remainder.free(false) != Attempt::InUse)
                .is_some();
        };
        if !actor.server.is_lost() {
            worked |= actor.server.backend_mut().pump(budget);
        }
        worked |= actor.turn(inline);
        worked | inline.collect()
    }

    /// Takes the device's own turn: makes decisions, and runs no code of users.
    fn take_messages(&mut self) -> bool {
        let _mark = mark_runtime_thread();
        let _inside = InsideMark::enter();
        let Self { actor, inline, .. } = self;
        actor.as_mut().is_some_and(|actor| actor.turn(inline))
    }
}

/// The channel of a driven device.
pub(crate) struct DirectChannel<B: Backend>(Arc<Direct<B>>);

/// State shared by the clones of the channel.
pub(crate) struct Direct<B: Backend> {
    /// A child that was forked since runs nothing: a thread may have been inside at the fork, and drivers do not survive it.
    process: Process,
    core: HandoffLock<Core<B>>,
    idle: Idle,
    sender: Sender<Task>,
    due: Arc<Mutex<VecDeque<UserJob>>>,
    gone: Arc<DeviceStatus>,
    edges: Arc<Edges>,
    /// The device was closed while a thread was inside; that thread completes the close when it leaves.
    close_pending: AtomicBool,
    /// A thread could not read the next deadline; the thread inside rings when it leaves.
    deadline_wanted: AtomicBool,
    /// How a thread waits for running tasks; `None` if it polls.
    completion_wait: Option<Arc<dyn CompletionWait>>,
}

impl<B: Backend> Clone for DirectChannel<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> Deref for DirectChannel<B> {
    type Target = Direct<B>;

    fn deref(&self) -> &Direct<B> {
        &self.0
    }
}

impl<B: Backend> DirectChannel<B> {
    pub(crate) fn new(
        actor: DeviceActor<B>,
        sender: Sender<Task>,
        device: ControlSender,
        gc: Gc,
        gone: Arc<DeviceStatus>,
        edges: Arc<Edges>,
    ) -> Self {
        let completion_wait = actor.server.backend().completion_wait();
        let due = Arc::new(Mutex::new(VecDeque::new()));
        let idle = Idle::new(device.gate.clone());
        let inline = Inline {
            gc,
            due: due.clone(),
            device,
        };
        let core = HandoffLock::new(Core {
            actor: Some(actor),
            remainder: None,
            inline,
        });
        Self(Arc::new(Direct {
            process: Process::current(),
            core,
            idle,
            sender,
            due,
            gone,
            edges,
            close_pending: AtomicBool::new(false),
            deadline_wanted: AtomicBool::new(false),
            completion_wait,
        }))
    }
}

impl<B: Backend> Direct<B> {
    /// Calls `f` with the actor of a device that was just opened.
    pub(crate) fn with_actor<R>(&self, f: impl FnOnce(&DeviceActor<B>) -> R) -> R {
        let core = self.core.enter();
        match &core.actor {
            Some(actor) => f(actor),
            None => unreachable!("a device is closed only after it was opened"),
        }
    }

    /// Takes turns of everything: one, and one more whenever a thread found the device busy; then runs user code. Returns
    /// `true` if anything was done. If another thread is inside, leaves the turns to it.
    fn step_with(&self, mut budget: Duration, until: UserCode) -> bool {
        let (worked, _) = self.turn_with(false, |core| {
            core.turn(std::mem::replace(&mut budget, Duration::ZERO))
        });
        worked | self.run_user_code(until)
    }

    /// A step of a caller that waits until `deadline`. Runs user code only if there is nothing else to do, and then one
    /// job: the caller looks for its answer and at its deadline before each.
    fn step_timed(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut budget = DRIVE_BUDGET.min(left);
        let (worked, _) = self.turn_with(false, |core| {
            core.turn(std::mem::replace(&mut budget, Duration::ZERO))
        });
        worked || (!thread::is_past(deadline) && self.run_user_code(UserCode::One))
    }

    /// Takes turns with `turn`: one, and one more whenever a thread found the device busy. Wakes users' wakers after each,
    /// outside the lock: a thread that waits at the door may hold a lock that a waker takes. Returns whether anything was
    /// done, and whether a thread found the device busy.
    fn turn_with(&self, wait: bool, mut turn: impl FnMut(&mut Core<B>) -> bool) -> (bool, bool) {
        let (mut worked, mut again) = (false, false);
        if !self.process.is_current() {
            return (worked, again);
        }
        self.edges.acquire();
        loop {
            let deferred = DeferredWakes::begin();
            let core = match wait {
                true => Some(self.core.enter()),
                false => self.core.try_enter(),
            };
            let Some(mut core) = core else { break };
            worked |= turn(&mut core);
            let is_wanted = self.core.leave(core);
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
        let is_wanted = again && self.deadline_wanted.swap(false, Ordering::Relaxed);
        if worked || is_wanted {
            self.idle.bell.ring();
        }
        if again && self.close_pending.swap(false, Ordering::Relaxed) {
            self.shut_down(None);
        }
        (worked, again)
    }

    /// Runs due user code, outside the lock. On a simulated device ([`Backend::IS_SIMULATED`]) a time is a number of jobs.
    fn run_user_code(&self, limit: UserCode) -> bool {
        if !self.process.is_current() {
            return false;
        }
        let _mark = mark_user_code();
        let jobs_max = match limit {
            UserCode::One => 1,
            UserCode::For(_) | UserCode::Until(_) if B::IS_SIMULATED => SIMULATED_JOBS_MAX,
            UserCode::For(_) | UserCode::Until(_) | UserCode::All => usize::MAX,
        };
        let (mut worked, mut until) = (false, None);
        for _ in 0..jobs_max {
            let Some(due) = ({ lock(&self.due).pop_front() }) else {
                break;
            };
            if !worked && !B::IS_SIMULATED {
                until = match limit {
                    // Only if there is a job, so that a step without user code reads no clock.
                    UserCode::For(budget) => Instant::now().checked_add(budget),
                    UserCode::Until(end) => end,
                    UserCode::One | UserCode::All => None,
                };
            }
            due.run();
            worked = true;
            if until.is_some_and(thread::is_past) {
                break;
            }
        }
        if worked {
            self.edges.pass_on();
            self.idle.bell.ring();
        }
        worked
    }

    fn step(&self, budget: Duration) -> bool {
        self.step_with(budget, UserCode::For(DRIVE_BUDGET))
    }
}

/// A driven device without its backend type, for the driver.
pub(crate) trait Driven: Send + Sync {
    /// Takes one step within the budget of a pump that began now.
    fn step(&self, budget: Duration) -> bool;

    /// Whether the backend works on tasks without being pumped. Also if a thread is inside.
    fn has_running_tasks(&self) -> bool;

    /// Closes the device: finishes what can finish until the deadline, answers everything, and reports
    /// what is left. Must be called outside the device. Reports nothing if the device was closed before.
    fn shut_down(&self, deadline: Option<Instant>) -> Report;

    /// Returns `true` unless the calling process is a child that was forked since the device was opened.
    fn is_of_this_process(&self) -> bool;

    #[cfg(test)]
    fn idle(&self) -> &Idle;
}

impl<B: Backend> Driven for DirectChannel<B> {
    fn step(&self, budget: Duration) -> bool {
        // Kernels take the first part of it: user code gets what they leave, or what a short budget leaves out.
        let until = Instant::now().checked_add(budget.max(DRIVE_BUDGET));
        self.step_with(budget, UserCode::Until(until))
    }

    fn has_running_tasks(&self) -> bool {
        Direct::has_running_tasks(self).unwrap_or(true)
    }

    fn shut_down(&self, deadline: Option<Instant>) -> Report {
        Direct::shut_down(self, deadline)
    }

    fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    #[cfg(test)]
    fn idle(&self) -> &Idle {
        &self.idle
    }
}

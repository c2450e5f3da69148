//! The device actor of a device that runs by itself, turned by its thread, or by a caller while that thread sleeps.
//!
//! Waking the device's thread costs the caller more than a turn, and so does waking the worker of a queue for a small
//! task. So a caller that is about to wait anyway takes the turn itself, where the backend allows that
//! ([`Backend::CALLERS_STEP_IN`]) and no thread is inside:
//!
//! ```text
//!   caller, instead of a wake                       device thread
//!   publishes its message                           prepares to idle: watches, timers; leaves
//!   thread asleep, and a wait is expected?          sleeps at the gate, looks in whenever it is woken
//!   enters; turns; runs what is small               woken: enters, turns until nothing is left
//!   prepares to idle in the thread's place; leaves
//!   anything left? tells the thread, and wakes it
//! ```
//! The thread's sleep does not change: every event that would wake it without callers still wakes it, and the points
//! that a caller has to wait for are watched with the thread's own waker. A caller hands over to the thread: turns beyond
//! a bound, a closing or lost device, a timer earlier than the one that the thread sleeps for, a panic of ours. [`Door`]
//! has the handshake.
//!
//! Whether a wait is expected, and so soon that the caller runs larger tasks itself after it has left the device
//! ([`Held`]), is a guess ([`Habit`]), and decides only which thread does the work.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_protocol::backend::{Backend, Held, Large};
use millstream_protocol::channel::StepIn;
use millstream_protocol::marks::{is_runtime_thread, mark_runtime_thread};
use millstream_protocol::message::Task;
use millstream_sync::door::Door;
use millstream_sync::facade::Spinner;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::Probe;
use millstream_sync::payload;

use crate::actor::DeviceActor;
use crate::effects::Threads;

mod habit;
#[cfg(test)]
mod tests;

use habit::Habit;

/// What a caller that waits at once runs itself. To wake a thread and to be woken takes some 50 us, so this bounds what a
/// wrong guess costs, and not what a right one gains.
const BUDGET: Duration = Duration::from_millis(2);

/// Turns that a caller takes at most before it leaves the rest to the device's thread.
const TURNS_MAX: u32 = 16;

/// How often a caller looks around again for others that found it inside.
const ROUNDS_MAX: u32 = 4;

/// What it takes to turn a device.
pub(crate) struct Core<B: Backend> {
    /// None once the device's thread has begun to end it.
    parts: Option<(DeviceActor<B>, Threads)>,
    /// What the device's thread sleeps for at the latest.
    sleeps_until: Option<Instant>,
    /// A caller has left something to the device's thread.
    is_owner_due: bool,
    /// A turn of a caller has panicked: nothing of the device can be trusted.
    is_broken: bool,
}

/// Where a device is turned.
pub(crate) struct Station<B: Backend> {
    door: Door<Core<B>>,
    /// Where the device's thread sleeps.
    pub(crate) gate: Arc<Gate>,
    waker: Waker,
    /// Runs larger tasks for a caller that waits at once.
    held: Option<Arc<dyn Held>>,
    habit: Habit,
    mailbox: Probe<Task>,
    opened: Instant,
    /// Wakers of users may be left with the device: they are woken by its own threads.
    has_wakers: AtomicBool,
}

/// What came of the device thread's look around.
pub(crate) enum Rest {
    /// Everything is done, and the device is closed.
    Finished,
    /// There may be more to do at once.
    Busy,
    /// Nothing to do; its caller sleeps until this at the latest.
    Idle(Option<Instant>),
}

impl<B: Backend> Core<B> {
    /// The device thread's turns, until there is nothing to do. `close_until` says when a closing device gives up.
    pub(crate) fn turn_until_idle(
        &mut self,
        waker: &Waker,
        close_until: impl FnOnce() -> Option<Instant>,
    ) -> Rest {
        if self.is_broken {
            // The panic was told where it happened.
            resume_unwind(Box::new("a turn has panicked"));
        }
        self.is_owner_due = false;
        let Some((actor, threads)) = &mut self.parts else {
            return Rest::Finished;
        };
        actor.end_idle();
        while actor.turn(threads) {}
        if actor.is_finished() {
            return Rest::Finished;
        }
        if actor.prepare_idle(waker, threads) {
            return Rest::Busy;
        }
        let close_until = actor.is_closing().then(close_until).flatten();
        let timers = close_until.into_iter().chain(actor.server.next_deadline());
        self.sleeps_until = timers.min();
        Rest::Idle(self.sleeps_until)
    }

    /// A caller's turns. Says whether nothing is left for the device's thread, and adds the queues it has issued to.
    fn step(&mut self, waker: &Waker, large: Large, queues: &mut u64) -> bool {
        let _mark = mark_runtime_thread();
        let Some((actor, threads)) = &mut self.parts else {
            return true;
        };
        actor.end_idle();
        let mut turns = TURNS_MAX;
        loop {
            if actor.server.is_lost() {
                return false;
            }
            actor.server.backend_mut().hold_back();
            while turns > 0 && actor.turn(threads) {
                turns -= 1;
            }
            let done = actor.server.backend_mut().let_go(large);
            *queues |= done.queues;
            if !done.ran || turns == 0 {
                break;
            }
        }
        if turns == 0 || actor.is_closing() || actor.server.is_lost() {
            return false;
        }
        let is_idle = !actor.prepare_idle(waker, threads);
        let timer = actor.server.next_deadline();
        is_idle && timer.is_none_or(|timer| self.sleeps_until.is_some_and(|until| until <= timer))
    }

    /// A turn has panicked. What was issued before is begun all the same.
    #[cold]
    fn breaks(&mut self) {
        self.is_broken = true;
        if let Some((actor, _)) = &mut self.parts {
            let begun = || _ = actor.server.backend_mut().let_go(Large::Begin);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(begun)) {
                payload::end(panic);
            }
        }
    }

    fn has_news(&self) -> bool {
        let actor = self.parts.as_ref().map(|(actor, _)| actor);
        self.is_owner_due || self.is_broken || actor.is_some_and(DeviceActor::has_news)
    }
}

impl<B: Backend> Station<B> {
    pub(crate) fn new(actor: DeviceActor<B>, threads: Threads, mailbox: Probe<Task>) -> Arc<Self> {
        let gate = threads.device.gate.clone();
        let held = actor.server.backend().held();
        Arc::new(Self {
            door: Door::new(Core {
                parts: Some((actor, threads)),
                sleeps_until: None,
                is_owner_due: false,
                is_broken: false,
            }),
            waker: Waker::from(gate.clone()),
            gate,
            held,
            habit: Habit::default(),
            mailbox,
            opened: Instant::now(),
            has_wakers: AtomicBool::new(false),
        })
    }

    /// Calls `f` with the actor of a device that was just opened.
    pub(crate) fn with_actor<R>(&self, f: impl FnOnce(&DeviceActor<B>) -> R) -> R {
        match &self.door.enter().parts {
            Some((actor, _)) => f(actor),
            None => unreachable!("a device is closed only after it was opened"),
        }
    }

    /// The device's parts, for the one who ends it.
    pub(crate) fn take(&self) -> Option<(DeviceActor<B>, Threads)> {
        self.door.enter().parts.take()
    }
}

impl<B: Backend> Station<B> {
    /// The device thread's look around: turns until there is nothing to do, and then the most it may sleep.
    pub(crate) fn look_around(&self, close_until: impl FnOnce() -> Option<Instant>) -> Rest {
        let mut core = self.door.enter();
        let rest = core.turn_until_idle(&self.waker, close_until);
        // Who found the door shut comes with the next look around.
        let again = self.door.leave(core);
        match rest {
            Rest::Idle(_) if again => Rest::Busy,
            rest => rest,
        }
    }

    /// The device thread's sleep.
    pub(crate) fn idle(&self, spin: &mut Spinner, until: Option<Instant>) {
        self.door
            .idle(&self.gate, spin, until, |core| core.has_news());
    }

    /// Turns the device in the place of its thread, and says whether nothing is left for that. Does not wait.
    fn step_in(&self, large: Large) -> bool {
        for round in 1..=ROUNDS_MAX {
            // A thread that is inside looks around once more.
            let Some(mut core) = self.door.try_enter() else {
                return true;
            };
            if core.is_owner_due {
                // It has been woken, looks at everything, and is to find the door open.
                _ = self.door.leave(core);
                return false;
            }
            let mut queues = 0;
            let step = || core.step(&self.waker, large, &mut queues);
            let stepped = catch_unwind(AssertUnwindSafe(step));
            let is_rest = stepped.unwrap_or_else(|panic| {
                payload::end(panic);
                core.breaks();
                false
            });
            core.is_owner_due |= !is_rest || round == ROUNDS_MAX;
            self.habit.issues(queues);
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

    /// Runs what was held, and says whether the device's thread need not be woken for that.
    fn run_held(&self, held: &dyn Held, budget: Duration) -> bool {
        let ran = catch_unwind(AssertUnwindSafe(|| held.run(budget)));
        let ran = ran.map_err(|panic| {
            payload::end(panic);
            self.door.enter().is_broken = true;
        });
        ran.is_ok()
    }

    /// The time since the device was opened.
    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// May the calling thread turn the device? Not one that may be inside already, nor where wakers of users are left:
    /// they only schedule, but the caller may hold what they take for that.
    fn may_step_in(&self) -> bool {
        // Relaxed: set before the first waker is left. A turn that has begun by then may wake that one.
        !is_runtime_thread() && !self.has_wakers.load(Ordering::Relaxed)
    }
}

impl<B: Backend> StepIn for Station<B> {
    fn step_in_for_a_wake(&self) -> bool {
        if !self.habit.expects_a_wait(self.mailbox.tail()) || !self.may_step_in() {
            return false;
        }
        let is_rest = match &self.held {
            Some(held) if self.habit.expects_it_at_once(|| self.now()) => {
                let is_rest = self.step_in(Large::Hold);
                // Nothing that takes long comes before the wake of the device's thread.
                let budget = if is_rest { BUDGET } else { Duration::ZERO };
                is_rest & self.run_held(&**held, budget)
            }
            _ => self.step_in(Large::Begin),
        };
        self.habit.leaves(self.now());
        is_rest
    }

    fn waits(&self) {
        self.habit.waits(self.mailbox.tail(), || self.now());
    }

    fn step_in_to_wait(&self) {
        if self.may_step_in() && !self.step_in(Large::Begin) {
            self.gate.wake();
        }
    }

    fn leaves_waker(&self) {
        // Relaxed: see `may_step_in`. A look first: the line is shared, and this is set once.
        if !self.has_wakers.load(Ordering::Relaxed) {
            self.has_wakers.store(true, Ordering::Relaxed);
        }
    }
}

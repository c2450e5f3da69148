//! The device actor of a device with threads. Its own thread runs it, or a caller while that thread sleeps.
//!
//! # Stepping in
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
//! The model `door` of `loom-tests` checks the handshake; `shared_actor/tests` count every wake, and the module
//! `stepping_in` of the conformance suite compares results.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_protocol::backend::{Backend, Held, Large};
use millstream_protocol::channel::StepIn;
use millstream_protocol::marks::{is_runtime_thread, mark_runtime_thread};
use millstream_protocol::message::Task;
use millstream_protocol::process::Process;
use millstream_sync::deferred_wakes::{self, DeferredWakes, LeftWakers};
use millstream_sync::facade::Spinner;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::gate::Gate;
use millstream_sync::handoff_lock::HandoffLock;
use millstream_sync::mailbox::Probe;
use millstream_sync::payload;

use crate::actor::DeviceActor;
use crate::effects::Threads;
use crate::step;

#[cfg(test)]
mod tests;
mod wait_prediction;

use wait_prediction::WaitPredictor;

/// Time that a caller which waits at once spends on larger tasks. Waking a thread and being woken takes about 50 us, so
/// this bounds the cost of a wrong guess, not the gain of a right one.
const BUDGET: Duration = Duration::from_millis(2);

/// Turns that a caller takes before it leaves the rest to the device thread.
const TURNS_MAX: u32 = 16;

/// Rounds that a caller makes for other threads that found it inside.
const ROUNDS_MAX: u32 = 4;

/// The state that a turn needs.
pub(crate) struct Core<B: Backend> {
    /// `None` once the device thread has begun the shutdown.
    parts: Option<(DeviceActor<B>, Threads)>,
    /// The time until which the device thread sleeps.
    sleeps_until: Option<Instant>,
    /// A caller has left work to the device thread.
    is_owner_due: bool,
    /// A turn of a caller has panicked, so the device's state is not trusted.
    is_broken: bool,
}

/// The device actor behind a door, shared by the device thread and callers.
pub(crate) struct SharedActor<B: Backend> {
    /// In a child that was forked since, the thread inside at the fork never leaves.
    process: Process,
    door: HandoffLock<Core<B>>,
    /// The gate at which the device thread sleeps.
    pub(crate) gate: Arc<Gate>,
    waker: Waker,
    /// Runs larger tasks for a caller that waits at once.
    held: Option<Arc<dyn Held>>,
    predictor: WaitPredictor,
    mailbox: Probe<Task>,
    opened: Instant,
    /// Users' wakers may be registered with the device; its own threads must wake them.
    has_wakers: AtomicBool,
    /// Users' wakers that callers have left to the device thread, until that thread begins the shutdown.
    left_wakers: LeftWakers,
    /// A custom task will be sent whose code runs within a call, which callers must not make.
    has_code: AtomicBool,
    /// No caller is inside any more that has not seen `has_code`.
    is_code_sent: AtomicBool,
}

/// The result of the device thread's turns.
pub(crate) enum Rest {
    /// The device is closed and has drained.
    Finished,
    /// There may be more work at once.
    Busy,
    /// There is no work; the thread may sleep until this time.
    Idle(Option<Instant>),
}

impl<B: Backend> Core<B> {
    /// Takes the device thread's turns until there is no work. `close_until` is when a closing device gives up.
    pub(crate) fn turn_until_idle(
        &mut self,
        waker: &Waker,
        has_left_wakers: bool,
        close_until: impl FnOnce() -> Option<Instant>,
    ) -> Rest {
        if self.is_broken {
            // The panic was reported where it happened.
            resume_unwind(Box::new("a turn has panicked"));
        }
        self.is_owner_due = false;
        let Some((actor, threads)) = &mut self.parts else {
            return Rest::Finished;
        };
        actor.end_idle();
        if has_left_wakers {
            // They are woken first: a turn that found nothing else to do would not know what they begin.
            return Rest::Busy;
        }
        while actor.turn(threads) && !deferred_wakes::has_any() {}
        if deferred_wakes::has_any() {
            return Rest::Busy;
        }
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

    /// Takes a caller's turns. Returns `true` if nothing is left for the device thread. Adds the queues that received
    /// tasks to `queues`.
    fn step(&mut self, waker: &Waker, large: Large, queues: &mut u64) -> bool {
        let _mark = mark_runtime_thread();
        let Some((actor, threads)) = &mut self.parts else {
            // The thread of a closed device may wait for the end of a task that this caller has reported.
            return false;
        };
        actor.end_idle();
        let mut turns = TURNS_MAX;
        loop {
            if actor.server.is_lost() {
                return false;
            }
            actor.server.backend_mut().defer_start();
            while turns > 0 && actor.turn(threads) {
                turns -= 1;
            }
            let done = actor.server.backend_mut().start_deferred(large);
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

    /// Handles a panic of a turn. Tasks that were issued before it are still started.
    #[cold]
    fn breaks(&mut self) {
        self.is_broken = true;
        if let Some((actor, _)) = &mut self.parts {
            let begun = || _ = actor.server.backend_mut().start_deferred(Large::Begin);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(begun)) {
                payload::end(panic);
            }
        }
    }

    fn has_work(&self) -> bool {
        let actor = self.parts.as_ref().map(|(actor, _)| actor);
        self.is_owner_due || self.is_broken || actor.is_some_and(DeviceActor::has_work)
    }
}

impl<B: Backend> SharedActor<B> {
    pub(crate) fn new(actor: DeviceActor<B>, threads: Threads, mailbox: Probe<Task>) -> Arc<Self> {
        let gate = threads.device.gate.clone();
        let held = actor.server.backend().held();
        Arc::new(Self {
            process: Process::current(),
            door: HandoffLock::new(Core {
                parts: Some((actor, threads)),
                sleeps_until: None,
                is_owner_due: false,
                is_broken: false,
            }),
            waker: Waker::from(gate.clone()),
            gate,
            held,
            predictor: WaitPredictor::default(),
            mailbox,
            opened: Instant::now(),
            has_wakers: AtomicBool::new(false),
            left_wakers: LeftWakers::default(),
            has_code: AtomicBool::new(false),
            is_code_sent: AtomicBool::new(false),
        })
    }

    /// Calls `f` with the actor of a device that was just opened.
    pub(crate) fn with_actor<R>(&self, f: impl FnOnce(&DeviceActor<B>) -> R) -> R {
        match &self.door.enter().parts {
            Some((actor, _)) => f(actor),
            None => unreachable!("a device is closed only after it was opened"),
        }
    }

    /// Takes the actor and the threads, to end the device.
    pub(crate) fn take(&self) -> Option<(DeviceActor<B>, Threads)> {
        let parts = self.door.enter().parts.take();
        self.left_wakers.end();
        parts
    }

    /// Takes the device thread's turns until there is no work, and returns how long it may sleep.
    pub(crate) fn look_around(&self, close_until: impl FnOnce() -> Option<Instant>) -> Rest {
        let deferred = DeferredWakes::begin();
        let mut core = self.door.enter();
        let rest = core.turn_until_idle(&self.waker, self.left_wakers.has_any(), close_until);
        // Another thread found the door shut, so look around again.
        let again = self.door.leave(core);
        drop(deferred);
        self.left_wakers.wake_all();
        match rest {
            Rest::Idle(_) if again => Rest::Busy,
            rest => rest,
        }
    }

    /// Blocks the device thread until there is work.
    pub(crate) fn idle(&self, spin: &mut Spinner, until: Option<Instant>) {
        self.door.idle(&self.gate, spin, until, |core| {
            core.has_work() || self.left_wakers.has_any()
        });
    }

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
            self.door.enter().is_broken = true;
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
}

impl<B: Backend> StepIn for SharedActor<B> {
    fn step_in_for_a_wake(&self) -> bool {
        if !self.expects_a_wait(self.mailbox.tail()) || !self.may_step_in() {
            return false;
        }
        let is_rest = match &self.held {
            Some(held) if self.predictor.expects_it_at_once(|| self.now()) => {
                let is_rest = self.step_in(Large::Hold);
                // The device thread is woken after this, so run nothing long before that.
                let budget = if is_rest { BUDGET } else { Duration::ZERO };
                is_rest & self.run_held(&**held, budget)
            }
            _ => self.step_in(Large::Begin),
        };
        self.predictor.leaves(self.now());
        is_rest
    }

    fn waits(&self) {
        self.predictor.waits(self.mailbox.tail(), || self.now());
    }

    fn step_in_to_wait(&self) {
        if self.may_step_in() && !self.step_in(Large::Begin) {
            self.gate.wake();
        }
    }

    fn step_in_for_an_end(&self) -> bool {
        // The thread does not wait for the device itself, so it runs nothing large.
        self.expects_a_wait(self.mailbox.tail()) && self.may_step_in() && self.step_in(Large::Begin)
    }

    fn leaves_waker(&self) {
        // Relaxed: see `may_step_in`. Loads first, since the cache line is shared and this is set once.
        if !self.has_wakers.load(Ordering::Relaxed) {
            self.has_wakers.store(true, Ordering::Relaxed);
        }
    }

    fn sends_code(&self) {
        // Acquire: pairs with the store below.
        if !B::CALLS_RUN_CODE || self.is_code_sent.load(Ordering::Acquire) {
            return;
        }
        self.has_code.store(true, Ordering::Relaxed);
        let inside = self.door.enter();
        if self.door.leave(inside) {
            self.gate.wake();
        }
        self.is_code_sent.store(true, Ordering::Release);
    }
}

//! Ends an epoch: answers everything, frees what can be freed, and leaves the rest to what ends last.
//!
//! ```text
//!  close mailbox ─► turn until drained, or late ─► answer the rest ─► free
//!                                                                      │ something may still use the memory
//!                                                                      ▼
//!                                                 Remainder ──► freed by whatever ends last
//! ```
//! What may still use the memory: user code on another thread, a guard, tasks that cannot be interrupted. A device thread
//! reports first, and then waits for all of them. No thread of a driven device could wait; what ends last frees the rest,
//! on its own thread:
//!
//! 1. While user code may access the memory, `Remainder` is the device's deferred teardown ([`DeferredTeardown`]): the
//!    thread that reports the end of user code ([`ControlSender::send`](crate::control::ControlSender::send)) runs it. Its
//!    lock orders the two: either that thread finds the teardown installed, or installing it finds the control that was
//!    sent.
//! 2. Neither the close nor the end of user code waits for tasks that run without being pumped. A later pump frees the
//!    rest once they have completed; dropping the driver waits for them, and so does dropping the last reference to the
//!    device.
//! 3. A driver that is dropped inside the device, by a kernel or by the destructor of a value that a kernel owns, only
//!    requests the close (`close_pending`). The thread inside closes the device after it has left.
//! 4. User code may make further user code due, whatever it is answered: a callback that asks again. The close takes at
//!    most [`ROUNDS_MAX`] rounds that finish no task. Then it answers the rest, and the device refuses later callbacks.
//! 5. A backend that works only when pumped runs nothing more: its tasks are dropped with it at once.
//!
//! # Example: a guard outlives the close of a driven device
//! ```text
//!  thread A: Driver::close                       thread B: holds a guard
//!  answers everything, except for the guard
//!  sets the teardown; free: user code runs,
//!  so `InUse`; reports bytes_left
//!                                                drops the guard: sends HostFinished,
//!                                                runs the teardown: no user code, frees the memory
//! ```
//! `driven/tests` and the model program `actors` (`closing`) of `loom-tests` check these cases.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use millstream_protocol::backend::Backend;
use millstream_protocol::device_status::DeviceStatus;
use millstream_protocol::health_state::HealthState;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::report::Report;
use millstream_sync::deferred_wakes::DeferredWakes;
use millstream_sync::facade::atomic::Ordering;
use millstream_sync::facade::{Mutex, SpinPolicy, Spinner, lock, thread, with_stack};
use millstream_sync::gate::Gate;

use crate::control::DeferredTeardown;
use crate::device_actor::DeviceActor;
use crate::driven::{DRIVE_BUDGET, DueLimit, NAP, is_inside};
use crate::effects::{Collector, Effects};
use crate::executor::Executor;
use crate::host::discard_panic;

/// The most rounds of a close in which the device works and nothing is finished: a callback may ask for another one
/// whatever it is answered, and a simulated task may take some steps.
const ROUNDS_MAX: u32 = 4_096;

/// How an epoch ends. Shared by the closing thread and the device.
#[derive(Clone, Default)]
pub(crate) struct EpochEnd {
    /// When a closing device gives up.
    pub(crate) deadline: Arc<Mutex<Option<Instant>>>,
    /// The thread that closes the device.
    pub(crate) closer: Arc<Mutex<Option<ThreadId>>>,
    /// Ends the waits for room, and holds the error that ended the epoch.
    pub(crate) gone: Arc<DeviceStatus>,
}

impl EpochEnd {
    /// Creates the end of an epoch of the device with this health.
    pub(crate) fn of(epoch: u64, health_state: &Arc<HealthState>) -> Self {
        Self {
            gone: Arc::new(DeviceStatus::new(epoch, health_state.clone())),
            ..Self::default()
        }
    }
}

/// What a close has left of a device, until it is freed. Dropping it waits for tasks in flight.
pub(crate) struct Remainder<B: Backend>(Mutex<Option<DeviceActor<B>>>);

/// The outcome of an attempt to free a closed device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// The device is freed, now or before.
    Freed,
    /// The device is lost: its memory is never freed.
    Lost,
    /// Something may still use the memory.
    InUse,
}

impl<B: Backend> Remainder<B> {
    /// Frees the device, unless user code runs that may access its memory. Waits for tasks that run without being
    /// pumped if `wait`; otherwise they prevent the free as well. Drops values of users.
    pub(crate) fn free(&self, wait: bool) -> Attempt {
        let mut place = lock(&self.0);
        let Some(actor) = &mut *place else {
            return Attempt::Freed;
        };
        actor.take_controls();
        let server = &mut actor.server;
        let may_run = B::RUNS_WITHOUT_PUMP && !wait && server.backend_mut().has_running_tasks();
        if may_run {
            // Publishes what has completed, and detects a loss.
            server.backend_mut().pump(Duration::ZERO);
        }
        if server.recovery().is_some() {
            let actor = place.take();
            drop(place);
            drop(actor.map(DeviceActor::end_lost));
            return Attempt::Lost;
        }
        if server.user_code_runs() || may_run && server.backend_mut().has_running_tasks() {
            return Attempt::InUse;
        }
        let actor = place.take();
        drop(place);
        if let Some(mut actor) = actor {
            let _mark = mark_runtime_thread();
            if actor.server.busy_queues() == 0 {
                actor.server.free_pages();
            }
            // Destructors of users' values may panic; the panic ends here.
            discard_panic(catch_unwind(AssertUnwindSafe(|| drop(actor))));
        }
        Attempt::Freed
    }

    /// Blocks the device thread, which sleeps at `gate`, until nothing uses the memory, and frees it.
    pub(crate) fn wait_and_free(&self, gate: &Gate) {
        let mut spinner = Spinner::new(SpinPolicy::never());
        while self.free(true) == Attempt::InUse {
            gate.wait_until(&mut spinner, || {
                let place = lock(&self.0);
                let actor = place.as_ref();
                actor.is_none_or(DeviceActor::has_controls).then_some(())
            });
        }
    }

    /// Leaks it to work that cannot be interrupted.
    pub(crate) fn leak(&self) {
        std::mem::forget(lock(&self.0).take());
    }

    /// Whether tasks still run without being pumped.
    pub(crate) fn has_running_tasks(&self) -> bool {
        let mut place = lock(&self.0);
        place
            .as_mut()
            .is_some_and(|actor| actor.server.backend_mut().has_running_tasks())
    }
}

impl<B: Backend> Drop for Remainder<B> {
    fn drop(&mut self) {
        if self.free(true) == Attempt::InUse {
            // While user code runs the deferred teardown holds this, so this is the end of a failed model.
            self.leak();
        }
    }
}

impl<B: Backend> DeferredTeardown for Remainder<B> {
    fn run(&self) -> bool {
        let is_idle = |actor: &mut DeviceActor<B>| {
            actor.take_controls();
            !actor.server.user_code_runs()
        };
        with_stack(|| self.free(false)) != Attempt::InUse
            || lock(&self.0).as_mut().is_none_or(is_idle)
    }
}

/// Answers what is left of a device, frees what can be freed now, and ends the threads. Returns the report, and what is
/// still in use. The threads of that are kept.
pub(crate) fn end_epoch<B: Backend>(
    mut actor: DeviceActor<B>,
    effects: &mut Effects,
    drained: bool,
    end: &EpochEnd,
) -> (Report, Option<Arc<Remainder<B>>>) {
    let deadline = lock(&end.deadline).unwrap_or_else(Instant::now);
    if actor.server.is_lost() {
        let (mut report, server) = actor.end_lost();
        if let Some(server) = server {
            // Its drop may wait for running tasks: not on the device thread, and not beyond the deadline.
            effects.drop_elsewhere(server);
        }
        end.gone.end_callbacks();
        effects.end(false, deadline);
        report.threads_left = effects.other_threads();
        report.values_parked = effects.parked();
        return (report, None);
    }
    let mut report = Report::default();
    report.drained = drained;
    report.slices_held = actor.server.live_slices();
    let (left, values) = actor.abandon();
    report.tasks_left = left;
    effects.drop_values(values);
    end.gone.end_credits();
    let (bytes, busy) = (actor.server.reserved_bytes(), actor.server.busy_queues());
    let remainder = Arc::new(Remainder(Mutex::new(Some(actor))));
    let is_driven = matches!(effects.collector, Collector::Inline(_));
    let attempt = match is_driven {
        true => {
            effects.device.set_teardown(remainder.clone());
            remainder.free(false)
        }
        false if drained => remainder.free(true),
        // The report does not wait for tasks in flight.
        false => Attempt::InUse,
    };
    let is_freed = attempt == Attempt::Freed;
    match is_freed {
        true => report.bytes_freed = bytes,
        false => report.bytes_left = bytes,
    }
    end.gone.end_callbacks();
    let is_in_use = attempt == Attempt::InUse;
    report.threads_left = match is_in_use && !is_driven {
        // They end with the device thread.
        true => effects.spawner.alive(),
        false => {
            effects.end(is_freed, deadline);
            effects.other_threads() + if is_in_use { busy } else { 0 }
        }
    };
    report.values_parked = effects.parked();
    end.gone.set_closed();
    (report, is_in_use.then_some(remainder))
}

impl<B: Backend> Executor<B> {
    /// Closes a driven device: finishes what can finish until the deadline, answers everything, and reports what is left.
    /// Reports nothing if the device was closed before.
    pub(crate) fn shut_down(&self, deadline: Option<Instant>) -> Report {
        if !self.process.is_current() || is_inside() && !self.may_shut_down() {
            return Report::default();
        }
        with_stack(|| self.shut_down_here(deadline))
    }

    /// Whether a thread that is inside a device may close this one. If a thread is inside this very device, it
    /// completes the close when it leaves.
    fn may_shut_down(&self) -> bool {
        let Some(driven) = &self.driven else {
            return false;
        };
        // Relaxed: the door orders it. Either the thread inside finds the door tried and then reads this, or
        // `try_enter` finds that it has left.
        driven.close_pending.store(true, Ordering::Relaxed);
        let Some(core) = self.door.try_enter() else {
            return false;
        };
        self.inside(core, |_| ());
        driven.close_pending.swap(false, Ordering::Relaxed)
    }

    /// Returns what a close has to finish: the messages, the tasks that streams hold, and those that have not completed.
    fn what_is_left(&self) -> Option<(usize, u64, u64)> {
        self.inside(self.door.enter(), |core| {
            let (actor, _) = core.parts.as_ref()?;
            let completed = actor.timelines.iter().map(|timeline| timeline.completed());
            let messages = self.sender.depth();
            Some((messages, actor.server.tasks_held(), completed.sum()))
        })
    }

    fn shut_down_here(&self, deadline: Option<Instant>) -> Report {
        let started = Instant::now();
        let mut report = Report::default();
        // Accept no more messages. Finish what can finish; what a guard holds back cannot.
        {
            // Ends the waits for room, whose wakers are woken outside the lock.
            let _deferred = DeferredWakes::begin();
            if let Some((actor, _)) = &mut self.door.enter().parts {
                actor.close();
            }
        }
        let in_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
        let (mut left, mut rounds) = (self.what_is_left(), 0);
        loop {
            let (turned, _) = self.turn_with(true, |core| core.turn(DRIVE_BUDGET));
            let worked = turned | self.run_user_code(DueLimit::For(DRIVE_BUDGET));
            let running = self.has_running_tasks();
            if !(worked || running != Some(false)) || !in_time() {
                break;
            }
            // User code that makes further user code due goes on forever, and finishes nothing.
            let before = std::mem::replace(&mut left, self.what_is_left());
            rounds = if left == before { rounds + 1 } else { 0 };
            if running == Some(false) && rounds > ROUNDS_MAX {
                break;
            }
            let waited = worked || running == Some(true) && self.wait_in_driver(NAP, &|| false);
            if !waited {
                thread::sleep(NAP);
            }
        }
        let remainder = match self.take() {
            Some((actor, mut effects)) => {
                let drained = actor.server.is_drained();
                let (ended, remainder) = end_epoch(actor, &mut effects, drained, &self.end);
                report = ended;
                remainder
            }
            // Closed before. If there is no deadline, wait for tasks that run without being pumped.
            None => {
                let remainder = self.inside(self.door.enter(), |core| core.remainder.take());
                remainder.filter(|remainder| remainder.free(deadline.is_none()) == Attempt::InUse)
            }
        };
        if remainder.is_some() {
            self.inside(self.door.enter(), |core| core.remainder = remainder);
        }
        // Runs the callbacks of what was answered just now; the device accepts none any more.
        self.run_user_code(DueLimit::All);
        if let Some(driven) = &self.driven {
            driven.bell.ring();
        }
        report.took = started.elapsed();
        report
    }
}

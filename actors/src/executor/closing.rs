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

use millstream_protocol::{Backend, DeviceStatus, HealthState, Report, marks::mark_runtime_thread};
use millstream_sync::facade::{Mutex, SpinPolicy, Spinner, lock, with_stack};
use millstream_sync::gate::Gate;

use crate::control::DeferredTeardown;
use crate::device_actor::DeviceActor;
use crate::effects::{Collector, Effects};
use crate::host::discard_panic;

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
        let may_run = B::RUNS_WITHOUT_PUMP && !wait && server.device.backend.has_running_tasks();
        if may_run {
            // Publishes what has completed, and detects a loss.
            server.device.backend.pump(Duration::ZERO);
        }
        if server.recovery().is_some() {
            let actor = place.take();
            drop(place);
            drop(actor.map(DeviceActor::end_lost));
            return Attempt::Lost;
        }
        if server.user_code_runs() || may_run && server.device.backend.has_running_tasks() {
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
            .is_some_and(|actor| actor.server.device.backend.has_running_tasks())
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
    let is_driven = matches!(effects.collector, Collector::Inline(_));
    if actor.server.is_lost() {
        let (mut report, server) = actor.end_lost();
        if let Some(server) = server {
            // Its drop may wait for running tasks: not on the device thread, and not beyond the deadline.
            effects.drop_elsewhere(server);
        }
        end.gone.end_callbacks();
        effects.end(false, deadline);
        if !is_driven {
            report.threads_left = effects.other_threads();
        }
        report.values_parked = effects.parked();
        return (report, None);
    }
    let mut report = Report::default();
    report.drained = drained;
    report.slices_held = actor.server.live_slices();
    let (left, values) = actor.abandon();
    report.tasks_left = left;
    effects.user_code.drop_values(values);
    end.gone.end_credits();
    let (bytes, busy) = (actor.server.reserved_bytes(), actor.server.busy_queues());
    let remainder = Arc::new(Remainder(Mutex::new(Some(actor))));
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

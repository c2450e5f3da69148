//! Closes a driven device.
//!
//! # Protocol
//! ```text
//!  close mailbox ─► step until drained, idle or late ─► answer the rest ─► free
//!                                                                           │ something may still use the memory
//!                                                                           ▼
//!                                                      Remainder ──► freed by whatever ends last
//! ```
//! No thread exists that could wait for what a close leaves behind: user code on another thread, a guard, tasks that a
//! GPU still runs. What ends last frees the rest, on its own thread:
//!
//! 1. While user code may access the memory, `Remainder` is the device's deferred teardown ([`DeferredTeardown`]): the
//!    thread that reports the end of user code ([`ControlSender::send`]) runs it. Its lock orders the two: either that
//!    thread finds the teardown installed, or installing it finds the control that was sent.
//! 2. Neither the close nor the end of user code waits for tasks that run without being pumped. A later pump frees the
//!    rest once they have completed; dropping the driver waits for them, and so does dropping the last reference to the
//!    device.
//! 3. A driver that is dropped inside the device, by a kernel or by the destructor of a value that a kernel owns, only
//!    requests the close (`close_pending`). The thread inside closes the device after it has left.
//! 4. User code may make further user code due, whatever it is answered: a callback that asks again. The close takes at
//!    most [`ROUNDS_MAX`] rounds that finish no task. Then it answers the rest, and the device refuses later callbacks.
//! 5. A backend that works only when pumped runs nothing more: its tasks are dropped with it at once.
//!
//! # Example: a guard outlives the close
//! ```text
//!  thread A: Driver::close                       thread B: holds a guard
//!  answers everything, except for the guard
//!  sets the teardown; free: user code runs,
//!  so `InUse`; reports bytes_left
//!                                                drops the guard: sends HostFinished,
//!                                                runs the teardown: no user code, frees the memory
//! ```
//! `driven/tests` and the model program `actors` (`closing`) of `loom-tests` check these cases.

use super::inside::is_inside;
use super::*;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::control::DeferredTeardown;
use crate::host::discard_panic;

/// The most rounds of a close in which the device works and nothing is finished: a callback may ask for another one
/// whatever it is answered, and a simulated task may take some steps.
const ROUNDS_MAX: u32 = 4_096;

/// What a close has left of a device, until it is freed. Dropping it waits for tasks in flight.
pub(super) struct Remainder<B: Backend>(Mutex<Option<DeviceActor<B>>>);

/// The outcome of an attempt to free a closed device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
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
    pub(super) fn free(&self, wait: bool) -> Attempt {
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

    /// Whether tasks still run without being pumped.
    pub(super) fn has_running_tasks(&self) -> bool {
        let mut place = lock(&self.0);
        place
            .as_mut()
            .is_some_and(|actor| actor.server.backend_mut().has_running_tasks())
    }
}

impl<B: Backend> Drop for Remainder<B> {
    fn drop(&mut self) {
        if self.free(true) == Attempt::InUse {
            // While user code runs the deferred teardown holds this, so this is the end of a failed model: leak it.
            std::mem::forget(lock(&self.0).take());
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

impl<B: Backend> Direct<B> {
    pub(super) fn shut_down(&self, deadline: Option<Instant>) -> Report {
        if !self.process.is_current() {
            return Report::default();
        }
        if is_inside() && !self.may_shut_down() {
            return Report::default();
        }
        with_stack(|| self.shut_down_here(deadline))
    }

    /// Whether a thread that is inside a device may close this one. If a thread is inside this very device, it
    /// completes the close when it leaves.
    fn may_shut_down(&self) -> bool {
        // Relaxed: the door orders it. Either the thread inside finds the door tried and then reads this, or
        // `try_enter` finds that it has left.
        self.close_pending.store(true, Ordering::Relaxed);
        let Some(core) = self.core.try_enter() else {
            return false;
        };
        if self.core.leave(core) {
            self.idle.bell.ring();
        }
        self.close_pending.swap(false, Ordering::Relaxed)
    }

    /// Returns what a close has to finish: the messages, the tasks that streams hold, and those that have not completed.
    fn what_is_left(&self) -> Option<(usize, u64, u64)> {
        let core = self.core.enter();
        let left = core.actor.as_ref().map(|actor| {
            let completed = actor.timelines.iter().map(|timeline| timeline.completed());
            (
                self.sender.depth(),
                actor.server.tasks_held(),
                completed.sum(),
            )
        });
        if self.core.leave(core) {
            self.idle.bell.ring();
        }
        left
    }

    fn shut_down_here(&self, deadline: Option<Instant>) -> Report {
        let started = Instant::now();
        let mut report = Report::default();
        // Accept no more messages. Finish what can finish; what a guard holds back cannot.
        {
            // Ends the waits for room, whose wakers are woken outside the lock.
            let _deferred = DeferredWakes::begin();
            if let Some(actor) = &mut self.core.enter().actor {
                actor.close();
            }
        }
        let in_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
        let (mut left, mut rounds) = (self.what_is_left(), 0);
        loop {
            let (turned, _) = self.turn_with(true, |core| core.turn(DRIVE_BUDGET));
            let worked = turned | self.run_user_code(UserCode::For(DRIVE_BUDGET));
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
        let mut actor = self.core.enter().actor.take();
        if let Some(actor) = actor.take_if(|actor| actor.server.is_lost()) {
            let (lost, server) = actor.end_lost();
            report = lost;
            drop(server);
            let mut core = self.core.enter();
            core.inline.gc.park_all();
            report.values_parked = core.inline.gc.parked();
        } else if let Some(mut actor) = actor {
            report.drained = actor.server.is_drained();
            report.slices_held = actor.server.live_slices();
            let (left, values) = actor.abandon();
            report.tasks_left = left;
            lock(&self.due).extend(values.into_iter().map(UserJob::Drop));
            self.gone.end_credits();
            let (bytes, busy) = (actor.server.reserved_bytes(), actor.server.busy_queues());
            let remainder = Arc::new(Remainder(Mutex::new(Some(actor))));
            let device = self.core.enter().inline.device.clone();
            device.set_teardown(remainder.clone());
            let attempt = remainder.free(false);
            let mut core = self.core.enter();
            match attempt {
                Attempt::Freed => {
                    report.bytes_freed = bytes;
                    core.inline.release_all();
                }
                Attempt::Lost => report.bytes_left = bytes,
                Attempt::InUse => {
                    (report.bytes_left, report.threads_left) = (bytes, busy);
                    core.remainder = Some(remainder);
                }
            }
            // What is left now may still be used.
            core.inline.gc.park_all();
            report.values_parked = core.inline.gc.parked();
            drop(core);
            self.gone.set_closed();
        } else {
            let remainder = self.core.enter().remainder.take();
            // Closed before. If there is no deadline, wait for tasks that run without being pumped.
            if let Some(remainder) =
                remainder.filter(|remainder| remainder.free(deadline.is_none()) == Attempt::InUse)
            {
                self.core.enter().remainder = Some(remainder);
            }
        }
        self.gone.end_callbacks();
        // Runs the callbacks of what was answered just now. From here on the device accepts none.
        self.run_user_code(UserCode::All);
        self.idle.bell.ring();
        report.took = started.elapsed();
        report
    }
}

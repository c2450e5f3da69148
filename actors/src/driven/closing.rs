//! The end of a driven device.
//!
//! No thread is there to wait for what a close has to leave: user code that runs on another thread, a guard that is held, tasks that a
//! GPU still runs. What lets go of the last of these frees the rest, on its own thread:
//!
//! 1. While user code may look at the memory, what is left is the *heir* of the device: the thread that tells the device that user code has
//!    ended ([`ToDevice::tell`]) has the heir look. The lock of the heir orders the two: either the teller finds it, or it finds
//!    what was told.
//! 2. Tasks that run by themselves are not waited for by the close, nor by user code that ends. A later pump frees what is left once they
//!    have ended; dropping the driver waits for them, and so does dropping the last thing that holds the device.
//! 3. A driver that is dropped inside the device, by a kernel or by the destructor of what a kernel owns, only asks for the close. The thread
//!    that is inside closes the device once it has left.
//! 4. A backend that works in its pump alone runs nothing more: its tasks are dropped with it at once.

use super::*;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::actor::Heir;
use crate::host::end_panic;

/// What a close has left of a device, until it is freed. Dropping it waits for tasks in flight.
pub(super) struct Left<B: Backend>(Mutex<Option<DeviceActor<B>>>);

/// What an attempt to free a closed device did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// The device is freed, or was before.
    Freed,
    /// The device was found to be lost: its memory stays with the driver.
    Lost,
    /// Something may still use the memory.
    TooEarly,
}

impl<B: Backend> Left<B> {
    /// Frees it, unless user code runs that may look at the memory, or, if not `patient`, tasks run by themselves. Drops what users gave.
    pub(super) fn free(&self, patient: bool) -> Attempt {
        let mut place = lock(&self.0);
        let Some(actor) = &mut *place else {
            return Attempt::Freed;
        };
        actor.take_controls();
        let server = &mut actor.server;
        let may_run = B::WORKS_BY_ITSELF && !patient && server.backend_mut().is_under_way();
        if may_run {
            // Publishes what has completed, and finds out if the device is lost meanwhile.
            server.backend_mut().pump(Duration::ZERO);
        }
        if server.recovery().is_some() {
            let actor = place.take();
            drop(place);
            drop(actor.map(DeviceActor::end_lost));
            return Attempt::Lost;
        }
        if server.user_code_runs() || may_run && server.backend_mut().is_under_way() {
            return Attempt::TooEarly;
        }
        let actor = place.take();
        drop(place);
        if let Some(mut actor) = actor {
            let _mark = mark_runtime_thread();
            if actor.server.busy_queues() == 0 {
                actor.server.free_pages();
            }
            // What a user's value panics with ends here.
            end_panic(catch_unwind(AssertUnwindSafe(|| drop(actor))));
        }
        Attempt::Freed
    }

    /// Do tasks run by themselves still?
    pub(super) fn is_under_way(&self) -> bool {
        let mut place = lock(&self.0);
        place
            .as_mut()
            .is_some_and(|actor| actor.server.backend_mut().is_under_way())
    }
}

impl<B: Backend> Drop for Left<B> {
    fn drop(&mut self) {
        if self.free(true) == Attempt::TooEarly {
            // It is the heir while user code runs, so this is the end of a model that has failed.
            std::mem::forget(lock(&self.0).take());
        }
    }
}

impl<B: Backend> Heir for Left<B> {
    fn look(&self) -> bool {
        let is_idle = |actor: &mut DeviceActor<B>| {
            actor.take_controls();
            !actor.server.user_code_runs()
        };
        with_stack(|| self.free(false)) != Attempt::TooEarly
            || lock(&self.0).as_mut().is_none_or(is_idle)
    }
}

impl<B: Backend> Direct<B> {
    pub(super) fn shut_down(&self, deadline: Option<Instant>) -> Report {
        if Inside::get() && !self.may_shut_down() {
            return Report::default();
        }
        with_stack(|| self.shut_down_here(deadline))
    }

    /// Whether a thread that is inside a device may close this one. If a thread is inside this very device, that finishes the close once it
    /// has left.
    fn may_shut_down(&self) -> bool {
        // Relaxed: the door orders it. Either who is inside finds the door tried, and then this, or we find that it has left.
        self.close_pending.store(true, Ordering::Relaxed);
        let Some(core) = self.core.try_enter() else {
            return false;
        };
        if self.core.leave(core) {
            self.idle.bell.ring();
        }
        self.close_pending.swap(false, Ordering::Relaxed)
    }

    fn shut_down_here(&self, deadline: Option<Instant>) -> Report {
        let started = Instant::now();
        let mut report = Report::default();
        // Nothing more is accepted. What can end by itself does; what a guard holds back cannot.
        if let Some(actor) = &mut self.core.enter().actor {
            actor.close();
        }
        let in_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
        loop {
            let worked = self.step_as(DRIVE_BUDGET, true);
            if !(worked || self.is_under_way()) || !in_time() {
                break;
            }
            if !worked {
                thread::nap(NAP);
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
            report.tasks_left = actor.abandon();
            self.gone.end_credits();
            let (bytes, busy) = (actor.server.reserved_bytes(), actor.server.busy_queues());
            let left = Arc::new(Left(Mutex::new(Some(actor))));
            let device = self.core.enter().inline.device.clone();
            device.set_heir(left.clone());
            let attempt = left.free(false);
            let mut core = self.core.enter();
            match attempt {
                Attempt::Freed => {
                    report.bytes_freed = bytes;
                    core.inline.release_all();
                }
                Attempt::Lost => report.bytes_left = bytes,
                Attempt::TooEarly => {
                    (report.bytes_left, report.threads_left) = (bytes, busy);
                    core.left = Some(left);
                }
            }
            // What is left now may still be used.
            core.inline.gc.park_all();
            report.values_parked = core.inline.gc.parked();
            drop(core);
            self.gone.set_closed();
        } else {
            let left = self.core.enter().left.take();
            // Closed before: what ends by itself is waited for now, if there is time.
            if let Some(left) =
                left.filter(|left| left.free(deadline.is_none()) == Attempt::TooEarly)
            {
                self.core.enter().left = Some(left);
            }
        }
        self.gone.end_callbacks();
        // Callbacks of what was answered just now.
        self.run_user_code(None);
        self.idle.bell.ring();
        report.took = started.elapsed();
        report
    }
}

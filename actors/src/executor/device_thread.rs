//! The thread of a device: turns while there is work, then spins briefly, then parks; ends the device when it is closed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Instant;

use millstream_protocol::{Backend, Recovery, Report, marks::mark_runtime_thread};
use millstream_sync::deferred_wakes::{self, DeferredWakes};
use millstream_sync::facade::{SpinPolicy, Spinner, lock, thread};
use millstream_sync::reply::ReplySender;

use crate::executor::closing::end_epoch;
use crate::executor::{Core, Executor};
use crate::host::PATIENCE;

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
    fn turn_until_idle(
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
        let Some((actor, effects)) = &mut self.parts else {
            return Rest::Finished;
        };
        actor.end_idle();
        if has_left_wakers {
            // They are woken first: a turn that found nothing else to do would not know what they begin.
            return Rest::Busy;
        }
        while actor.turn(effects) && !deferred_wakes::has_any() {}
        if deferred_wakes::has_any() {
            return Rest::Busy;
        }
        if actor.is_finished() {
            return Rest::Finished;
        }
        if actor.prepare_idle(waker, effects) {
            return Rest::Busy;
        }
        let close_until = actor.is_closing().then(close_until).flatten();
        let timers = close_until.into_iter().chain(actor.server.next_deadline());
        self.sleeps_until = timers.min();
        Rest::Idle(self.sleeps_until)
    }
}

impl<B: Backend> Executor<B> {
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
    fn idle(&self, spin: &mut Spinner, until: Option<Instant>) {
        self.door.idle(&self.gate, spin, until, |core| {
            core.has_work() || self.left_wakers.has_any()
        });
    }

    /// Turns the device until it is closed. Returns `true` if it drained.
    fn run_turns(&self, spin: &SpinPolicy) -> bool {
        let mut spinner = Spinner::new(*spin);
        self.gate.attach();
        loop {
            // The deadline is stored before the close is sent, and each change of it sends the close again.
            let mut close_until = None;
            let rest = self.look_around(|| {
                close_until = *lock(&self.end.deadline);
                close_until
            });
            match rest {
                Rest::Finished => return true,
                Rest::Busy => {}
                Rest::Idle(until) => self.idle(&mut spinner, until),
            }
            if close_until.is_some_and(thread::is_past) {
                return false;
            }
        }
    }
}

/// The body of the device thread.
pub(crate) struct DeviceThread<B: Backend> {
    executor: Arc<Executor<B>>,
    spin: SpinPolicy,
    opened: Arc<AtomicBool>,
    report: Option<ReplySender<Report>>,
}

impl<B: Backend> DeviceThread<B> {
    /// Creates the thread of a device that is being opened; `opened` is set once it is. A close sends its report to
    /// `report`.
    pub(crate) fn new(
        executor: Arc<Executor<B>>,
        spin: SpinPolicy,
        opened: Arc<AtomicBool>,
        report: ReplySender<Report>,
    ) -> Self {
        Self {
            executor,
            spin,
            opened,
            report: Some(report),
        }
    }

    pub(crate) fn run(mut self) {
        let _mark = mark_runtime_thread();
        // A panic of the runtime or of a backend must not leave a caller waiting (I5).
        let outcome = catch_unwind(AssertUnwindSafe(|| self.executor.run_turns(&self.spin)));
        let end = &self.executor.end;
        if outcome.is_err() {
            // The panic does not mean that the device is gone, so it can be reopened.
            end.gone.set_lost(Recovery::SameProcess);
        }
        let Some((actor, mut effects)) = self.executor.take() else {
            return;
        };
        let (report, remainder) = end_epoch(actor, &mut effects, matches!(outcome, Ok(true)), end);
        let is_closer = *lock(&end.closer) == Some(std::thread::current().id());
        if let Some(sender) = self.report.take() {
            sender.send(report);
        }
        match remainder {
            None => {}
            // No other thread runs the device, so a close that waited here would never end.
            Some(remainder) if is_closer => {
                remainder.leak();
                std::mem::forget(effects);
            }
            Some(remainder) => {
                remainder.wait_and_free(&self.executor.gate);
                // Callers that still have the channel keep these threads alive: they end once they are idle.
                effects.end_user_code();
            }
        }
    }
}

impl<B: Backend> Drop for DeviceThread<B> {
    /// Handles a body that never got a thread. Nothing was admitted then, unless by a caller, so everything can be
    /// freed.
    fn drop(&mut self) {
        let Some((actor, mut effects)) = self.executor.take() else {
            return;
        };
        let deadline = Instant::now() + PATIENCE;
        // Relaxed: see `open_threads`.
        if !self.opened.load(Ordering::Relaxed) {
            drop(actor);
            return effects.end(false, deadline);
        }
        // The application dropped the body after accepting it. Answer what was submitted (I5).
        let end = &self.executor.end;
        end.gone.set_lost(Recovery::SameProcess);
        lock(&end.deadline).get_or_insert(deadline);
        let (_, remainder) = end_epoch(actor, &mut effects, true, end);
        if let Some(remainder) = remainder {
            remainder.leak();
            std::mem::forget(effects);
        }
    }
}

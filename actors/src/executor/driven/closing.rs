//! The close of a driven device, on the thread that asks for it. What it leaves behind is freed later: see
//! [`closing`](crate::executor::closing).
//!
//! 1. A driver that is dropped inside the device, by a kernel or by the destructor of a value that a kernel owns, only
//!    requests the close (`close_pending`). The thread inside closes the device after it has left.
//! 2. User code may make further user code due, whatever it is answered: a callback that asks again. The close takes at
//!    most [`ROUNDS_MAX`] rounds that finish no task. Then it answers the rest, and the device refuses later callbacks.
//! 3. A backend that works only when pumped runs nothing more: its tasks are dropped with it at once.

use std::time::Instant;

use millstream_protocol::{Backend, Report};
use millstream_sync::deferred_wakes::DeferredWakes;
use millstream_sync::facade::atomic::Ordering;
use millstream_sync::facade::{thread, with_stack};

use super::DRIVE_BUDGET;
use super::is_inside;
use super::rest::NAP;
use crate::executor::Executor;
use crate::executor::closing::{Attempt, end_epoch};

/// The most rounds of a close in which the device works and nothing is finished: a callback may ask for another one
/// whatever it is answered, and a simulated task may take some steps.
const ROUNDS_MAX: u32 = 4_096;

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
            self.inside(self.door.enter(), |core| {
                if let Some((actor, _)) = &mut core.parts {
                    actor.close();
                }
            });
        }
        let in_time = || deadline.is_none_or(|deadline| Instant::now() < deadline);
        let (mut left, mut rounds) = (self.what_is_left(), 0);
        loop {
            let (turned, _) = self.turn_with(true, |core| core.turn(DRIVE_BUDGET));
            let until = Instant::now() + DRIVE_BUDGET;
            let worked = turned | self.run_user_code(usize::MAX, Some(until));
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
        self.run_user_code(usize::MAX, None);
        self.ring();
        report.took = started.elapsed();
        report
    }
}

//! The channel of a device, as clients use it. A caller of a driven device that finds the mailbox full takes the messages
//! itself; a caller of a device with a thread waits for that thread.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use millstream_protocol::{
    Backend, ComputeChannel, Job, Refusal, StepIn, Task,
    marks::{is_runtime_thread, runs_user_code},
};
use millstream_sync::facade::{thread, with_stack};
use millstream_sync::mailbox::{Refused, Reserved, RoomPlace};

use crate::executor::Executor;
use crate::executor::driven::{DRIVE_BUDGET, is_inside};
use crate::host::run_job;

/// The channel of a device.
pub(crate) struct Channel<B: Backend>(pub(crate) Arc<Executor<B>>);

impl<B: Backend> Channel<B> {
    /// Waits for room on a driven device, which the calling thread makes itself unless it is inside. Not inlined: its
    /// registers would cost each launch on a device with threads eleven instructions.
    #[inline(never)]
    fn reserve_driven(&self) -> Result<Reserved<Task>, Refusal> {
        let executor = &self.0;
        let reserved = loop {
            match executor.reserve_now() {
                // The thread inside would have to make the room itself.
                Err(Refusal::Full) if is_inside() => break Err(Refusal::NoWait),
                Err(Refusal::Full) if executor.make_room() => {}
                // Another thread is inside and will take the messages. User code may wait for that: the thread inside
                // never waits for room or for user code (decision 29).
                Err(Refusal::Full) if is_runtime_thread() && !runs_user_code() => {
                    break Err(Refusal::NoWait);
                }
                Err(Refusal::Full) => {
                    let mut outcome = Err(Refusal::Full);
                    executor.rest_after(|| executor.make_room(), None, &mut |_| {
                        outcome = executor.reserve_now();
                        !matches!(outcome, Err(Refusal::Full))
                    });
                    if !matches!(outcome, Err(Refusal::Full)) {
                        break outcome;
                    }
                }
                outcome => break outcome,
            }
        };
        if reserved.is_err() {
            executor.run_model();
        }
        reserved
    }
}

impl<B: Backend> Executor<B> {
    #[inline]
    fn reserve_now(&self) -> Result<Reserved<Task>, Refusal> {
        // Before the slot is reserved, which is what orders the messages of threads: a model must explore both orders.
        self.edges.release();
        self.sender.try_reserve().map_err(|refused| match refused {
            Refused::Full => Refusal::Full,
            Refused::Closed => Refusal::Closed,
        })
    }

    /// Makes room in the mailbox of a driven device, for a caller that found it full and is not inside. Returns `true` if
    /// anything was done. Called by user code it runs no other user code, which could fill the mailbox and nest here.
    fn make_room(&self) -> bool {
        if !runs_user_code() {
            return self.step(DRIVE_BUDGET);
        }
        let (worked, again) = self.turn_with(false, |core| with_stack(|| core.take_messages()));
        if again && !worked {
            // The thread that found the device busy needs a whole step.
            self.ring();
        }
        worked
    }
}

impl<B: Backend> ComputeChannel for Channel<B> {
    #[inline]
    fn reserve(&self) -> Result<Reserved<Task>, Refusal> {
        if self.is_driven() {
            return self.reserve_driven();
        }
        if is_runtime_thread() && !runs_user_code() {
            // The device may need this thread to make room, so it must not wait.
            return self.0.reserve_now().map_err(|refusal| match refusal {
                Refusal::Full => Refusal::NoWait,
                other => other,
            });
        }
        // User code may wait here: the device thread makes room and never waits for user code (decision 29).
        self.0.sender.reserve().ok_or(Refusal::Closed)
    }

    #[inline]
    fn try_reserve(&self) -> Result<Reserved<Task>, Refusal> {
        let mut reserved = self.0.reserve_now();
        if reserved.is_err() && self.is_driven() {
            // Retrying later helps user code only if another thread pumps, so make room now.
            let is_alone = runs_user_code() && !is_inside();
            if matches!(reserved, Err(Refusal::Full)) && is_alone && self.0.make_room() {
                reserved = self.0.reserve_now();
            }
            if reserved.is_err() {
                self.0.run_model();
            }
        }
        reserved
    }

    #[inline]
    unsafe fn commit(&self, slot: Reserved<Task>) {
        let executor = &self.0;
        // The sleepers of a driven device are woken at the bell.
        let instead = || !self.is_driven() && executor.step_in_for_a_wake();
        // SAFETY: the caller's promise.
        unsafe { executor.sender.commit(slot, instead) };
        executor.run_model();
    }

    fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Refusal>> {
        let polled = self.0.sender.poll_room(place, waker);
        polled.map_err(|_closed| Refusal::Closed)
    }

    fn leave_room(&self, place: RoomPlace) {
        self.0.sender.leave_room(place);
    }

    fn depth(&self) -> usize {
        self.0.sender.depth()
    }

    #[inline]
    fn is_driven(&self) -> bool {
        self.0.driven.is_some()
    }

    fn waits(&self) {
        if !self.is_driven() {
            self.0.waits();
        }
    }

    fn wait(
        &self,
        deadline: Option<Instant>,
        poll: &mut dyn FnMut(Option<&Waker>) -> bool,
    ) -> bool {
        let executor = &self.0;
        if !self.is_driven() {
            executor.step_in_to_wait();
            return false;
        }
        let step = || match deadline {
            Some(deadline) => executor.step_timed(deadline),
            None => executor.step(DRIVE_BUDGET),
        };
        loop {
            let worked = step();
            executor.run_model();
            if poll(None) || deadline.is_some_and(thread::is_past) {
                return true;
            }
            let mut is_ready = false;
            let mut leave = |waker: &Waker| {
                is_ready = poll(Some(waker));
                is_ready
            };
            if !worked {
                executor.rest_after(step, deadline, &mut leave);
            }
            if is_ready {
                return true;
            }
        }
    }

    fn leaves_waker(&self) {
        self.0.leaves_waker();
    }

    fn sends_code(&self) {
        if !self.is_driven() {
            self.0.sends_code();
        }
    }

    fn execute(&self, job: Job) {
        let (executor, gone) = (&self.0, &self.0.end.gone);
        if !self.is_driven() {
            return executor.user_code.execute(job);
        }
        if gone.has_no_callbacks() {
            // No thread pumps any more, so run the job on this one.
            return run_job(job);
        }
        executor.user_code.execute(job);
        // The caller need not drive the device, so wake the threads that do.
        executor.ring();
        // A close may have run the last jobs already. Either it found this job, or it has emptied the list before, and
        // then `has_no_callbacks` is visible here: the lock of the list orders the two.
        if gone.has_no_callbacks() {
            executor.run_user_code(usize::MAX, None);
        }
    }

    fn awaited(&self) {
        self.0.set_awaited();
    }

    fn looked(&self) {
        self.0.edges.acquire();
    }
}

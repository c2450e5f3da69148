//! The channel of a driven device, as clients use it: a caller that finds the mailbox full takes the messages itself.

use std::task::{Poll, Waker};
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::channel::{ComputeChannel, Job, Refusal};
use millstream_protocol::marks::{is_runtime_thread, runs_user_code};
use millstream_protocol::message::Task;
use millstream_sync::facade::{lock, with_stack};
use millstream_sync::mailbox::{Refused, Reserved, RoomPlace};

use super::inline::UserJob;
use super::inside::is_inside;
use super::{DRIVE_BUDGET, Direct, DirectChannel, UserCode};
use crate::host::run_job;

impl<B: Backend> Direct<B> {
    fn reserve_now(&self) -> Result<Reserved<Task>, Refusal> {
        // Before the slot is reserved, which is what orders the messages of threads: a model must explore both orders.
        self.edges.release();
        self.sender.try_reserve().map_err(|refused| match refused {
            Refused::Full => Refusal::Full,
            Refused::Closed => Refusal::Closed,
        })
    }

    /// Makes room in the mailbox, for a caller that found it full and is not inside. Returns `true` if anything was
    /// done. Called by user code it runs no other user code, which could fill the mailbox and nest here.
    fn make_room(&self) -> bool {
        if !runs_user_code() {
            return self.step(DRIVE_BUDGET);
        }
        let (worked, again) = self.turn_with(false, |core| with_stack(|| core.take_messages()));
        if again && !worked {
            // The thread that found the device busy needs a whole step.
            self.idle.bell.ring();
        }
        worked
    }
}

impl<B: Backend> ComputeChannel for DirectChannel<B> {
    fn reserve(&self) -> Result<Reserved<Task>, Refusal> {
        let reserved = loop {
            match self.reserve_now() {
                // The thread inside would have to make the room itself.
                Err(Refusal::Full) if is_inside() => break Err(Refusal::NoWait),
                Err(Refusal::Full) if self.make_room() => {}
                // Another thread is inside and will take the messages. User code may wait for that: the thread inside
                // never waits for room or for user code (decision 29).
                Err(Refusal::Full) if is_runtime_thread() && !runs_user_code() => {
                    break Err(Refusal::NoWait);
                }
                Err(Refusal::Full) => {
                    let mut outcome = Err(Refusal::Full);
                    self.rest_after(|| self.make_room(), None, &mut |_| {
                        outcome = self.reserve_now();
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
            self.run_model();
        }
        reserved
    }

    fn try_reserve(&self) -> Result<Reserved<Task>, Refusal> {
        let mut reserved = self.reserve_now();
        // Retrying later helps user code only if another thread pumps, so make room now.
        let is_alone = runs_user_code() && !is_inside();
        if matches!(reserved, Err(Refusal::Full)) && is_alone && self.make_room() {
            reserved = self.reserve_now();
        }
        if reserved.is_err() {
            self.run_model();
        }
        reserved
    }

    unsafe fn commit(&self, slot: Reserved<Task>) {
        // SAFETY: the caller's promise.
        unsafe { self.sender.commit(slot, || false) };
        self.run_model();
    }

    fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Refusal>> {
        let polled = self.sender.poll_room(place, waker);
        polled.map_err(|_closed| Refusal::Closed)
    }

    fn leave_room(&self, place: RoomPlace) {
        self.sender.leave_room(place);
    }

    fn depth(&self) -> usize {
        self.sender.depth()
    }

    fn is_driven(&self) -> bool {
        true
    }

    fn drive(&self) -> Option<bool> {
        let worked = self.step(DRIVE_BUDGET);
        self.run_model();
        Some(worked)
    }

    fn drive_until(&self, deadline: Instant) -> Option<bool> {
        let worked = self.step_timed(deadline);
        self.run_model();
        Some(worked)
    }

    fn rest(&self, deadline: Option<Instant>, ready: &mut dyn FnMut(&Waker) -> bool) {
        let step = || match deadline {
            Some(deadline) => self.step_timed(deadline),
            None => self.step(DRIVE_BUDGET),
        };
        self.rest_after(step, deadline, ready);
    }

    fn execute(&self, job: Job) {
        if self.gone.has_no_callbacks() {
            // No thread pumps any more, so run the job on this one.
            return run_job(job);
        }
        lock(&self.due).push_back(UserJob::Run(job));
        // The caller need not drive the device, so wake the threads that do.
        self.idle.bell.ring();
        // A close may have run the last jobs already. Either it found this job, or it has emptied the list before, and
        // then `has_no_callbacks` is visible here: the lock of the list orders the two.
        if self.gone.has_no_callbacks() {
            self.run_user_code(UserCode::All);
        }
    }

    fn awaited(&self) {
        self.idle.set_awaited();
        self.run_model();
    }

    fn looked(&self) {
        self.edges.acquire();
    }
}

//! Room: credit that calls take for what is on its way, and how they wait for it (I8, I12).
//!
//! A thread of the runtime does not wait for credit: what gives it back may be a task behind a host function, or a callback, that needs
//! this very thread. So code on such a thread goes beyond the limit, up to a headroom. Room in the mailbox needs no such thread, so
//! callbacks wait for that (decision 32).

use std::sync::Arc;
use std::task::{Poll, Waker};

use millstream_protocol::error::{Error, Full};
use millstream_protocol::marks::is_runtime_thread;
use millstream_sync::credit::{AcquireError, Credit};
use millstream_sync::facade::THREADS;

use crate::{DeviceShared, Seat};

/// Credit taken by a thing on its way. It travels with the thing and is given back with it.
pub(crate) struct Room {
    credit: Arc<Credit>,
    amount: u64,
}

impl Room {
    /// Credit that was taken already.
    pub(super) fn taken(credit: &Arc<Credit>, amount: u64) -> Self {
        Self {
            credit: credit.clone(),
            amount,
        }
    }

    /// Leaves the credit taken: the caller gives it back by itself.
    pub(super) fn keep(mut self) {
        self.amount = 0;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.credit.release(self.amount);
    }
}

/// Who asked, and so whose room is taken: a client, or somebody who asks the device itself.
#[derive(Clone)]
pub(crate) enum Home {
    Client(Arc<Seat>),
    Device(Arc<DeviceShared>),
}

impl Home {
    #[inline]
    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        match self {
            Home::Client(seat) => &seat.device,
            Home::Device(device) => device,
        }
    }

    /// Room for one more callback, on a device that has threads for user code.
    pub(crate) fn callback_room(&self, wait: bool) -> Result<Room, Error> {
        self.device().check_callbacks()?;
        self.job_room(wait)
    }

    /// Room for one more host function, callback or value that is to be dropped.
    pub(crate) fn job_room(&self, wait: bool) -> Result<Room, Error> {
        let jobs = match self {
            Home::Client(seat) => &seat.jobs,
            Home::Device(device) => device.jobs(),
        };
        let headroom = self.device().settings().callback_headroom;
        self.device()
            .room(wait, jobs, (1, headroom), || full_of_jobs(jobs))
    }
}

/// That a client has no room for another job.
pub(super) fn full_of_jobs(jobs: &Credit) -> Full {
    Full::Jobs {
        in_use: jobs.in_use(),
        limit: jobs.limit(),
    }
}

impl DeviceShared {
    /// Takes `amount` of `credit` until the room is dropped. Waits for it if `wait`; a thread of the runtime takes it beyond the limit,
    /// up to `headroom`.
    pub(crate) fn room(
        &self,
        wait: bool,
        credit: &Arc<Credit>,
        (amount, headroom): (u64, u64),
        full: impl FnOnce() -> Full,
    ) -> Result<Room, Error> {
        if !THREADS {
            // In a model what others give back is there, or not yet.
            self.channel().looked();
        }
        if credit.try_acquire(amount).is_err() {
            self.wait_for_credit(wait, credit, (amount, headroom), full)?;
        }
        Ok(Room::taken(credit, amount))
    }

    /// Takes `amount` of `credit` once there is so much, or says what is `full` unless `wait`. Waiting on
    /// a driven device is driving it. A thread of the runtime does not wait: it may go `headroom` beyond the limit.
    #[cold]
    pub(crate) fn wait_for_credit(
        &self,
        wait: bool,
        credit: &Credit,
        (amount, headroom): (u64, u64),
        full: impl FnOnce() -> Full,
    ) -> Result<(), Error> {
        if credit.has_ended() {
            return Err(self.gone());
        }
        if headroom > 0 && is_runtime_thread() {
            let taken = credit.try_acquire_beyond(amount, headroom);
            return taken.map_err(|_| Error::NoRoomHere { what: full() });
        }
        if !self.may_wait(wait) {
            return Err(self.no_room(wait, full()));
        }
        let span = tracing::debug_span!(target: "millstream", "wait_for_room", amount);
        let _entered = span.enter();
        let told = |outcome: Result<(), AcquireError>| outcome.map_err(|_| self.gone());
        let mut place = credit.place(amount);
        if let Some(outcome) = self.drive_until(|waker| place.poll(waker)) {
            return told(outcome);
        }
        drop(place);
        told(credit.acquire(amount, self.spin()))
    }

    /// May a call that finds no room wait, which waits if `wait`?
    pub(super) fn may_wait(&self, wait: bool) -> bool {
        wait && !is_runtime_thread()
    }

    /// Why a call that may not wait, which would if `wait`, finds no room.
    pub(super) fn no_room(&self, wait: bool, what: Full) -> Error {
        match wait {
            true => Error::NoRoomHere { what },
            false => Error::Busy { what },
        }
    }

    /// Drives a driven device until `poll` is ready; it is given a waker where this sleeps. `None` from a device that runs by itself.
    pub(super) fn drive_until<T>(&self, mut poll: impl FnMut(&Waker) -> Poll<T>) -> Option<T> {
        while let Some(worked) = self.channel().drive() {
            let mut outcome = poll(Waker::noop());
            if outcome.is_pending() && !worked {
                self.channel().rest(None, &mut |waker| {
                    outcome = poll(waker);
                    outcome.is_ready()
                });
            }
            if let Poll::Ready(outcome) = outcome {
                return Some(outcome);
            }
        }
        None
    }
}

//! Back-pressure: how a call acquires capacity, and what it does if there is none (I8, I12).
//!
//! # What is bounded
//! | capacity | limit | what releases it |
//! | --- | --- | --- |
//! | slots of the table | `max_handles` | completed tasks of dropped slices: see `room` |
//! | memory of a client | `hard_limit` | completed tasks of dropped slices: see `room`; with `AtLimit::Wait` also drops |
//! | uploads and jobs of a client | `max_upload_bytes`, `max_jobs` | the task's completion; the end of the user code |
//! | tasks of a stream or client | `max_held`, `max_tasks` | issuing a task to its queue |
//! | messages in the mailbox | `mailbox_capacity` | the device's turn, which never waits |
//!
//! A call that blocks acquires its capacity in this order. A [`Permit`] holds credit for as long as the work is in flight, travels
//! with the work, and releases the credit when it is dropped.
//!
//! # What a call does if there is no capacity
//! | stream | application thread | callback, host function | kernel, destructor, waker |
//! | --- | --- | --- | --- |
//! | plain | blocks, or drives | mailbox: blocks; credit: exceeds | mailbox: `NoRoomHere`; credit: exceeds |
//! | `nowait` | returns `Busy` | mailbox: `Busy`; credit: exceeds | the same |
//! | `when_ready` | awaits | awaits | awaits |
//!
//! A thread of the runtime never waits for credit: the credit may be released only by a task behind a host function, or
//! by a callback, that needs this very thread. So it exceeds the limit by up to a headroom, and beyond that gets
//! `NoRoomHere`; `hard_limit` has no headroom. The device's turn makes room in the mailbox and does not need a thread
//! of user code, so callbacks may wait for it (decision 29).
//!
//! # Example: a full stream
//! ```text
//!  thread A                                  thread B                        device thread
//!  try_acquire(1): full
//!  acquire(1): enters the wait list, parks
//!                                            try_acquire(1): others wait
//!                                            acquire(1): behind A, parks
//!                                                                            issues a task: releases 1, grants it to A
//!  wakes with the credit
//!  reserves a mailbox slot, sends
//! ```
//! Credit is granted in the order of the wait list, so no caller starves.
//!
//! The models `credit`, `mailbox` and `slots` of `loom-tests` and its `actors/pressure` check the waits; the modules
//! `back_pressure`, `when_ready`, `callbacks` and `memory` of the conformance suite check the table above.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use millstream_protocol::{Error, Full, marks::is_runtime_thread};
use millstream_sync::credit::{AcquireError, Credit, Exceeded};
use millstream_sync::facade::THREADS;

use crate::{ClientEpoch, DeviceShared};

/// Credit held by work in flight. It moves with the work and is released when dropped.
pub(crate) struct Permit {
    credit: Arc<Credit>,
    amount: u64,
}

impl Permit {
    /// Wraps credit that was acquired already.
    pub(super) fn new(credit: &Arc<Credit>, amount: u64) -> Self {
        Self {
            credit: credit.clone(),
            amount,
        }
    }

    /// Splits off `amount`, or what is left if that is less.
    pub(super) fn split(&mut self, amount: u64) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Self::new(&self.credit, amount)
    }

    /// Drops the permit without releasing the credit: something else releases it.
    pub(super) fn forget(mut self) {
        self.amount = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.credit.release(self.amount);
    }
}

/// Where a request came from, and so whose limits it counts towards: a client, or the device itself.
#[derive(Clone)]
pub(crate) enum Requester {
    Client(Arc<ClientEpoch>),
    Device(Arc<DeviceShared>),
}

impl Requester {
    #[inline]
    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        match self {
            Requester::Client(epoch) => &epoch.device,
            Requester::Device(device) => device,
        }
    }

    /// Acquires a permit for one more callback, on a device that has threads for user code.
    pub(crate) fn callback_permit(&self, blocks: bool) -> Result<Permit, Error> {
        let device = self.device();
        device.check_callbacks()?;
        let jobs = match self {
            Requester::Client(epoch) => &epoch.jobs,
            Requester::Device(device) => &device.jobs,
        };
        if let Some(permit) = device.try_permit(jobs, 1) {
            return Ok(permit);
        }
        let wait = Wait {
            blocks,
            is_ahead: false,
            deadline: None,
        };
        let amount = (1, device.settings().callback_headroom);
        device.wait_for_credit(wait, jobs, amount, jobs_full)?;
        Ok(Permit::new(jobs, 1))
    }
}

/// How a call waits for capacity.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    /// Whether it blocks if there is none.
    pub(crate) blocks: bool,
    /// Whether it waits ahead of requests that do not.
    pub(crate) is_ahead: bool,
    /// The end of the wait.
    pub(crate) deadline: Option<Instant>,
}

/// Describes the client's jobs as full.
pub(super) fn jobs_full(Exceeded { in_use, limit }: Exceeded) -> Full {
    Full::Jobs { in_use, limit }
}

impl DeviceShared {
    /// Acquires `amount` of `credit` until the permit is dropped, if there is enough.
    pub(crate) fn try_permit(&self, credit: &Arc<Credit>, amount: u64) -> Option<Permit> {
        if !THREADS {
            // In a model: first observe everything that other threads released before this point.
            self.channel().looked();
        }
        let taken = credit.try_acquire(amount).ok();
        taken.map(|()| Permit::new(credit, amount))
    }

    /// Acquires `amount` of `credit`. If `wait` blocks, waits until there is enough, driving a driven device meanwhile;
    /// otherwise, and once the deadline has passed, returns what is `full`, as the last attempt saw it. A thread of the
    /// runtime does not block: it may exceed the limit by `headroom`.
    #[cold]
    pub(crate) fn wait_for_credit(
        &self,
        wait: Wait,
        credit: &Credit,
        (amount, headroom): (u64, u64),
        full: impl FnOnce(Exceeded) -> Full,
    ) -> Result<(), Error> {
        self.check_process()?;
        if credit.has_ended() {
            return Err(self.terminal_error());
        }
        if headroom > 0 && is_runtime_thread() {
            let taken = credit.try_acquire_beyond(amount, headroom);
            return taken.map_err(|seen| Error::NoRoomHere { what: full(seen) });
        }
        if !self.may_wait(wait.blocks) {
            let taken = credit.try_acquire(amount);
            return taken.map_err(|seen| self.no_room(wait.blocks, full(seen)));
        }
        let span = tracing::debug_span!(target: "millstream", "wait_for_room", amount);
        let _entered = span.enter();
        let finish = |outcome: Result<(), AcquireError>| outcome.map_err(|_| self.terminal_error());
        let mut place = credit.place(amount).ahead_if(wait.is_ahead);
        let outcome = match self.wait_until(wait.deadline, |waker| place.poll(waker)) {
            Waited::Ready(outcome) => Some(outcome),
            Waited::Late => {
                // While the place is in the queue, or was granted meanwhile, the last attempt would find no room.
                drop(place);
                None
            }
            Waited::Blocks => {
                drop(place);
                credit.acquire_in_order((amount, wait.is_ahead), self.spin(), wait.deadline)
            }
        };
        let late = || {
            let taken = credit.try_acquire(amount);
            taken.map_err(|seen| Error::Busy { what: full(seen) })
        };
        outcome.map_or_else(late, finish)
    }

    /// Whether a call that finds no room may block, given that its stream blocks if `wait`.
    pub(super) fn may_wait(&self, wait: bool) -> bool {
        wait && !is_runtime_thread()
    }

    /// Returns the error of a call that finds no room and may not block, given that its stream blocks if `wait`.
    pub(super) fn no_room(&self, wait: bool, what: Full) -> Error {
        match wait {
            true => Error::NoRoomHere { what },
            false => Error::Busy { what },
        }
    }

    /// Has the channel wait until `poll` is ready; `poll` receives a waker before the thread sleeps.
    pub(super) fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut poll: impl FnMut(&Waker) -> Poll<T>,
    ) -> Waited<T> {
        let mut outcome = Poll::Pending;
        let is_over = self.channel().wait(deadline, &mut |waker| {
            outcome = poll(waker.unwrap_or(Waker::noop()));
            outcome.is_ready()
        });
        match outcome {
            Poll::Ready(outcome) => Waited::Ready(outcome),
            Poll::Pending if is_over => Waited::Late,
            Poll::Pending => Waited::Blocks,
        }
    }
}

/// How a wait ended.
pub(super) enum Waited<T> {
    /// With what it waited for.
    Ready(T),
    /// Its deadline has passed.
    Late,
    /// A thread runs the device, so the caller must block elsewhere.
    Blocks,
}

//! Room that other calls free: a slot of the device's table, and memory within a client's hard limit (I8, I12). See
//! [`Availability`] and [`Charge`](millstream_protocol::Charge).

use std::task::{Poll, Waker};

use millstream_protocol::{AtLimit, Error, Full, MemoryError, SlotRef};
use millstream_sync::credit::Exceeded;
use millstream_sync::facade::THREADS;
use millstream_sync::slots::Availability;
use millstream_sync::timeline::{Ended, Timeline, WaitKey};

use crate::backpressure::Waited;
use crate::create::NewSlice;
use crate::{DeviceShared, Stream};

impl DeviceShared {
    /// Acquires a slot. If the table is full and `wait` is set, blocks until a dropped slot whose tasks were still
    /// running returns to the table.
    ///
    /// # Errors
    /// [`MemoryError::TooManyHandles`] if live handles hold every slot; otherwise the errors of any wait for capacity.
    #[inline]
    pub(crate) fn slot(&self, wait: bool) -> Result<SlotRef, Error> {
        self.check_process()?;
        match self.table().acquire() {
            Ok(hold) => Ok(hold),
            Err(_) => self.slot_slow(wait),
        }
    }

    #[cold]
    fn slot_slow(&self, wait: bool) -> Result<SlotRef, Error> {
        let table = self.table();
        loop {
            if !THREADS {
                // In a model: first observe everything that other threads dropped before this point.
                self.channel().looked();
            }
            let limit = self.settings().max_handles;
            if table.returns().has_ended() {
                return Err(self.terminal_error());
            }
            let cursor = match (table.availability(), table.acquire()) {
                (_, Ok(hold)) => return Ok(hold),
                (Availability::Free, _) => continue,
                (Availability::Held, _) => return Err(MemoryError::TooManyHandles { limit }.into()),
                (Availability::Returning { held, cursor }, _) => match self.may_wait(wait) {
                    true => cursor,
                    false => return Err(self.no_room(wait, Full::Handles { held, limit })),
                },
            };
            self.wait_for_slot(cursor)
                .map_err(|Ended| self.terminal_error())?;
        }
    }

    /// Blocks until a slot has returned to the table. Drives a driven device meanwhile.
    fn wait_for_slot(&self, cursor: u64) -> Result<(), Ended> {
        let span = tracing::debug_span!(target: "millstream", "wait_for_slot");
        let _entered = span.enter();
        let mut wait_for_return = self.slot_wait(cursor);
        match self.wait_until(None, |waker| wait_for_return.poll(waker)) {
            Waited::Ready(outcome) => outcome,
            Waited::Late | Waited::Blocks => self.table().returns().wait(cursor, self.spin()),
        }
    }

    /// Returns the wait for a slot if slots will return; for a call that failed with [`Error::Busy`].
    pub(super) fn slot_returns(&self) -> Option<SlotWait<'_>> {
        match self.table().availability() {
            Availability::Returning { cursor, .. } => Some(self.slot_wait(cursor)),
            Availability::Free | Availability::Held => None,
        }
    }

    fn slot_wait(&self, cursor: u64) -> SlotWait<'_> {
        SlotWait {
            returns: self.table().returns(),
            cursor,
            key: None,
        }
    }
}

/// A wait for a slot by polling. Dropping it removes its waker from the timeline.
pub(super) struct SlotWait<'a> {
    returns: &'a Timeline,
    cursor: u64,
    /// The key of the registered waker.
    key: Option<WaitKey>,
}

impl SlotWait<'_> {
    /// Ready once a slot has returned or the device has ended; otherwise registers `waker`.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), Ended>> {
        if let Some(key) = self.key
            && self.returns.replace(key, waker)
        {
            return Poll::Pending;
        }
        self.key = self.returns.register(self.cursor, waker);
        match self.key {
            Some(_) => Poll::Pending,
            None if self.returns.completed() >= self.cursor => Poll::Ready(Ok(())),
            None => Poll::Ready(Err(Ended)),
        }
    }
}

impl Drop for SlotWait<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.returns.cancel(key);
        }
    }
}

// Charges slices to their client's hard limit, and waits for memory to be freed: see
// `Charge`.

impl Stream {
    /// Charges slices to their client's limit, together, before the first handle of one exists. Blocks, unless the
    /// stream does not, until enough memory has been freed, at most until the deadline of the stream.
    ///
    /// # Errors
    /// [`MemoryError::AboveLimit`] if there is never room. [`MemoryError::Limit`] if live handles leave no room and the
    /// client does not wait for that. Otherwise the errors of any wait for capacity.
    pub(crate) fn charge(&self, slices: &[NewSlice]) -> Result<(), Error> {
        let lengths = slices.iter().map(|slice| slice.binding().len);
        let bytes = lengths.fold(0_u64, u64::saturating_add);
        let limit = self.epoch().limit.as_ref();
        let Some(limit) = limit.filter(|_| bytes > 0) else {
            return Ok(());
        };
        if !THREADS {
            // In a model: first observe everything that other threads dropped before this point.
            self.device().channel().looked();
        }
        let client = || self.client().shared.name.clone();
        if bytes > limit.memory.limit() {
            return Err(Error::Memory(MemoryError::AboveLimit {
                client: client(),
                requested: bytes,
                limit: limit.memory.limit(),
            }));
        }
        if limit.at_limit == AtLimit::Fail {
            let live = limit.handles.try_acquire(bytes);
            live.map_err(|full| MemoryError::Limit {
                client: client(),
                requested: bytes,
                in_use: full.in_use,
                limit: full.limit,
            })?;
        }
        let full = |seen: Exceeded| Full::Memory {
            requested: bytes,
            in_use: seen.in_use,
            limit: seen.limit,
        };
        match self.permit(self.deadline(), &limit.memory, (bytes, 0), full) {
            // The charge releases the credit.
            Ok(permit) => permit.forget(),
            Err(error) => {
                if limit.at_limit == AtLimit::Fail {
                    limit.handles.release(bytes);
                }
                return Err(error);
            }
        }
        slices
            .iter()
            .for_each(|slice| slice.charge(limit, self.holding()));
        Ok(())
    }
}

//! Reopens a lost device in a new epoch.
//!
//! The `Device`, its driver and its clients stay; everything behind them is created anew. The lost epoch's
//! threads are ended first, and its backend is dropped if that is allowed, so that the device is free.

use std::time::{Duration, Instant};

use millstream_protocol::{Health, Open, Recovery, ReopenError, Report, marks::is_runtime_thread};
use millstream_sync::facade::lock;

use crate::device::{Device, Reopen};
use crate::epoch::{Opened, Running, open_epoch};
use crate::executor::closing::EpochEnd;

/// How long reopening waits for user code and threads of the lost epoch. What has not ended by then keeps
/// what it uses; a guard keeps its memory.
const PATIENCE: Duration = Duration::from_secs(1);

/// The error if the device was closed while it was being reopened.
const CLOSED_MEANWHILE: ReopenError = ReopenError::NotLost {
    health: Health::Closed,
};

/// Returns a function that opens a device of this kind again.
pub(crate) fn reopen_fn<O: Open>(kind: &O) -> Reopen {
    let options = kind.again();
    Box::new(move |device| match options.as_ref().and_then(Open::again) {
        Some(kind) => device.begin_epoch(kind),
        None => Err(ReopenError::Options { backend: O::NAME }),
    })
}

impl Device {
    /// Reopens a lost device with the options that it was last opened with, and reports what the lost epoch
    /// left behind.
    ///
    /// Clients stay valid: they make new objects in the new epoch, and their hard limits start empty,
    /// since all charges of the lost epoch were released. Streams, handles, kernels and recordings of the
    /// lost epoch still return [`Error::DeviceLost`](millstream_protocol::Error::DeviceLost) with its
    /// number.
    ///
    /// Blocks while the device is opened, and before that for up to about a second while user code of the lost epoch
    /// still runs. Memory that a guard ([`Stream::get_resource`](millstream_client::Stream::get_resource))
    /// still accesses then is never freed.
    ///
    /// # Errors
    /// [`ReopenError`]: the device is not lost, or this process cannot reopen it; or opening failed, and then this
    /// may be tried again.
    pub fn reopen(&self) -> Result<Report, ReopenError> {
        self.check_caller()?;
        let reopen_fn = lock(&self.reopen_fn);
        reopen_fn(self)
    }

    /// As [`Device::reopen`], with other options. It must be the same device: its properties must not differ.
    ///
    /// # Errors
    /// Same as [`Device::reopen`].
    pub fn reopen_with<O: Open>(&self, kind: O) -> Result<Report, ReopenError> {
        self.check_caller()?;
        let mut current = lock(&self.reopen_fn);
        let next = reopen_fn(&kind);
        let report = self.begin_epoch(kind)?;
        *current = next;
        Ok(report)
    }

    /// Returns an error on a thread of the runtime, which would wait for itself, and in a forked child, where a thread of the
    /// parent may hold the locks.
    fn check_caller(&self) -> Result<(), ReopenError> {
        if !self.epochs.health_state().is_of_this_process() {
            return Err(CLOSED_MEANWHILE);
        }
        match is_runtime_thread() {
            true => Err(ReopenError::WouldDeadlock),
            false => Ok(()),
        }
    }

    fn begin_epoch<O: Open>(&self, kind: O) -> Result<Report, ReopenError> {
        let epoch = match self.health() {
            Health::Lost {
                epoch,
                recovery: Recovery::SameProcess,
            } => epoch + 1,
            Health::Lost { .. } => return Err(ReopenError::NewProcess),
            health => return Err(ReopenError::NotLost { health }),
        };
        let report = self.end_epoch()?;
        let before = self.epochs.current();
        let end = EpochEnd::of(epoch, self.epochs.health_state());
        let is_driven = lock(&self.running).driven.is_some();
        let opened = open_epoch(kind, &self.options, is_driven, end, Some(&before))?;
        match self.install(opened) {
            true => Ok(report),
            false => Err(CLOSED_MEANWHILE),
        }
    }

    /// Ends the remaining threads and user code of the lost epoch.
    fn end_epoch(&self) -> Result<Report, ReopenError> {
        let deadline = Instant::now() + PATIENCE;
        let runs = {
            let mut running = lock(&self.running);
            if running.closed {
                // The closing thread ends the lost epoch, perhaps at this moment; two epochs must not share a device.
                return Err(CLOSED_MEANWHILE);
            }
            running.begin_close(deadline);
            (running.thread.take(), running.driven.clone())
        };
        // Nothing to report if the lost epoch had ended before, and opening failed then.
        Ok(Running::finish(runs, deadline))
    }

    /// Installs the new epoch. If the device was closed meanwhile, closes the epoch and returns `false`.
    fn install(&self, opened: Opened) -> bool {
        let Opened {
            shared,
            running: next,
        } = opened;
        let mut running = lock(&self.running);
        if running.closed {
            drop(running);
            let now = Instant::now();
            next.begin_close(now);
            Running::finish((next.thread, next.driven), now);
            return false;
        }
        let ended = std::mem::replace(&mut *running, next);
        drop(running);
        drop(ended);
        self.epochs.begin_epoch(shared);
        true
    }
}

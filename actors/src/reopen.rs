//! Reopening: a lost device begins another epoch.
//!
//! The `Device`, its driver and its clients stay; everything behind them is made anew. The lost epoch's
//! threads are ended first, and its backend is dropped where that may be, so that the device is free.

use std::time::{Duration, Instant};

use millstream_protocol::backend::Open;
use millstream_protocol::error::ReopenError;
use millstream_protocol::health::{Health, Recovery};
use millstream_protocol::marks::is_runtime_thread;
use millstream_protocol::report::Report;
use millstream_sync::facade::lock;

use crate::device::{Again, Device};
use crate::epoch::{Closing, Opened, open_driven, open_threads};
use crate::mailbox::End;

/// How long reopening waits for user code and threads of the lost epoch. What has not ended by then keeps
/// what it uses: a guard that is still held, its memory.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is told of a device that was closed while it was to be opened again.
const CLOSED_MEANWHILE: ReopenError = ReopenError::NotLost {
    health: Health::Closed,
};

/// How a device of this kind is opened again.
pub(crate) fn again<O: Open>(kind: &O) -> Again {
    let kept = kind.again();
    Box::new(move |device| match kept.as_ref().and_then(Open::again) {
        Some(kind) => device.begin_epoch(kind),
        None => Err(ReopenError::Options { backend: O::NAME }),
    })
}

impl Device {
    /// Opens a lost device again, with the options that it was opened with last, and says what the lost epoch
    /// has left.
    ///
    /// Clients go on: what they make from here on is of the new epoch, and their hard limits are theirs again,
    /// for all that the lost epoch was charged was credited. Streams, handles, kernels and recordings of the
    /// lost epoch go on answering [`Error::DeviceLost`](millstream_protocol::error::Error::DeviceLost) with its
    /// number.
    ///
    /// Blocks while the device is opened, and before that up to about a second for user code of the lost epoch
    /// that still runs. Memory that a guard ([`Stream::get_resource`](millstream_client::Stream::get_resource))
    /// still looks at then is never freed.
    ///
    /// # Errors
    /// [`ReopenError`]: it is not lost, or not for this process to open; it cannot be opened, and then this
    /// may be tried again.
    pub fn reopen(&self) -> Result<Report, ReopenError> {
        self.check_thread()?;
        let again = lock(&self.again);
        again(self)
    }

    /// As [`Device::reopen`], with other options. It must be the same device: its properties may not differ.
    ///
    /// # Errors
    /// As [`Device::reopen`].
    pub fn reopen_with<O: Open>(&self, kind: O) -> Result<Report, ReopenError> {
        self.check_thread()?;
        let mut kept = lock(&self.again);
        let next = again(&kind);
        let report = self.begin_epoch(kind)?;
        *kept = next;
        Ok(report)
    }

    /// A thread of the runtime would wait for itself.
    fn check_thread(&self) -> Result<(), ReopenError> {
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
        let end = End::of(epoch, self.epochs.vitals());
        let installed = match &self.wheel {
            None => {
                let opened = open_threads(kind, &self.options, end, Some(&before))?;
                self.install(opened)
            }
            Some(wheel) => {
                let (opened, driven) = open_driven(kind, &self.options, end, Some(&before))?;
                wheel.replace(driven) && self.install(opened)
            }
        };
        match installed {
            true => Ok(report),
            false => Err(CLOSED_MEANWHILE),
        }
    }

    /// Ends what still runs of the lost epoch.
    fn end_epoch(&self) -> Result<Report, ReopenError> {
        let deadline = Instant::now() + PATIENCE;
        let thread = {
            let mut running = lock(&self.running);
            if running.closed {
                // Whoever closes it ends the lost epoch, and may be at it yet: two epochs do not share a device.
                return Err(CLOSED_MEANWHILE);
            }
            running.begin_close(deadline);
            running.thread.take()
        };
        Ok(match (&self.wheel, thread) {
            (Some(wheel), _) => wheel.current().shut_down(Some(deadline)),
            (None, Some(thread)) => thread.report(),
            // It had ended before: opening failed then.
            (None, None) => Report::default(),
        })
    }

    /// The epoch begins, unless the device was closed meanwhile.
    fn install(&self, opened: Opened) -> bool {
        let Opened {
            shared,
            running: mut next,
        } = opened;
        let mut running = lock(&self.running);
        if running.closed {
            drop(running);
            next.begin_close(Instant::now());
            let _ = next.thread.take().map(Closing::report);
            return false;
        }
        *running = next;
        drop(running);
        self.epochs.begin_epoch(shared);
        true
    }
}

//! The device: its backend, and whether the device is lost or closed.
//!
//! Each call of the backend that may be refused or report a loss is a method here; [`call`] has the calls for one task.
//! The module knows no other one: tasks come with their bindings resolved, and the server passes points and cursors in.
//!
//! # Protocol
//!
//! ```text
//!           a call is refused: the failure of its task
//!           ┌──┐
//!           ▼  │
//!  ──new──► open ──────────────────────► lost      a call reports the loss, or a timeline ends: `mark_lost`
//!             │
//!             └────────────────────────► closed    the actor closes the device with tasks left: `close`
//! ```
//!
//! *Refused::Task*, *Refused::Panicked*: the call becomes the [failure](Failure) of its task. The server poisons what
//! the task would have written and marks its cursor, so the task keeps its place in the queue (I6, I7).
//!
//! *Refused::Lost*, `PageError::Lost`: [`Device::mark_lost`] ends the epoch, once, in this order:
//!
//! 1. It sets `is_lost`. From here on no page is allocated or freed, also in the step of the server that found the
//!    loss.
//! 2. It hands the submission log to [`DeviceStatus`].
//! 3. It sets the state that other threads read ([`DeviceStatus::set_lost`]). This comes last: a caller that sees the loss
//!    finds the log.
//!
//! The server answers callers only after the call returned, so each caller that receives `DeviceLost` finds the device
//! lost (I5). The actor then calls `Server::end_epoch`, which answers everything that is held.
//!
//! # What checks it
//!
//! `server/tests/device.rs` with a scripted backend; `no_page_is_freed_in_the_step_that_loses_the_device_i10` of
//! `server/tests/memory.rs`; the modules `loss` and `reopening` of the conformance suite, with the mutant
//! `invariants/i5_loss_without_answer`.

mod call;

use std::any::Any;
use std::sync::Arc;

use millstream_protocol::{
    Backend, BoundSlice, Cursor, DeviceStatus, Error, Failure, FailureRef, PageError, PageId,
    Point, Prepared, QueueId, Reason, Refused, Replay, SliceId, Task, Withdrawal,
};

use millstream_state::memory::{PageSource, Reservation};
use millstream_state::observers::log_writer::LogWriter;

/// A backend, and the end of its device.
pub(crate) struct Device<B: Backend> {
    pub(crate) backend: B,
    /// The state that other threads read: whether and why the device has ended.
    pub(crate) gone: Arc<DeviceStatus>,
    is_lost: bool,
    is_closed: bool,
    /// The submission log, if it is enabled. If the device is lost, [`DeviceStatus`] gets it.
    log: Option<Box<LogWriter>>,
}

impl<B: Backend> Device<B> {
    /// Creates the device of an opened backend, with the submission log if tasks are to be logged.
    pub(crate) fn new(backend: B, log: Option<Box<LogWriter>>) -> Self {
        Self {
            backend,
            gone: Arc::default(),
            is_lost: false,
            is_closed: false,
            log,
        }
    }

    /// Returns `true` if the device is lost.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns `true` if no task is issued any more, because the device is lost or closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_lost || self.is_closed
    }

    /// Returns `true` if the device was closed with tasks left.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes the device: no task is issued from here on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Records the loss of the device, once. Every thread can see it before any caller is answered.
    #[cold]
    pub(crate) fn mark_lost(&mut self, why: &str) {
        if self.is_lost {
            return;
        }
        self.is_lost = true;
        let recovery = self.backend.recovery();
        let (device, epoch) = (&self.backend.properties().name, self.gone.epoch());
        tracing::error!(target: "millstream::device", device, epoch, why, ?recovery, "the device is lost");
        // The log first: a caller that sees the loss finds the log.
        if let Some(log) = self.log.take().map(|mut log| log.take()) {
            self.gone.leave_log(log);
        }
        self.gone.set_lost(recovery);
    }

    /// Turns a refusal into the failure of the task `name`.
    #[cold]
    fn refusal(&mut self, name: &Arc<str>, refused: Refused) -> FailureRef {
        match refused {
            Refused::Task(why) => Failure::not_run(name, Reason::Refused(why)),
            Refused::Panicked(message) => Failure::panicked(name, message),
            Refused::Lost(why) => {
                self.mark_lost(&why);
                Failure::not_run(name, Reason::Lost)
            }
        }
    }

    /// Returns the error of a caller whose task failed or did not run: the loss or close of the device if it has ended;
    /// otherwise the failure at the root, not the failure of a task that did not run because of it.
    pub(crate) fn error_of(&self, failure: FailureRef) -> Error {
        match self.has_ended() {
            true => self.gone.error(),
            false => Error::Failed(failure.cause().unwrap_or(failure)),
        }
    }

    /// Returns the submission log, if it is enabled.
    #[inline]
    pub(crate) fn log(&mut self) -> Option<&mut LogWriter> {
        self.log.as_deref_mut()
    }

    /// Returns `true` if the submission log is enabled.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Lets the backend withdraw the next task, with the cursors from `point` to `last`, until the task begins. Not while
    /// the submission log is enabled, which names the withdrawn tasks in the order of the mailbox.
    #[inline]
    pub(crate) fn withdrawable(&mut self, task: &Task, point: Point, last: Cursor) {
        if B::WITHDRAWS_AT_BEGIN
            && self.log.is_none()
            && let Some(terms) = task.shared_terms()
        {
            let task = Withdrawal {
                terms,
                first: point.cursor,
                last,
                has_clock: !B::IS_SIMULATED,
            };
            self.backend.withdrawable(point.queue, task);
        }
    }

    /// Logs that a task was withdrawn, if the submission log is enabled.
    pub(crate) fn log_withdrawn(&mut self, task: &Task, reason: &Reason) {
        if let Some(log) = &mut self.log {
            log.note_withdrawn(task, reason);
        }
    }

    /// Marks `point` with an empty task, which completes like any other.
    #[inline]
    pub(crate) fn mark(&mut self, point: Point) {
        self.backend.mark(point.queue, point.cursor);
    }

    /// Makes `queue` wait: everything that is issued to it from here on runs after `point` of another queue. Returns
    /// `false` if the backend cannot wait; then the device is lost, since going on would break the order (I2).
    pub(crate) fn wait(&mut self, queue: QueueId, point: Point) -> bool {
        let outcome = self.backend.queue_wait(queue, point);
        if let Err(refused) = &outcome {
            self.mark_lost(&refused.to_string());
        }
        outcome.is_ok()
    }

    /// Returns the resources of the bindings of a host function or guard `name`.
    pub(crate) fn resources(
        &mut self,
        name: &Arc<str>,
        bound: &[BoundSlice],
    ) -> Result<Box<dyn Any + Send>, FailureRef> {
        match self.backend.resources(bound) {
            Ok(resources) => Ok(resources),
            Err(refused) => Err(self.refusal(name, refused)),
        }
    }

    /// Reports to the backend that a slice has this memory.
    pub(crate) fn slice_reserved(&mut self, slice: SliceId, memory: Reservation, bytes: u64) {
        self.backend
            .slice_reserved(slice, Some(memory.page), memory.offset, bytes);
    }

    /// Runs a part of a recording, or all of it if one call of the backend can. Returns the index of the first task that
    /// did not take its cursor, and the failure of the task before it if the backend refused that one.
    pub(crate) fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        prepared: &mut Prepared,
    ) -> (usize, Option<FailureRef>) {
        let issued = match replay.part.start {
            0 => self.backend.replay(replay, prepared),
            _ => replay.issue_part(&mut self.backend),
        };
        match issued {
            Ok(next) => (next, None),
            Err((index, refused)) => {
                let failure = self.refusal(&replay.plan.call(index).name, refused);
                (index + 1, Some(failure))
            }
        }
    }

    /// Runs task `index` of a recording, of this name.
    pub(crate) fn replay_one(
        &mut self,
        replay: &mut Replay<'_>,
        index: usize,
        name: &Arc<str>,
    ) -> Result<(), FailureRef> {
        let issued = replay.issue(&mut self.backend, index);
        issued.map_err(|refused| self.refusal(name, refused))
    }
}

/// The device as the source of pages, until it is lost.
impl<B: Backend> Device<B> {
    /// Returns what the backend keeps of freed pages to the device.
    pub(crate) fn trim(&mut self) {
        if !self.is_lost {
            self.backend.trim();
        }
    }
}

impl<B: Backend> PageSource for Device<B> {
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError> {
        if self.is_lost {
            return Err(PageError::Lost);
        }
        let span = tracing::debug_span!(target: "millstream", "allocate_page", bytes);
        let _entered = span.enter();
        self.backend.allocate(bytes).inspect_err(|error| {
            if *error == PageError::Lost {
                self.mark_lost("a page allocation reported the loss");
            }
        })
    }

    fn free_page(&mut self, page: PageId) {
        if !self.is_lost {
            self.backend.free(page);
        }
    }
}

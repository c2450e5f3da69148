//! The device: its backend, and whether the device is lost or closed.
//!
//! Every call of the backend is made here; [`call`] has those for one task. A call that is refused becomes the
//! [failure](Failure) of its task. A call that reports the loss of the device ends the epoch: [`Device::is_lost`] returns
//! `true` from then on, every other thread can see it before any caller is answered, and no page is allocated or freed any
//! more.
//!
//! The device knows no other machine: tasks come with their bindings resolved, points and cursors are given.

mod call;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use millstream_protocol::backend::{Backend, BoundSlice, Plan, Prepared, Replay, Span};
use millstream_protocol::error::{Error, Refused};
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::gone::Gone;
use millstream_protocol::id::{Cursor, Point, QueueId, SliceId};
use millstream_protocol::memory::{PageError, PageId};
use millstream_protocol::message::Task;

use crate::memory::{PageSource, Reservation};
use crate::observers::journal::Journal;

/// A backend and the end of its device.
pub(crate) struct Device<B: Backend> {
    backend: B,
    /// What other threads see of the end of the device.
    gone: Arc<Gone>,
    is_lost: bool,
    is_closed: bool,
    /// The submission log, if it is enabled. A lost device leaves it to [`Gone`].
    log: Option<Box<Journal>>,
}

impl<B: Backend> Device<B> {
    /// An opened backend, and the submission log if tasks are to be logged.
    pub(crate) fn new(backend: B, log: Option<Box<Journal>>) -> Self {
        Self {
            backend,
            gone: Arc::default(),
            is_lost: false,
            is_closed: false,
            log,
        }
    }

    /// Shares the end of the device with other threads through `gone`.
    pub(crate) fn share_end(&mut self, gone: Arc<Gone>) {
        self.gone = gone;
    }

    /// What other threads see of the end of the device.
    pub(crate) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Returns `true` if the device is lost.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns `true` if nothing is issued any more: the device is lost, or it was closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_lost || self.is_closed
    }

    /// Returns `true` if the device was closed with tasks left.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes the device: nothing is issued from here on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// The device is lost. Every thread can see it before any caller is answered.
    #[cold]
    pub(crate) fn lose(&mut self, why: &str) {
        if self.is_lost {
            return;
        }
        self.is_lost = true;
        let recovery = self.backend.recovery();
        let (device, epoch) = (&self.backend.properties().name, self.gone.epoch());
        tracing::error!(target: "millstream::device", device, epoch, why, ?recovery, "the device is lost");
        // The log first: a caller that sees the loss finds the log.
        if let Some(mut log) = self.log.take() {
            self.gone.leave_log(log.take());
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
                self.lose(&why);
                Failure::not_run(name, Reason::Lost)
            }
        }
    }

    /// The error of a caller whose task failed or did not run: the loss of the device, or the failure of the data, not that a
    /// task did not run over it.
    pub(crate) fn error_of(&self, failure: FailureRef) -> Error {
        match self.has_ended() {
            true => self.gone.error(),
            false => Error::Failed(failure.cause().unwrap_or(failure)),
        }
    }

    /// The submission log, if it is enabled.
    #[inline]
    pub(crate) fn log(&mut self) -> Option<&mut Journal> {
        self.log.as_deref_mut()
    }

    /// Returns `true` if the submission log is enabled.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Logs that a task was withdrawn, if the submission log is enabled.
    pub(crate) fn log_withdrawn(&mut self, task: &Task, reason: &Reason) {
        if let Some(log) = &mut self.log {
            log.note_withdrawn(task, reason);
        }
    }

    /// The backend, for the actors.
    pub(crate) fn backend(&self) -> &B {
        &self.backend
    }

    /// The same, mutable.
    pub(crate) fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// An empty task takes the place at `point`: its queue passes it like any other.
    #[inline]
    pub(crate) fn mark(&mut self, point: Point) {
        self.backend.mark(point.queue, point.cursor);
    }

    /// Hands a batch over: the event at its end, `cursor`, is recorded here and nowhere else.
    #[inline]
    pub(crate) fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        self.backend.flush(queue, cursor);
    }

    /// What `queue` is given from here on runs after `point` of another queue. Returns `false` if the backend cannot wait: then
    /// the device is lost, as going on would break the order (I2).
    pub(crate) fn wait(&mut self, queue: QueueId, point: Point) -> bool {
        let outcome = self.backend.queue_wait(queue, point);
        if let Err(refused) = &outcome {
            self.lose(&refused.to_string());
        }
        outcome.is_ok()
    }

    /// What a host function or a guard `name` may see of its bindings.
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

    /// A slice has this memory.
    pub(crate) fn slice_reserved(&mut self, slice: SliceId, memory: Reservation, bytes: u64) {
        self.backend
            .slice_reserved(slice, Some(memory.page), memory.offset, bytes);
    }

    /// A slice has no memory any more.
    pub(crate) fn slice_released(&mut self, slice: SliceId) {
        self.backend.slice_released(slice);
    }

    /// What the backend keeps of a recording for its replays.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> Prepared {
        self.backend.prepare(plan)
    }

    /// Runs a recording. Returns how many of its tasks have their place on the queue, and the failure of the last of these
    /// if the backend refused it.
    pub(crate) fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        plan: &Plan,
        prepared: &mut Prepared,
    ) -> (usize, Option<FailureRef>) {
        match self.backend.replay(replay, prepared) {
            Ok(()) => (plan.tasks().len(), None),
            Err((index, refused)) => {
                let failure = self.refusal(&plan.call(index).name, refused);
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

    /// The backend forgets run-time failures of these ranges, on this queue.
    pub(crate) fn forget(&mut self, queue: QueueId, ranges: &[BoundSlice]) {
        self.backend.forget(queue, ranges);
    }

    /// Takes the times of tasks that have completed.
    pub(crate) fn take_spans(&mut self) -> Vec<Span> {
        self.backend.take_spans()
    }

    /// Records up to `spans` times of tasks of a queue, or none. Returns how many tasks a queue may have in flight then.
    pub(crate) fn record_spans(&mut self, spans: usize) -> usize {
        self.backend.record_spans(spans)
    }
}

/// The device as the source of pages, until it is lost.
impl<B: Backend> PageSource for Device<B> {
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError> {
        if self.is_lost {
            return Err(PageError::Lost);
        }
        let span = tracing::debug_span!(target: "millstream", "allocate_page", bytes);
        let _entered = span.enter();
        self.backend.allocate(bytes).inspect_err(|error| {
            if *error == PageError::Lost {
                self.lose("it cannot allocate pages any more");
            }
        })
    }

    fn free_page(&mut self, page: PageId) {
        if !self.is_lost {
            self.backend.free(page);
        }
    }
}

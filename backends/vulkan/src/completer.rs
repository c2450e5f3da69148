//! The batches of a queue, and the code of the thread that completes them. [`millstream_gpu::Completer`] has the
//! protocol; here its event is a value of the queue's timeline semaphore: the cursor of the last batch that was submitted.
//!
//! A caller that has stepped in for the device thread may complete its batch itself: [`held`](crate::held).
//!
//! A driven device has no such threads: `Queue::poll` completes batches within `pump`, and callers wait by
//! [`waits`](crate::waits).
//!
//! If the wait fails, the device is lost. The thread ends all timelines ([`Shared::lose`]), which wakes every waiter with
//! the loss (I5). It keeps the batch and all later ones until the device is dropped, because the device may still use
//! their memory.

use std::any::Any;
use std::sync::Arc;

use millstream_gpu::BatchMemory;
use millstream_protocol::{Cursor, DeviceStatus, QueueId, Recovery};
use millstream_sync::channel::Receiver;
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::line::{Ends, Sent};
use millstream_sync::payload;
use millstream_sync::timeline::Timeline;

use crate::driver::{Code, Context, Mapped, TimelineSemaphore};
use crate::trace::{Timing, Tracer};

/// What the tasks of a batch need until the batch has completed.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) cursor: Cursor,
    /// The value of the queue's semaphore after the batch; that of an earlier batch if this one was not submitted.
    pub(crate) value: u64,
    pub(crate) memory: BatchMemory<Mapped>,
    /// What custom tasks keep.
    pub(crate) kept: Vec<Box<dyn Any + Send>>,
    /// The timed tasks, while spans are recorded.
    pub(crate) timings: Vec<Timing>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The error of a caller's wait for the batch.
    pub(crate) failed: Option<Code>,
}

impl Drop for Batch {
    /// Drops the values of users. A panic of their destructors ends here: it must not end the thread that completes the
    /// batch.
    fn drop(&mut self) {
        self.kept.drain(..).for_each(payload::end);
    }
}

/// The state that the device thread and the queue threads share.
pub(crate) struct Shared {
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    pub(crate) status: Arc<DeviceStatus>,
    /// Batches that were not completed because the device was lost.
    pub(crate) abandoned: Mutex<Vec<Batch>>,
    pub(crate) context: Arc<Context>,
}

impl Shared {
    /// Marks the device as lost and ends all timelines, which wakes every waiter.
    #[cold]
    pub(crate) fn lose(&self, why: &Code) {
        let fault = self.context.fault();
        let fault = fault.as_deref().unwrap_or("unknown");
        tracing::error!(target: "millstream::vulkan", %why, fault, "the device is lost");
        self.status.set_lost(Recovery::SameProcess);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }

    /// Keeps batches until [`Shared::drop_abandoned`].
    #[cold]
    fn abandon(&self, batches: impl Iterator<Item = Batch>) {
        batches.for_each(|batch| lock(&self.abandoned).push(batch));
    }

    /// Drops the batches of a lost device. The device must be idle.
    pub(crate) fn drop_abandoned(&self) {
        let batches = std::mem::take(&mut *lock(&self.abandoned));
        // Sources of uploads are values of users, whose destructors must not run under the lock.
        drop(batches);
    }
}

/// Completes the batches of a queue, in order. Runs on the thread of the queue.
pub(crate) fn serve<E: Ends<Batch = Batch>>(
    queue: QueueId,
    incoming: &Receiver<Sent<E>>,
    semaphore: &TimelineSemaphore,
    shared: &Shared,
) {
    let timeline = &shared.timelines[queue.index()];
    let mut reached = 0;
    while let Ok(sent) = incoming.recv() {
        let mut batches = sent.batches();
        while let Some(batch) = batches.next() {
            let waited = match batch.failed {
                Some(code) => Err(code),
                None if batch.value > reached => semaphore.wait(batch.value),
                None => Ok(()),
            };
            if let Err(code) = waited {
                shared.lose(&code);
                // Until the channel is closed: the device thread may submit more before it observes the loss.
                let later = std::iter::from_fn(|| incoming.recv().ok()).flat_map(Sent::batches);
                shared.abandon(std::iter::once(batch).chain(batches).chain(later));
                return;
            }
            reached = reached.max(batch.value);
            complete(queue, batch, timeline);
        }
    }
}

/// Completes a batch whose work has completed on the device.
pub(crate) fn complete(queue: QueueId, batch: Batch, timeline: &Timeline) {
    // SAFETY: the device has completed the copies, and a barrier has made their writes visible to the host; only this
    // code writes the landings before the cursor is published.
    unsafe { batch.memory.land() };
    if let Some(tracer) = &batch.tracer {
        tracer.complete(queue, &batch.timings);
    }
    let cursor = batch.cursor;
    // Before the publication: a device thread that observes the cursor reuses the blocks.
    drop(batch);
    timeline.publish(cursor);
}

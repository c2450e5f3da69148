//! The batches of a queue, and the code of the thread that completes them. [`millstream_gpu::Completer`] has the
//! protocol; here its event is a value of the queue's timeline semaphore: the cursor of the last batch that was submitted.
//!
//! A driven device has no such threads: `Queue::poll` completes batches within `pump`.
//!
//! If the wait fails, the device is lost. The thread ends all timelines ([`Shared::lose`]), which wakes every waiter with
//! the loss (I5), and leaks the batch, because the device may still write to its memory.

use std::sync::Arc;

use millstream_gpu::Readback;
use millstream_protocol::device_status::DeviceStatus;
use millstream_protocol::health::Recovery;
use millstream_protocol::id::{Cursor, QueueId};
use millstream_protocol::message::HostBytes;
use millstream_sync::channel::Receiver;
use millstream_sync::timeline::Timeline;

use crate::driver::{Code, Mapped, TimelineSemaphore};
use crate::trace::{Timing, Tracer};

/// A staging range of memory that host and device access.
pub(crate) type Staged = millstream_gpu::Staged<Mapped>;

/// What the tasks of a batch need until the batch has completed.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) cursor: Cursor,
    /// The value of the queue's semaphore after the batch; that of an earlier batch if this one was not submitted.
    pub(crate) value: u64,
    /// Empty for most batches, and then without an allocation.
    pub(crate) readbacks: Vec<Readback<Mapped>>,
    /// The staging ranges that uploads read from.
    pub(crate) staged: Vec<Staged>,
    /// The sources of uploads. The device reads those in mapped memory directly. Those that were copied to staging
    /// blocks are kept because they count against the client's limit of upload bytes, which bounds the number of blocks
    /// (I12).
    pub(crate) sources: Vec<Box<dyn HostBytes>>,
    /// The timed tasks, while spans are recorded.
    pub(crate) timings: Vec<Timing>,
    pub(crate) tracer: Option<Arc<Tracer>>,
}

/// The state that the device thread and the queue threads share.
pub(crate) struct Shared {
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    pub(crate) status: Arc<DeviceStatus>,
}

impl Shared {
    /// Marks the device as lost and ends all timelines, which wakes every waiter.
    #[cold]
    pub(crate) fn lose(&self, why: &Code) {
        tracing::error!(target: "millstream::vulkan", %why, "the device is lost");
        self.status.set_lost(Recovery::SameProcess);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }
}

/// Completes the batches of a queue, in order. Runs on the thread of the queue.
pub(crate) fn serve(
    queue: QueueId,
    incoming: &Receiver<Batch>,
    semaphore: &TimelineSemaphore,
    shared: &Shared,
) {
    let timeline = &shared.timelines[queue.index()];
    let mut reached = 0;
    while let Ok(batch) = incoming.recv() {
        if batch.value > reached {
            if let Err(code) = semaphore.wait(batch.value) {
                shared.lose(&code);
                // The device may still write to the memory of the batch.
                std::mem::forget(batch);
                return;
            }
            reached = batch.value;
        }
        complete(queue, batch, timeline);
    }
}

/// Completes a batch whose work has completed on the device.
pub(crate) fn complete(queue: QueueId, batch: Batch, timeline: &Timeline) {
    let Batch {
        cursor,
        value: _,
        readbacks,
        staged,
        sources,
        timings,
        tracer,
    } = batch;
    for readback in &readbacks {
        // SAFETY: the device has completed the copies, and a barrier has made their writes visible to the host; only
        // this code writes the landing before the cursor is published.
        unsafe { readback.land() };
    }
    if let Some(tracer) = tracer {
        tracer.complete(queue, &timings);
    }
    // Before the publication: a device thread that observes the cursor reuses the blocks.
    drop((readbacks, staged, sources));
    timeline.publish(cursor);
}

//! The batches of a queue, and the code of the thread that completes them. [`millstream_gpu::Completer`] has the
//! protocol; here its event is one of the driver, recorded after the batch ([`Queue::flush`](crate::queue::Queue::flush)).
//!
//! # Driven devices, host callbacks, loss
//!
//! A driven device has no queue threads: `Queue::poll` performs step 3 within `pump`. Callers poll, too: the driver
//! cannot wait for a bounded time (see [`CompletionWait`](millstream_protocol::CompletionWait)).
//!
//! The backend registers no host callbacks with the driver (`cuLaunchHostFunc`): a callback blocks its stream and must
//! not call the driver. Host functions and callbacks of users are tasks of the server. They wait for a timeline like
//! any client, and run on the runtime's threads.
//!
//! If the wait for an event fails, the context is destroyed. The thread ends all timelines ([`Shared::lose`]), which
//! wakes every waiter with the loss (I5), and leaks the batch, because the GPU may still write to its memory.
//!
//! # Tests
//!
//! `tests/cuda` runs this code on the fake driver. Its checker reports a block that is freed or reused before its copy
//! has completed; `moving` and `order` compare the bytes that land; `loss` and `driven` destroy the context at each
//! operation in turn and require an answer to every request; `allocations` counts allocations of the steady state. The
//! timeline itself has loom models (`loom-tests`).

use std::sync::Arc;

use millstream_gpu::BatchMemory;
use millstream_protocol::{Cursor, DeviceStatus, QueueId, Recovery};
use millstream_sync::channel::Receiver;
use millstream_sync::timeline::Timeline;

use crate::driver::{Code, Context, CuEvent, Pinned};
use crate::trace::{Timing, Tracer};

/// The tasks that one event covers.
pub(crate) struct Batch {
    pub(crate) cursor: Cursor,
    pub(crate) event: Arc<CuEvent>,
    pub(crate) needs: BatchNeeds,
}

/// What the tasks of a batch need until it completes.
#[derive(Default)]
pub(crate) struct BatchNeeds {
    pub(crate) memory: BatchMemory<Pinned>,
    /// The timed tasks, while spans are recorded.
    pub(crate) timings: Vec<Timing>,
    pub(crate) tracer: Option<Arc<Tracer>>,
}

/// The state that the device thread and the queue threads share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    pub(crate) gone: Arc<DeviceStatus>,
}

impl Shared {
    /// Marks the device as lost and ends all timelines, which wakes every waiter.
    #[cold]
    pub(crate) fn lose(&self, code: Code) {
        tracing::error!(target: "millstream::cuda", %code, "the context is destroyed; the device is lost");
        self.gone.set_lost(Recovery::NewProcess);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }
}

/// Completes the batches of a queue, in order. Runs on the thread of the queue.
pub(crate) fn serve(queue: QueueId, incoming: &Receiver<Batch>, shared: &Shared) {
    // A closing thread may run this if the engine that starts threads has not begun it.
    let _current = match shared.context.push_current() {
        Ok(current) => current,
        Err(code) => {
            shared.lose(code);
            return;
        }
    };
    let timeline = &shared.timelines[queue.index()];
    while let Ok(batch) = incoming.recv() {
        match batch.event.synchronize() {
            Ok(()) => complete(batch, queue, timeline),
            Err(code) => {
                shared.lose(code);
                // The GPU may still write to the memory of the batch.
                std::mem::forget(batch);
                return;
            }
        }
    }
}

/// Completes a batch whose work has completed on the GPU.
pub(crate) fn complete(batch: Batch, queue: QueueId, timeline: &Timeline) {
    let Batch {
        cursor,
        event,
        needs,
    } = batch;
    // SAFETY: the GPU has completed the copies; only this code writes the landings before the cursor is published.
    unsafe { needs.memory.land() };
    if let Some(tracer) = needs.tracer {
        tracer.complete(queue, needs.timings);
    }
    // Before the publication: a device thread that observes the cursor reuses the event and the blocks, and clients have
    // room for more uploads. None of the drops waits for the GPU: surplus pinned memory is retired (`driver::reaper`).
    drop((event, needs.memory));
    timeline.publish(cursor);
}

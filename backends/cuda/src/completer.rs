//! Completion: one thread per queue waits for the events of the queue's batches in order, copies readbacks to their
//! landings, and publishes the cursor on the queue's timeline.
//!
//! # Protocol
//!
//! A stream completes its work in order, so one event per batch suffices to follow it.
//!
//! 1. *Issue*, on the device thread: the tasks of a batch go to the stream. The queue collects what they use:
//!    readbacks, staging blocks, sources of uploads, timed events.
//! 2. *Flush*, on the device thread ([`Queue::flush`](crate::queue::Queue::flush)): records an event after the batch
//!    and sends a [`Batch`] with the event, the cursor and the collected resources to the queue thread. The channel
//!    holds as many batches as the queue may have tasks in flight, so sending never blocks.
//! 3. *Complete*, on the queue thread ([`serve`], [`complete`]): waits for the event in the driver, copies the
//!    readbacks, passes the timed events to the tracer, releases the resources, and publishes the cursor.
//! 4. *Wake*, inside [`Timeline::publish`]: wakes the threads and wakers whose cursor is reached.
//!
//! The queue thread sleeps in the driver while a batch is in flight, and in the channel otherwise (I11).
//!
//! ```text
//!  device thread             stream on the GPU          queue thread                client
//!  copy_out at cursor 6 ───► copies to a staging block
//!  launch at cursor 7 ─────► runs the kernel
//!  flush: records E,         ┆                          receives Batch { 7, E }
//!         sends the batch    ┆                          cuEventSynchronize(E)       waits for cursor 6
//!  issues the next batch     E completes ─────────────► returns                     ┆
//!                                                       staging block ► landing     ┆
//!                                                       releases E, the block       ┆
//!                                                       publish(7) ───────────────► wakes, takes the landing
//!  completed() = 7: reuses E and the block
//! ```
//!
//! # Orderings
//!
//! - The driver makes the GPU's writes to pinned memory visible before `cuEventSynchronize` returns.
//! - `publish` (release) pairs with `Timeline::completed` (acquire). A client that observes the cursor observes the
//!   bytes in its landing, and the queue thread does not touch the landing any more.
//! - The batch is dropped before the cursor is published. The device thread, when it observes the cursor, therefore
//!   finds the event and the blocks free, and the steady state allocates nothing (I9).
//! - A timeline has one publisher: the queue thread, or on a driven device the thread inside `pump`.
//!
//! # Driven devices, host callbacks, loss
//!
//! A driven device has no queue threads: `Queue::poll` performs step 3 within `pump`. If the GPU supports it, a word
//! that the GPU writes to host memory takes the place of the event (`word`), so that a poll is one load.
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

use millstream_protocol::device_status::DeviceStatus;
use millstream_protocol::error::OpenError;
use millstream_protocol::health::Recovery;
use millstream_protocol::id::{Cursor, QueueId};
use millstream_protocol::landing::Landing;
use millstream_protocol::layout::Strided;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::message::HostBytes;
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_sync::channel::{self, Receiver, Sender};
use millstream_sync::timeline::Timeline;

use crate::driver::{Class, Code, Context, CuEvent};
use crate::staging::{BLOCK_BYTES, Staged};
use crate::trace::Timings;

/// The tasks that one event covers, and the resources that they need until it completes.
pub(crate) struct Batch {
    pub(crate) cursor: Cursor,
    /// `None` if the GPU writes a word instead.
    pub(crate) event: Option<Arc<CuEvent>>,
    /// Empty for most batches, and then without an allocation.
    pub(crate) readbacks: Vec<Readback>,
    /// The staging ranges that uploads read from.
    pub(crate) staged: Vec<Staged>,
    /// The sources of uploads. The GPU reads those in pinned memory directly. Those that were copied to staging blocks
    /// are kept because they count against the client's limit of upload bytes, which bounds the number of blocks (I12).
    pub(crate) sources: Vec<Box<dyn HostBytes>>,
    /// The timed events of the tasks, while spans are recorded.
    pub(crate) timings: Option<Timings>,
}

/// A copy from the GPU to a client.
pub(crate) struct Readback {
    pub(crate) landing: Arc<dyn Landing>,
    /// The staging ranges that the GPU writes to, in order.
    pub(crate) blocks: Vec<Staged>,
    /// The requested bytes within the staging ranges; `None` if they are all requested.
    pub(crate) layout: Option<Strided>,
}

impl Readback {
    /// Copies the bytes from the staging ranges to the landing.
    fn land(&self) {
        let (target, room) = self.landing.target();
        match &self.layout {
            Some(layout) => layout.for_each_run(|strided, dense, bytes| {
                self.copy_run(
                    strided as usize,
                    target,
                    room,
                    dense as usize,
                    bytes as usize,
                );
            }),
            None => self.copy_run(
                0,
                target,
                room,
                0,
                self.blocks.iter().map(Staged::bytes).sum(),
            ),
        }
    }

    /// Copies `bytes` bytes from offset `start` of the staging ranges to offset `place` of the landing at `target`,
    /// which has `room` bytes.
    fn copy_run(&self, start: usize, target: *mut u8, room: usize, place: usize, bytes: usize) {
        let (mut start, mut place) = (start, place);
        let end = place.saturating_add(bytes).min(room);
        while place < end {
            let Some(staged) = self.blocks.get(start / BLOCK_BYTES) else {
                return;
            };
            let within = start % BLOCK_BYTES;
            let count = staged.bytes().saturating_sub(within).min(end - place);
            if count == 0 {
                return;
            }
            // SAFETY: the GPU has written the bytes (the event has completed); only this thread writes the landing
            // until the cursor is published; the two do not overlap, and `count` bytes are within both.
            unsafe {
                std::ptr::copy_nonoverlapping(staged.start().add(within), target.add(place), count);
            }
            (start, place) = (start + count, place + count);
        }
    }
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
    pub(crate) fn lose(&self, call: &str, code: Code) {
        tracing::error!(target: "millstream::cuda", call, %code, "the context is destroyed; the device is lost");
        self.gone.set_lost(Recovery::NewProcess);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }
}

/// The thread of a queue, and the channel to it.
pub(crate) struct Completer {
    batches: Option<Sender<Batch>>,
    thread: Option<Thread<()>>,
}

impl Completer {
    /// Starts the thread of `queue`, with a channel for `depth` batches.
    pub(crate) fn start(
        queue: QueueId,
        depth: usize,
        shared: Arc<Shared>,
        spawner: &Spawner,
    ) -> Result<Self, OpenError> {
        let (batches, incoming) = channel::bounded(depth);
        let name = format!("ms-cuda-queue-{}", queue.0);
        let body = move || serve(queue, &incoming, &shared);
        let thread = spawner.spawn(ThreadRole::Queue, &name, body)?;
        Ok(Self {
            batches: Some(batches),
            thread: Some(thread),
        })
    }

    /// Sends a batch to the thread. The channel is never full, because a queue has at most as many batches as tasks in
    /// flight. Returns the batch if the thread has ended.
    pub(crate) fn send(&self, batch: Batch) -> Result<(), Batch> {
        match &self.batches {
            Some(batches) => batches
                .try_send(batch)
                .map_err(channel::TrySendError::into_inner),
            None => Err(batch),
        }
    }
}

impl Drop for Completer {
    /// Joins the thread, which ends when all its batches have completed or the device is lost.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && !thread.is_current()
        {
            // The thread's code does not panic.
            let _ = thread.join();
        }
    }
}

fn serve(queue: QueueId, incoming: &Receiver<Batch>, shared: &Shared) {
    let _mark = mark_runtime_thread();
    if let Err(code) = shared.context.enter() {
        shared.lose("cuCtxSetCurrent", code);
        return;
    }
    let timeline = &shared.timelines[queue.index()];
    while let Ok(batch) = incoming.recv() {
        let waited = match &batch.event {
            Some(event) => event.synchronize(),
            None => Ok(()),
        };
        match waited {
            Ok(()) => complete(batch, queue, timeline),
            Err(code) => {
                debug_assert_ne!(
                    code.class(),
                    Class::NotReady,
                    "cuEventSynchronize waits until the event is ready"
                );
                shared.lose("cuEventSynchronize", code);
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
        readbacks,
        staged,
        sources,
        timings,
    } = batch;
    readbacks.iter().for_each(Readback::land);
    if let Some(timings) = timings {
        timings.complete(queue);
    }
    // Before the publication: a device thread that observes the cursor reuses the event and the blocks.
    drop((event, readbacks, staged, sources));
    timeline.publish(cursor);
}

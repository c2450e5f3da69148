//! Progress: a thread per queue that waits for the events of batches, in order, lands what was read back, and
//! publishes how far the queue has come. It sleeps in the driver while something is in flight, and in its channel
//! while nothing is (I11).

use std::sync::Arc;

use millstream_protocol::device_status::Gone;
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

/// What ends together: everything that a queue was given up to a cursor, and has not been waited for before.
pub(crate) struct Batch {
    pub(crate) cursor: Cursor,
    /// None where the stream writes a word.
    pub(crate) event: Option<Arc<CuEvent>>,
    /// What comes back with it. Empty, and so without the heap, for most.
    pub(crate) landings: Vec<Returning>,
    /// What is copied from. Kept until then.
    pub(crate) uploads: Vec<Staged>,
    /// The same where it is pinned memory of an upload's own. What else was copied to blocks is counted here as on its way, which
    /// bounds the blocks (I12).
    pub(crate) sources: Vec<Box<dyn HostBytes>>,
    /// When its tasks ran, where that is asked for.
    pub(crate) timings: Option<Timings>,
}

/// Bytes on their way to who asked for them.
pub(crate) struct Returning {
    pub(crate) landing: Arc<dyn Landing>,
    /// Where they arrive, in order.
    pub(crate) from: Vec<Staged>,
    /// Which of them were asked for; all, where nothing is said.
    pub(crate) picked: Option<Strided>,
}

impl Returning {
    /// Takes the bytes from where the GPU has put them.
    fn land(&self) {
        let (target, room) = self.landing.target();
        match &self.picked {
            Some(layout) => layout.for_each_run(|strided, dense, bytes| {
                self.take(
                    strided as usize,
                    target,
                    room,
                    dense as usize,
                    bytes as usize,
                );
            }),
            None => self.take(
                0,
                target,
                room,
                0,
                self.from.iter().map(Staged::bytes).sum(),
            ),
        }
    }

    /// Takes so many bytes from the one at `start` on to the one at `place` of the landing, which has `room` in all.
    fn take(&self, start: usize, target: *mut u8, room: usize, place: usize, bytes: usize) {
        let (mut start, mut place) = (start, place);
        let end = place.saturating_add(bytes).min(room);
        while place < end {
            let Some(staged) = self.from.get(start / BLOCK_BYTES) else {
                return;
            };
            let within = start % BLOCK_BYTES;
            let some = staged.bytes().saturating_sub(within).min(end - place);
            if some == 0 {
                return;
            }
            // SAFETY: the GPU has written the bytes (its event passed); the landing is ours to write until the cursor is
            // published; the two do not overlap, and `some` bytes are within the block's part and within the room.
            unsafe {
                std::ptr::copy_nonoverlapping(staged.start().add(within), target.add(place), some);
            }
            (start, place) = (start + some, place + some);
        }
    }
}

/// What ends a queue's thread, and who is told.
pub(crate) struct Ending {
    pub(crate) context: Arc<Context>,
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    pub(crate) gone: Arc<Gone>,
}

impl Ending {
    /// The device is gone: everybody who waits is told.
    #[cold]
    pub(crate) fn lose(&self, call: &str, code: Code) {
        tracing::error!(target: "millstream::cuda", call, %code, "the context is gone");
        self.gone.set_lost(Recovery::NewProcess);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }
}

/// The thread of a queue, and the way to it.
pub(crate) struct Completer {
    batches: Option<Sender<Batch>>,
    thread: Option<Thread<()>>,
}

impl Completer {
    /// Starts the thread of `queue`, which takes so many batches at most before it takes one more.
    pub(crate) fn start(
        queue: QueueId,
        depth: usize,
        ending: Arc<Ending>,
        spawner: &Spawner,
    ) -> Result<Self, OpenError> {
        let (batches, incoming) = channel::bounded(depth);
        let name = format!("ms-cuda-queue-{}", queue.0);
        let body = move || serve(queue, &incoming, &ending);
        let thread = spawner.spawn(ThreadRole::Queue, &name, body)?;
        Ok(Self {
            batches: Some(batches),
            thread: Some(thread),
        })
    }

    /// Hands a batch over. A queue has no more of them in flight than tasks, so there is room.
    pub(crate) fn take(&self, batch: Batch) -> Result<(), Batch> {
        match &self.batches {
            Some(batches) => batches
                .try_send(batch)
                .map_err(channel::TrySendError::into_inner),
            None => Err(batch),
        }
    }
}

impl Drop for Completer {
    /// The thread ends once everything that it was given has passed, or the device is gone.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && !thread.is_current()
        {
            // It has nothing to panic with.
            let _ = thread.join();
        }
    }
}

fn serve(queue: QueueId, incoming: &Receiver<Batch>, ending: &Ending) {
    let _mark = mark_runtime_thread();
    if let Err(code) = ending.context.enter() {
        ending.lose("cuCtxSetCurrent", code);
        return;
    }
    let timeline = &ending.timelines[queue.index()];
    while let Ok(batch) = incoming.recv() {
        let passed = match &batch.event {
            Some(event) => event.synchronize(),
            None => Ok(()),
        };
        match passed {
            Ok(()) => complete(batch, queue, timeline),
            Err(code) => {
                debug_assert_ne!(code.class(), Class::NotReady, "it waits");
                ending.lose("cuEventSynchronize", code);
                // The GPU may still write where this points.
                std::mem::forget(batch);
                return;
            }
        }
    }
}

/// Everything of a batch is over.
pub(crate) fn complete(batch: Batch, queue: QueueId, timeline: &Timeline) {
    let Batch {
        cursor,
        event,
        landings,
        uploads,
        sources,
        timings,
    } = batch;
    landings.iter().for_each(Returning::land);
    if let Some(timings) = timings {
        timings.passed(queue);
    }
    // Before the cursor: whoever sees it takes event and blocks for free again.
    drop((event, landings, uploads, sources));
    timeline.publish(cursor);
}

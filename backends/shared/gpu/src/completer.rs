//! Completion: one thread per queue waits for the queue's batches in order and completes each.
//!
//! # Protocol
//!
//! A queue completes its work in order, so one event (or timeline value) per batch suffices to follow it.
//!
//! 1. *Issue*, on the device thread: the tasks of a batch go to the driver. The backend's queue collects what they use:
//!    readbacks, staging blocks, sources of uploads.
//! 2. *Flush*, on the device thread: signals an event after the batch and sends the batch to the queue thread. The
//!    channel holds as many batches as the queue may have tasks in flight, so sending never blocks.
//! 3. *Complete*, on the queue thread: waits for the event in the driver, copies the readbacks, releases the resources,
//!    and publishes the cursor.
//! 4. *Wake*, inside `Timeline::publish`: wakes the threads and wakers whose cursor is reached.
//!
//! The queue thread sleeps in the driver while a batch is in flight, and in the channel otherwise (I11).
//!
//! ```text
//!  device thread             queue of the GPU           queue thread                client
//!  copy_out at cursor 6 ───► copies to a staging block
//!  launch at cursor 7 ─────► runs the kernel
//!  flush: signals E,         ┆                          receives the batch (7, E)
//!         sends the batch    ┆                          waits for E                 waits for cursor 6
//!  issues the next batch     E completes ─────────────► returns                     ┆
//!                                                       staging block ► landing     ┆
//!                                                       releases E, the block       ┆
//!                                                       publish(7) ───────────────► wakes, takes the landing
//!  completed() = 7: reuses E and the block
//! ```
//!
//! # Orderings
//!
//! - The driver makes the GPU's writes visible to the host before the wait returns.
//! - `publish` (release) pairs with `Timeline::completed` (acquire). A client that observes the cursor observes the
//!   bytes in its landing, and the queue thread does not touch the landing any more.
//! - The batch is dropped before the cursor is published. The device thread, when it observes the cursor, therefore
//!   finds the event and the blocks free, and the steady state allocates nothing (I9).
//! - A timeline has one publisher at a time: the queue thread, or a caller that completes batches in its place
//!   ([`millstream_sync::line`]); on a driven device, which has no queue threads, the thread inside `pump`.

use millstream_protocol::{
    HostContext, OpenError,
    marks::mark_runtime_thread,
    threads::{Thread, ThreadRole},
};
use millstream_sync::channel::{self, Receiver, Sender};

/// The thread of a queue, and the channel to it.
pub struct Completer<B> {
    /// Dropped first, which closes the channel.
    batches: Sender<B>,
    _thread: Joined,
}

/// A thread that its drop joins.
struct Joined(Option<Thread<()>>);

impl<B: Send + 'static> Completer<B> {
    /// Starts the thread of a queue with this name, with a channel for `depth` batches. `serve` receives the batches until
    /// the completer is dropped, which closes the channel, or the device is lost. Returns `None` for a driven device, which
    /// has no such threads.
    ///
    /// # Errors
    /// If the thread could not be started.
    pub fn start(
        name: &str,
        depth: usize,
        host: &HostContext,
        serve: impl FnOnce(&Receiver<B>) + Send + 'static,
    ) -> Result<Option<Self>, OpenError> {
        if host.driven {
            return Ok(None);
        }
        let (batches, incoming) = channel::bounded(depth);
        let body = move || {
            let _mark = mark_runtime_thread();
            serve(&incoming);
        };
        let thread = host.spawner.spawn(ThreadRole::Queue, name, body)?;
        Ok(Some(Self {
            batches,
            _thread: Joined(Some(thread)),
        }))
    }

    /// Returns the channel to the thread, which ends once the completer and all senders are dropped.
    pub fn sender(&self) -> Sender<B> {
        self.batches.clone()
    }

    /// Sends a batch to the thread. The channel is never full, because a queue has at most as many batches as tasks in
    /// flight.
    ///
    /// # Errors
    /// The batch, if the thread has ended, which it does early only after a loss.
    pub fn send(&self, batch: B) -> Result<(), B> {
        let sent = self.batches.try_send(batch);
        sent.map_err(channel::TrySendError::into_inner)
    }
}

impl Drop for Joined {
    /// Joins the thread, which ends when all its batches have completed or the device is lost.
    fn drop(&mut self) {
        if let Some(thread) = self.0.take()
            && !thread.is_current()
        {
            // The thread's code does not panic.
            let _ = thread.join();
        }
    }
}

//! Batches that a caller completes, after it has stepped in for the device thread, in place of the queue's thread.
//!
//! A caller that is about to wait submits its batch itself, and then waits for the driver's semaphore itself. So no
//! thread is woken but the caller, by the driver. [`millstream_sync::line`] has the protocol; here is how a caller waits
//! for a batch, and how it leaves a loss to the queue's thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::{Held, QueueId, marks::mark_runtime_thread};
use millstream_sync::channel::Sender;
use millstream_sync::line;
use millstream_sync::timeline::Timeline;

use crate::completer::{Batch, complete};
use crate::driver::TimelineSemaphore;

/// The held batches of a queue.
pub(crate) type Line = line::Line<Ends>;

/// The device's side of a line.
pub(crate) type Holder = line::Holder<Ends>;

/// A message to the thread of a queue.
pub(crate) type Sent = line::Sent<Ends>;

/// The ends of a queue.
pub(crate) struct Ends {
    pub(crate) id: QueueId,
    pub(crate) semaphore: Arc<TimelineSemaphore>,
    pub(crate) timeline: Arc<Timeline>,
    /// The channel of the queue's thread.
    pub(crate) thread: Sender<Sent>,
    /// The value that the semaphore is known to have reached.
    pub(crate) reached: u64,
}

impl line::Ends for Ends {
    type Batch = Batch;

    fn wait(&mut self, batch: &mut Batch, until: Instant) -> bool {
        if batch.value > self.reached {
            let waited = self.semaphore.wait_for(batch.value, until);
            if !matches!(waited, Ok(true)) {
                // The queue's thread reports the loss.
                batch.failed = waited.err();
                return false;
            }
            self.reached = batch.value;
        }
        true
    }

    fn complete(&mut self, batch: Batch) {
        complete(self.id, batch, &self.timeline);
    }

    fn remind(&mut self, reminder: Sent) {
        // This fails only if the thread has ended after a loss. The batches are kept until the queue is dropped.
        let _ = self.thread.try_send(reminder);
    }
}

/// The lines of all queues.
pub(crate) struct Lines(pub(crate) Vec<Arc<Line>>);

impl Held for Lines {
    fn run(&self, budget: Duration) {
        let _mark = mark_runtime_thread();
        let until = Instant::now() + budget;
        self.0.iter().for_each(|line| Line::run(line, until));
    }
}

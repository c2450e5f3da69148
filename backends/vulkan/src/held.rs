//! Batches that a caller completes, after it has stepped in for the device thread, in place of the queue's thread.
//!
//! A caller that is about to wait submits its batch itself, and then waits for the driver's semaphore itself. So no
//! thread is woken but the caller, by the driver.
//!
//! # Protocol
//! ```text
//!  caller, inside the device               caller, outside                   queue thread
//!  flush: submits; defers the batch
//!  start_deferred: all earlier batches
//!    have completed? holds the batch
//!    else sends it to the thread ───────────────────────────────────────────► waits, completes, publishes
//!                                          run: locks the line; waits for the
//!                                            semaphore, at most the budget;
//!                                            completes, publishes
//!                                          late? sends a reminder ───────────► takes the batch, waits, completes
//! ```
//! A timeline has one publisher at a time, which publishes in order (I5):
//! - A batch is held only if everything before it was published.
//! - A batch that is sent while a held one has not been published carries the line ([`Batch::after`]). The queue thread
//!   first takes the held batches, for which it waits until a caller that completes them has unlocked the line.
//!
//! Neither a caller nor the device thread blocks at the lock: the caller that holds it may run a waker of a user, which
//! may take a lock that the other holds. Batches are pushed under the lock, and a thread that holds it completes all of
//! them or sends a reminder, so a failed try leaves nothing behind.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millstream_protocol::backend::Held;
use millstream_protocol::id::QueueId;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_sync::channel::Sender;
use millstream_sync::timeline::Timeline;

use crate::completer::{Batch, complete};
use crate::driver::TimelineSemaphore;

/// The held batches of a queue.
pub(crate) struct Line {
    /// Whether there are held batches that no reminder was sent for.
    is_waiting: AtomicBool,
    inside: Mutex<Inside>,
}

struct Inside {
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// The value that the semaphore is known to have reached.
    reached: u64,
    /// `None` once the queue is dropped. The line may live longer, and must not keep the objects of the device.
    ends: Option<Ends>,
}

/// The ends of a queue.
pub(crate) struct Ends {
    pub(crate) id: QueueId,
    pub(crate) semaphore: Arc<TimelineSemaphore>,
    pub(crate) timeline: Arc<Timeline>,
    /// The channel of the queue's thread.
    pub(crate) thread: Sender<Batch>,
}

impl Line {
    pub(crate) fn new(ends: Ends) -> Arc<Self> {
        Arc::new(Self {
            is_waiting: AtomicBool::new(false),
            inside: Mutex::new(Inside {
                batches: VecDeque::new(),
                reached: 0,
                ends: Some(ends),
            }),
        })
    }

    /// Holds these batches. Returns `false`, and leaves them, if another thread has locked the line.
    pub(crate) fn hold(&self, batches: &mut Vec<Batch>) -> bool {
        let Ok(mut inside) = self.inside.try_lock() else {
            return false;
        };
        inside.batches.extend(batches.drain(..));
        // Relaxed: only a hint, the batches lie under the lock.
        self.is_waiting.store(true, Ordering::Relaxed);
        true
    }

    /// Takes the oldest held batch, for the queue's thread. Waits for a caller that completes batches.
    pub(crate) fn take(&self) -> Option<Batch> {
        // A panic under the lock leaves the list consistent.
        let inside = self.inside.lock();
        let mut inside = inside.unwrap_or_else(PoisonError::into_inner);
        inside.batches.pop_front()
    }

    /// Completes held batches until this time, and leaves the others to the queue's thread.
    fn run(self: &Arc<Self>, until: Instant) {
        if !self.is_waiting.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut inside) = self.inside.try_lock() else {
            return;
        };
        let Inside {
            batches,
            reached,
            ends,
        } = &mut *inside;
        let Some(ends) = ends else { return };
        self.is_waiting.store(false, Ordering::Relaxed);
        while let Some(batch) = batches.front_mut() {
            let waited = match batch.value > *reached {
                true => ends.semaphore.wait_for(batch.value, until),
                false => Ok(true),
            };
            if !matches!(waited, Ok(true)) {
                // The queue's thread reports the loss.
                batch.failed = waited.err();
                // This fails only if the thread has ended after a loss. The batches are kept until the queue is dropped.
                let _ = ends.thread.try_send(Batch::reminder(self.clone()));
                return;
            }
            *reached = batch.value.max(*reached);
            if let Some(batch) = batches.pop_front() {
                complete(ends.id, batch, &ends.timeline);
            }
        }
    }

    /// Closes the channel to the queue's thread, which completes what is left before it ends.
    pub(crate) fn close(self: &Arc<Self>) {
        let inside = self.inside.lock();
        let mut inside = inside.unwrap_or_else(PoisonError::into_inner);
        let ends = inside.ends.take();
        if let Some(ends) = ends
            && !inside.batches.is_empty()
        {
            let _ = ends.thread.try_send(Batch::reminder(self.clone()));
        }
    }
}

/// The lines of all queues.
pub(crate) struct Lines(pub(crate) Vec<Arc<Line>>);

impl Held for Lines {
    fn run(&self, budget: Duration) {
        let _mark = mark_runtime_thread();
        let until = Instant::now() + budget;
        self.0.iter().for_each(|line| line.run(until));
    }
}

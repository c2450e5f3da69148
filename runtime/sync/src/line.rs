//! The held batches of a queue: a caller that has stepped in for the device thread completes them itself, in place of
//! the queue's thread, so that no thread is woken but the caller.
//!
//! What a batch is, how to wait for it and how to complete it is up to [`Ends`].
//!
//! # Protocol
//! ```text
//!  caller, inside the device               caller, outside                   queue thread
//!  Holder::hold: have all earlier batches
//!    completed? holds the batch
//!    else sends it to the thread ───────────────────────────────────────────► waits, completes, publishes
//!                                          Line::run: locks the line; waits,
//!                                            at most until the deadline;
//!                                            completes, publishes
//!                                          late? sends a reminder ───────────► takes the batch, waits, completes
//! ```
//! A timeline has one publisher at a time, which publishes in order (I5):
//! - A batch is held only if everything before it was published.
//! - A batch that is sent while a held one has not been published carries the line ([`Holder::sent`]). The queue thread
//!   first takes the held batches ([`Sent::batches`]), for which it waits until a caller that completes them has
//!   unlocked the line.
//!
//! Neither a caller nor the device thread blocks at the lock: the caller that holds it may run a waker of a user, which
//! may take a lock that the other holds. Batches are pushed under the lock, and a thread that holds it completes all of
//! them or sends a reminder, so a failed try leaves nothing behind.
//!
//! # At most one reminder is in the channel
//! A batch with the line may overtake the reminder, which then arrives when there is nothing to do. If such reminders
//! could gather in the channel, they would take the places of batches, and a full channel refuses a batch. So `is_reminded`
//! is set, under the lock, while a reminder is in the channel: the thread clears it and then takes whatever is held. A
//! channel for the batches in flight and one reminder is never full.
//!
//! Checked by the models in `loom-tests/tests/models/line.rs`; the mutants `line_*` omit the reminders, the line that is
//! carried and the look at earlier batches, or block at the lock.

use std::collections::VecDeque;
use std::iter;
use std::time::Instant;

use crate::facade::atomic::{AtomicBool, Ordering};
use crate::facade::{Arc, Mutex, lock, try_lock};

/// The ends of a queue, as a caller needs them to complete a batch. They are used under the lock of the line.
pub trait Ends: Sized {
    /// The tasks that complete together.
    type Batch;

    /// Waits until the work of the batch has ended, at most until this time. Returns `false` if the queue's thread must
    /// wait for it.
    fn wait(&mut self, batch: &mut Self::Batch, until: Instant) -> bool;

    /// Completes the batch, whose work has ended, and publishes its cursor. May run wakers. Must not panic: the cursor
    /// of the batch would never be published.
    fn complete(&mut self, batch: Self::Batch);

    /// Sends a reminder to the queue's thread. Does not wait. If the thread has ended, the batches stay in the line.
    fn remind(&mut self, reminder: Sent<Self>);
}

/// The held batches of a queue.
pub struct Line<E: Ends> {
    /// Whether there are held batches that no reminder was sent for.
    is_waiting: AtomicBool,
    inside: Mutex<Inside<E>>,
}

struct Inside<E: Ends> {
    /// Oldest first.
    batches: VecDeque<E::Batch>,
    /// Whether a reminder is in the channel.
    is_reminded: bool,
    /// `None` once the line is closed: it may live longer, and must not keep what a device owns.
    ends: Option<E>,
}

/// A message to the queue's thread.
pub enum Sent<E: Ends> {
    /// A batch.
    Batch {
        /// The batch.
        batch: E::Batch,
        /// The line of the queue, if it may hold batches before this one.
        after: Option<Arc<Line<E>>>,
    },
    /// The batches of the line are to be completed. Only a [`Line`] makes it.
    Reminder(Arc<Line<E>>),
}

/// The side of the device: holds batches, or makes messages of them.
pub struct Holder<E: Ends> {
    line: Arc<Line<E>>,
    /// The cursor of the last batch that was held.
    held: u64,
}

impl<E: Ends> Line<E> {
    /// Takes the oldest held batch. Waits for a caller that completes batches.
    pub fn take(&self) -> Option<E::Batch> {
        lock(&self.inside).batches.pop_front()
    }

    /// Completes held batches until this time, and leaves the others to the queue's thread. Does nothing while another
    /// thread has locked the line.
    pub fn run(this: &Arc<Self>, until: Instant) {
        // Relaxed: only a hint, the batches lie under the lock.
        if !this.is_waiting.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut inside) = try_lock(&this.inside) else {
            return;
        };
        let inside = &mut *inside;
        let Some(ends) = &mut inside.ends else { return };
        this.is_waiting.store(false, Ordering::Relaxed);
        while let Some(batch) = inside.batches.front_mut() {
            if !ends.wait(batch, until) {
                return inside.remind(this);
            }
            if let Some(batch) = inside.batches.pop_front() {
                ends.complete(batch);
            }
        }
    }
}

impl<E: Ends> Inside<E> {
    /// Sends a reminder, unless one is in the channel.
    fn remind(&mut self, line: &Arc<Line<E>>) {
        if let Some(ends) = &mut self.ends
            && !std::mem::replace(&mut self.is_reminded, true)
        {
            ends.remind(Sent::Reminder(line.clone()));
        }
    }
}

impl<E: Ends> Sent<E> {
    /// Returns the batches to complete, in this order. For the queue's thread: while the iterator looks for held batches
    /// it waits for a caller that completes them.
    pub fn batches(self) -> impl Iterator<Item = E::Batch> {
        let (line, batch) = match self {
            Self::Batch { batch, after } => (after, Some(batch)),
            Self::Reminder(line) => {
                lock(&line.inside).is_reminded = false;
                (Some(line), None)
            }
        };
        iter::from_fn(move || line.as_ref()?.take()).chain(batch)
    }

    /// Returns the batch of a message that could not be sent.
    pub fn into_batch(self) -> Option<E::Batch> {
        match self {
            Self::Batch { batch, .. } => Some(batch),
            Self::Reminder(_) => None,
        }
    }
}

impl<E: Ends> Holder<E> {
    /// Creates the line of a queue.
    pub fn new(ends: E) -> Self {
        let line = Arc::new(Line {
            is_waiting: AtomicBool::new(false),
            inside: Mutex::new(Inside {
                batches: VecDeque::new(),
                is_reminded: false,
                ends: Some(ends),
            }),
        });
        Self { line, held: 0 }
    }

    /// Returns the line, for callers.
    pub fn line(&self) -> &Arc<Line<E>> {
        &self.line
    }

    /// Holds the batches that end at cursor `last` and follow cursor `before`, if everything up to `before` has
    /// completed. Returns `false`, and leaves them, if not, or if another thread has locked the line. Does not wait. The
    /// thread that holds batches calls [`Line::run`] next.
    pub fn hold(
        &mut self,
        batches: &mut Vec<E::Batch>,
        before: u64,
        last: u64,
        completed: u64,
    ) -> bool {
        if completed < before {
            return false;
        }
        let Some(mut inside) = try_lock(&self.line.inside) else {
            return false;
        };
        inside.batches.extend(batches.drain(..));
        // Relaxed: only a hint, the batches lie under the lock.
        self.line.is_waiting.store(true, Ordering::Relaxed);
        self.held = last;
        true
    }

    /// Makes the message that sends this batch, while cursor `completed` is the last that has completed.
    pub fn sent(&self, batch: E::Batch, completed: u64) -> Sent<E> {
        let after = (self.held > completed).then(|| self.line.clone());
        Sent::Batch { batch, after }
    }

    /// Closes the line: drops the ends, and leaves the held batches to the queue's thread. Waits for a caller that
    /// completes batches.
    pub fn close(&self) {
        let mut inside = lock(&self.line.inside);
        if !inside.batches.is_empty() {
            inside.remind(&self.line);
        }
        let ends = inside.ends.take();
        drop(inside);
        drop(ends);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "line_tests.rs"]
mod tests;

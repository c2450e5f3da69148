//! What the tasks of a queue come after on the device, by the waits of its submissions: a vector clock over the values of
//! all queues' semaphores. So a queue knows when a wait for another queue also orders its own earlier tasks, and needs no
//! barrier against them:
//!
//! ```text
//!  queue 0                        queue 1                        queue 0 knows
//!  launch writes a (cursor 1)                                    -
//!                                 waits for queue 0 at 1
//!                                 launch writes a (cursor 1)
//!  waits for queue 1 at 1                                        queue 1 at 1, and so queue 0 at 1
//!  launch writes a (cursor 2)                                    no barrier
//! ```
//! A semaphore makes all writes before its signal available, and the wait makes them visible to all later commands of our
//! stages, as a barrier would.

use ash::vk;
use millstream_protocol::{Cursor, MAX_QUEUES, QueueId};

use super::Queue;
use crate::barriers::STAGES;
use crate::driver::Code;

/// The value that the semaphore of each queue has reached.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Known([u64; MAX_QUEUES]);

impl Known {
    /// Adds that the semaphore of a queue has reached a value.
    fn reach(&mut self, queue: QueueId, value: u64) {
        let known = &mut self.0[queue.index()];
        *known = value.max(*known);
    }

    /// Adds what another queue knew.
    fn merge(&mut self, other: &Self) {
        for (known, value) in self.0.iter_mut().zip(other.0) {
            *known = value.max(*known);
        }
    }
}

/// A value of a queue's semaphore to wait for.
pub(crate) struct Awaited {
    semaphore: vk::Semaphore,
    value: u64,
    known: Known,
}

impl Queue {
    /// Returns what to wait for so that this cursor, which was flushed, has passed.
    pub(crate) fn awaited(&self, cursor: Cursor) -> Awaited {
        let value = cursor.min(self.signalled);
        // The semaphore passes all cursors of a batch at once. What earlier batches knew is not kept.
        let (mut known, reached) = match value > self.signalled_before {
            true => (self.signalled_known, self.signalled),
            false => (Known::default(), value),
        };
        known.reach(self.id, reached);
        Awaited {
            semaphore: self.semaphore.raw,
            value,
            known,
        }
    }

    /// Makes later tasks wait for another queue.
    pub(crate) fn wait_for(&mut self, other: &Awaited) -> Result<(), Code> {
        self.end_segment()?;
        self.known.merge(&other.known);
        if self.known.0[self.id.index()] >= self.issued {
            // The other queue came after everything that was recorded here.
            self.accesses.clear();
        }
        self.wait_for_value(other.semaphore, other.value)
    }

    /// Makes later tasks wait until a semaphore of another queue or of the application has this value.
    pub(crate) fn wait_for_value(
        &mut self,
        semaphore: vk::Semaphore,
        value: u64,
    ) -> Result<(), Code> {
        self.end_segment()?;
        let waits = &mut self.open.waits;
        let mut known = waits.iter_mut();
        if let Some(known) = known.find(|wait| wait.semaphore == semaphore) {
            known.value = known.value.max(value);
            return Ok(());
        }
        let wait = vk::SemaphoreSubmitInfo::default()
            .semaphore(semaphore)
            .value(value)
            .stage_mask(STAGES);
        waits.push(wait);
        Ok(())
    }

    /// Notes that the open batch was submitted, and signals this cursor.
    pub(super) fn signals(&mut self, cursor: Cursor) {
        self.signalled_before = std::mem::replace(&mut self.signalled, cursor);
        self.signalled_known = self.known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_queue_knew_is_known_after_a_wait_for_it() {
        let [first, second] = [QueueId(0), QueueId(1)];
        let (mut of_first, mut of_second) = (Known::default(), Known::default());
        of_second.reach(first, 3);
        of_second.reach(second, 7);
        of_first.reach(second, 9);
        of_first.merge(&of_second);
        assert_eq!(of_first.0[..3], [3, 9, 0]);
        of_first.reach(first, 2);
        assert_eq!(of_first.0[0], 3, "values only grow");
    }
}

//! Two parts of a queue that decide about its barriers: what its tasks come after by waits, and recordings as secondary
//! command buffers.
//!
//! # What the tasks come after
//! The waits of a queue's submissions make a vector clock over the values of all queues' semaphores. So a queue knows when
//! a wait for another queue also orders its own earlier tasks, and needs no barrier against them:
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
//!
//! # Recordings
//! A recording is a secondary command buffer, which later replays execute instead of recording its tasks anew. It is recorded
//! by the calls that record tasks: meanwhile the queue's open command buffer and its accesses are set aside.
//!
//! ```text
//! begin_recorded      sets the open command buffer and the accesses aside
//! launch, copy, fill  record to the secondary one, with barriers between tasks that conflict
//! end_recorded        restores what was set aside, and returns the secondary one with its accesses
//! execute             each replay: a barrier if needed, one vkCmdExecuteCommands
//! ```
//! A barrier in a secondary command buffer covers all earlier commands of its queue, also those of earlier submissions.
//! But synchronization validation (1.4.309) does not apply it to these. So a barrier precedes a replay that conflicts with
//! an earlier task in any of its parameters, although one before the first task that conflicts would suffice (I1). After
//! the replay, the queue's accesses are those since its last barrier.

use std::sync::Arc;

use ash::vk;
use millstream_protocol::{BoundSlice, Cursor, MAX_QUEUES, QueueId};
use millstream_sync::credit::Credit;

use super::Queue;
use crate::accesses::Accesses;
use crate::barriers::STAGES;
use crate::commands::Commands;
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

// Recordings as secondary command buffers.

/// A recording as a secondary command buffer, for fixed arguments.
pub(crate) struct Recorded {
    commands: Arc<Commands>,
    /// The accesses since the last barrier.
    accesses: Accesses,
    barriers: u64,
}

/// What a queue has set aside while it records a secondary command buffer.
pub(super) struct Set {
    commands: Option<Commands>,
    accesses: Accesses,
    barriers: u64,
}

impl Queue {
    /// Records the following tasks to a secondary command buffer, until [`Queue::end_recorded`]. Spans must be off.
    pub(crate) fn begin_recorded(&mut self) -> Result<(), Code> {
        debug_assert!(
            self.tracer.is_none(),
            "the times would be those of one replay"
        );
        let secondary = Commands::secondary(&self.context, self.family)?;
        self.set_aside = Some(Set {
            commands: self.open.commands.replace(secondary),
            accesses: std::mem::take(&mut self.accesses),
            barriers: std::mem::take(&mut self.barriers),
        });
        Ok(())
    }

    /// Ends the secondary command buffer, whose commands take these bytes, and continues as before it. Returns `None` if
    /// none was begun, or if the budget does not suffice.
    pub(crate) fn end_recorded(
        &mut self,
        budget: &Arc<Credit>,
        bytes: u64,
    ) -> Result<Option<Recorded>, Code> {
        let Some(set) = self.set_aside.take() else {
            return Ok(None);
        };
        let secondary = std::mem::replace(&mut self.open.commands, set.commands);
        let accesses = std::mem::replace(&mut self.accesses, set.accesses);
        let barriers = std::mem::replace(&mut self.barriers, set.barriers);
        let Some(mut commands) = secondary else {
            return Ok(None);
        };
        commands.end()?;
        if !commands.charge(budget, bytes) {
            return Ok(None);
        }
        Ok(Some(Recorded {
            commands: Arc::new(commands),
            accesses,
            barriers,
        }))
    }

    /// Executes a secondary command buffer of this queue with these parameters, after a barrier if they conflict with
    /// earlier tasks.
    pub(crate) fn execute<'a>(
        &mut self,
        recorded: &Recorded,
        parameters: impl Iterator<Item = &'a BoundSlice> + Clone,
    ) -> Result<(), Code> {
        let commands = self.record(parameters)?;
        commands.execute(&recorded.commands);
        if recorded.barriers > 0 {
            self.barriers += recorded.barriers;
            self.accesses.copy(&recorded.accesses);
        }
        Ok(())
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

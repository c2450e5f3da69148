//! Recordings as secondary command buffers, which later replays execute instead of recording their tasks anew.
//!
//! # Protocol
//! A secondary command buffer is recorded by the calls that record tasks: meanwhile the queue's open command buffer and
//! its accesses are set aside.
//!
//! ```text
//!  begin_recorded      sets the open command buffer and the accesses aside
//!  launch, copy, fill  record to the secondary one, with barriers between tasks that conflict
//!  end_recorded        restores what was set aside, and returns the secondary one with its accesses
//!  execute             each replay: a barrier if needed, one vkCmdExecuteCommands
//! ```
//! # Barriers
//! A barrier in a secondary command buffer covers all earlier commands of its queue, also those of earlier submissions.
//! But synchronization validation (1.4.309) does not apply it to these. So a barrier precedes a replay that conflicts with
//! an earlier task in any of its parameters, although one before the first task that conflicts would suffice (I1). After the replay, the queue's accesses are those since its last barrier.

use std::sync::Arc;

use millstream_protocol::BoundSlice;
use millstream_sync::credit::Credit;

use super::Queue;
use crate::accesses::Accesses;
use crate::commands::Commands;
use crate::driver::Code;

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

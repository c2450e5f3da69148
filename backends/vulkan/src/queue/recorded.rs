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
//! A barrier also covers the commands before a secondary command buffer, and those in it cover the ones after it. So two
//! sets of accesses suffice to order it as the queue would order its tasks (I1):
//!
//! ```text
//!  earlier tasks │ first: accesses up to the first barrier ║ ... ║ last: those since the last barrier │ later tasks
//!                └ a barrier here if they conflict                  the queue's accesses from here on ┘
//! ```

use std::sync::Arc;

use super::Queue;
use crate::accesses::Accesses;
use crate::barriers::barrier;
use crate::commands::Commands;
use crate::driver::Code;

/// A recording as a secondary command buffer, for fixed arguments.
pub(crate) struct Recorded {
    commands: Arc<Commands>,
    /// The accesses up to the first barrier.
    first: Accesses,
    /// The accesses since the last barrier; `None` if there is no barrier.
    last: Option<Accesses>,
    barriers: u64,
}

/// What a queue has set aside while it records a secondary command buffer.
pub(super) struct Set {
    commands: Option<Commands>,
    accesses: Accesses,
    barriers: u64,
    /// [`Recorded::first`], once there was a barrier.
    first: Option<Accesses>,
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
            first: None,
        });
        Ok(())
    }

    /// Ends the secondary command buffer, and continues as before it. Returns `None` if none was begun.
    pub(crate) fn end_recorded(&mut self) -> Result<Option<Recorded>, Code> {
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
        let (first, last) = match set.first {
            Some(first) => (first, Some(accesses)),
            None => (accesses, None),
        };
        Ok(Some(Recorded {
            commands: Arc::new(commands),
            first,
            last,
            barriers,
        }))
    }

    /// Executes a secondary command buffer of this queue, after a barrier if it conflicts with earlier tasks.
    pub(crate) fn execute(&mut self, recorded: &Recorded) -> Result<(), Code> {
        self.open_commands()?;
        let needs_barrier = self.accesses.need_barrier_before(&recorded.first);
        if needs_barrier {
            self.pass_barrier();
        }
        match &recorded.last {
            // It has a barrier, which also covers everything before it.
            Some(last) => {
                self.accesses.clear();
                self.accesses.append(last);
            }
            None => self.accesses.append(&recorded.first),
        }
        self.barriers += recorded.barriers;
        if let Some(commands) = &mut self.open.commands {
            if needs_barrier {
                // SAFETY: this thread records the command buffer.
                unsafe { barrier(&self.context, commands.raw()) };
            }
            commands.execute(&recorded.commands);
        }
        Ok(())
    }

    /// Notes that a barrier is recorded here between tasks.
    pub(super) fn pass_barrier(&mut self) {
        self.barriers += 1;
        match &mut self.set_aside {
            Some(set) if set.first.is_none() => {
                set.first = Some(std::mem::take(&mut self.accesses));
            }
            _ => self.accesses.clear(),
        }
    }
}

//! Checks at the call: the memory and the modules that an operation needs must exist.

use crate::code::Code;
use crate::graph::Work;
use crate::operation::Rows;
use crate::state::State;

impl State {
    /// Checks that the memory exists.
    pub(crate) fn check_memory(&mut self, call: &str, rows: Rows) -> Result<(), Code> {
        if rows.bytes() == 0 {
            return Ok(());
        }
        let call = self.this_call(call);
        match self.memory.at(&call, rows.bounds()) {
            Ok(_) => Ok(()),
            Err(violation) => {
                self.report(violation.report);
                Err(Code::INVALID_VALUE)
            }
        }
    }

    /// Checks that the memory or the module of a graph node exists, as far as is known before it runs.
    pub(crate) fn check_node(&mut self, call: &str, work: &Work) -> Result<(), Code> {
        match work {
            Work::Launch(launch) => {
                if self.functions.contains_key(&launch.function) {
                    return Ok(());
                }
                let call = self.this_call(call);
                self.report(format!(
                    "use after unload: {call} launches kernel `{}`, whose module was unloaded",
                    launch.kernel.name
                ));
                Err(Code::INVALID_HANDLE)
            }
            Work::Copy { target, source } => {
                self.check_memory(call, *target)?;
                self.check_memory(call, *source)
            }
            Work::Fill { target, .. } => self.check_memory(call, *target),
        }
    }
}

//! What a call needs must be there when it is called: memory, and modules.

use crate::code::Code;
use crate::graph::Work;
use crate::operation::Rows;
use crate::state::State;

impl State {
    /// Memory that a call is given must be there when it is called.
    pub(crate) fn must_be_there(&mut self, call: &str, rows: Rows) -> Result<(), Code> {
        if rows.bytes() == 0 {
            return Ok(());
        }
        let call = self.this_call(call);
        match self.memory.at(&call, rows.bounds()) {
            Ok(_) => Ok(()),
            Err(wrong) => {
                self.report(wrong.report);
                Err(Code::INVALID_VALUE)
            }
        }
    }

    /// What a node of a graph needs must be there, as far as can be seen before it runs.
    pub(crate) fn must_be_possible(&mut self, call: &str, work: &Work) -> Result<(), Code> {
        match work {
            Work::Launch(launch) => {
                if self.functions.contains_key(&launch.function) {
                    return Ok(());
                }
                let call = self.this_call(call);
                self.report(format!(
                    "use after the end: {call} launches kernel `{}`, whose module was unloaded",
                    launch.kernel.name
                ));
                Err(Code::INVALID_HANDLE)
            }
            Work::Copy { target, source } => {
                self.must_be_there(call, target.rows)?;
                self.must_be_there(call, source.rows)
            }
            Work::Fill { target, .. } => self.must_be_there(call, *target),
            Work::Empty => Ok(()),
        }
    }
}

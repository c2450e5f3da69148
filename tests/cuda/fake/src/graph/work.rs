//! The work of graph nodes, and what an update of a node may change.

use crate::operation::{Launch, Operation, Rows};

/// The work of a node.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel, with the parameters of the call that added or updated it.
    Launch(Launch),
    /// A copy within GPU memory.
    Copy {
        target: Rows,
        source: Rows,
    },
    Fill {
        target: Rows,
        unit: Vec<u8>,
    },
}

impl Work {
    /// Returns the name in reports.
    pub(super) fn name(&self) -> String {
        match self {
            Work::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Work::Copy { .. } => "a copy".to_owned(),
            Work::Fill { .. } => "a fill".to_owned(),
        }
    }

    /// Converts the work to an operation.
    pub(super) fn operation(&self) -> Operation {
        match self.clone() {
            Work::Launch(launch) => Operation::Launch(launch),
            Work::Copy { target, source } => Operation::Copy { target, source },
            Work::Fill { target, unit } => Operation::Fill { target, unit },
        }
    }

    /// Returns `true` if a node with this work can be updated to `new`.
    pub(crate) fn may_become(&self, new: &Work) -> bool {
        match (self, new) {
            (Work::Launch(_), Work::Launch(_)) | (Work::Copy { .. }, Work::Copy { .. }) => true,
            (
                Work::Fill { target, unit },
                Work::Fill {
                    target: new_target,
                    unit: new_unit,
                },
            ) => {
                // An update of a fill with several rows can only change its address and value.
                let shape = |target: &Rows| (target.pitch, target.width, target.rows);
                let both_are_lines = target.rows == 1 && new_target.rows == 1;
                let same = shape(target) == shape(new_target) && unit.len() == new_unit.len();
                both_are_lines || same
            }
            _ => false,
        }
    }
}

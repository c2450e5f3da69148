//! Updates of executable graphs: the topology stays, and the parameters of nodes may change within rules.

use crate::operation::Rows;

use super::{Executable, Graphs, Work};

/// The result of a whole-graph update: `CUgraphExecUpdateResult`, and the node of the new graph that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) result: u32,
    pub(crate) node: u64,
    pub(crate) from: u64,
}

impl Outcome {
    pub(crate) const SUCCESS: u32 = 0;
    const TOPOLOGY_CHANGED: u32 = 2;
    const TYPE_CHANGED: u32 = 3;
    const PARAMETERS_CHANGED: u32 = 5;
    const ATTRIBUTES_CHANGED: u32 = 8;

    fn at(result: u32, node: u64) -> Self {
        Self {
            result,
            node,
            from: 0,
        }
    }
}

impl Work {
    /// Returns the result code if a node with this work cannot be updated to `new`.
    pub(crate) fn update_error(&self, new: &Work) -> Option<u32> {
        match (self, new) {
            (Work::Launch(old), Work::Launch(new)) => (old.extras.cooperative
                != new.extras.cooperative)
                .then_some(Outcome::ATTRIBUTES_CHANGED),
            (
                Work::Copy { target, source },
                Work::Copy {
                    target: new_target,
                    source: new_source,
                },
            ) => {
                let sides = (target.is_host, source.is_host);
                (sides != (new_target.is_host, new_source.is_host))
                    .then_some(Outcome::PARAMETERS_CHANGED)
            }
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
                (!both_are_lines && !same).then_some(Outcome::PARAMETERS_CHANGED)
            }
            (Work::Empty, Work::Empty) => None,
            _ => Some(Outcome::TYPE_CHANGED),
        }
    }
}

impl Graphs {
    /// Updates an executable graph to `new`, another instantiated graph.
    pub(crate) fn update(&mut self, executable: u64, new: &Executable) -> Option<Outcome> {
        let old = self.executables.get_mut(&executable)?;
        if old.nodes.len() != new.nodes.len() {
            return Some(Outcome::at(Outcome::TOPOLOGY_CHANGED, 0));
        }
        for (old, node) in old.nodes.iter().zip(&new.nodes) {
            if old.after != node.after {
                let other = node.after.iter().find(|other| !old.after.contains(*other));
                let paired = old.after.len() == node.after.len();
                return Some(Outcome {
                    from: match other {
                        Some(place) if paired => new.nodes[*place].of,
                        _ => 0,
                    },
                    ..Outcome::at(Outcome::TOPOLOGY_CHANGED, node.of)
                });
            }
            if let Some(result) = old.work.update_error(&node.work) {
                return Some(Outcome::at(result, node.of));
            }
        }
        for (old, new) in old.nodes.iter_mut().zip(&new.nodes) {
            old.work = new.work.clone();
        }
        Some(Outcome::at(Outcome::SUCCESS, 0))
    }
}

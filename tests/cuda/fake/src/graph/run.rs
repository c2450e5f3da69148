//! Launches of an executable graph, each of which is one operation of its stream.

use crate::memory::Memory;
use crate::operation::{GraphPart, GraphRun};

use super::Executable;

impl Executable {
    /// A launch of this graph as it is now.
    pub(crate) fn run(&self, memory: &mut Memory) -> GraphRun {
        let works = self.nodes.iter().map(|node| &node.work);
        works.clone().for_each(|work| work.begin_read(memory));
        works.for_each(|work| work.begin_write(memory));
        let parts = self.nodes.iter().map(|node| GraphPart {
            name: node.work.name(),
            operation: node.work.operation(memory),
            after: node.after.clone(),
        });
        GraphRun {
            number: self.number,
            after: self.last.clone(),
            parts: parts.collect(),
        }
    }

    /// A launch of this graph that executes nothing.
    pub(crate) fn upload(&self) -> GraphRun {
        GraphRun {
            number: self.number,
            after: self.last.clone(),
            parts: Vec::new(),
        }
    }
}

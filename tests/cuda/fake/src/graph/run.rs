//! Launches of executable graphs. Each is one operation of its stream.

use crate::memory::Memory;
use crate::operation::{GraphNode, GraphRun};

use super::Executable;

impl Executable {
    /// Returns a launch of the graph with its current parameters.
    pub(crate) fn run(&self, memory: &mut Memory) -> GraphRun {
        let works = self.nodes.iter().map(|node| &node.work);
        works.clone().for_each(|work| work.begin_read(memory));
        works.for_each(|work| work.begin_write(memory));
        let nodes = self.nodes.iter().map(|node| GraphNode {
            name: node.work.name(),
            operation: node.work.operation(memory),
            after: node.after.clone(),
        });
        GraphRun {
            number: self.number,
            after: self.last.clone(),
            nodes: nodes.collect(),
        }
    }

    /// Returns a launch that executes no nodes.
    pub(crate) fn upload(&self) -> GraphRun {
        GraphRun {
            number: self.number,
            after: self.last.clone(),
            nodes: Vec::new(),
        }
    }
}

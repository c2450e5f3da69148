//! Graphs: nodes with edges between them, and executable graphs.

use std::collections::BTreeMap;

use crate::clock::Point;
use crate::operation::{GraphNode, GraphRun, Operation};

/// A graph.
pub(crate) struct Graph {
    /// The number in reports.
    pub(crate) number: u64,
    /// In the order of creation.
    pub(crate) nodes: Vec<u64>,
}

/// A node of a graph.
pub(crate) struct Node {
    pub(crate) graph: u64,
    pub(crate) work: Operation,
    /// The nodes that it depends on, which were created before.
    pub(crate) after: Vec<u64>,
}

/// An executable graph. It is independent of the graph that it was instantiated from, which may be destroyed.
pub(crate) struct Executable {
    pub(crate) number: u64,
    pub(crate) nodes: Vec<GraphNode>,
    /// The last launch; the next one starts after it.
    pub(crate) last: Option<Point>,
}

/// All graphs of a session, by their handles.
#[derive(Default)]
pub(crate) struct Graphs {
    pub(crate) graphs: BTreeMap<u64, Graph>,
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) executables: BTreeMap<u64, Executable>,
    /// The description of each instantiated graph.
    pub(crate) descriptions: Vec<String>,
    created: u64,
}

impl Executable {
    /// Describes the graph: the numbers of nodes, of edges, and of nodes on the longest path.
    pub(crate) fn describe(&self) -> String {
        let edges: usize = self.nodes.iter().map(|node| node.after.len()).sum();
        let mut lengths: Vec<usize> = Vec::new();
        for node in &self.nodes {
            let before = node.after.iter().map(|other| lengths[*other]).max();
            lengths.push(1 + before.unwrap_or(0));
        }
        let (nodes, longest) = (self.nodes.len(), lengths.into_iter().max().unwrap_or(0));
        format!("{nodes} nodes, {edges} edges, longest path {longest}")
    }

    /// Returns a launch of the graph with its current parameters.
    pub(crate) fn run(&self) -> GraphRun {
        GraphRun {
            number: self.number,
            after: self.last.clone(),
            nodes: self.nodes.clone(),
        }
    }
}

impl Graphs {
    /// Creates an empty graph.
    pub(crate) fn make_graph(&mut self, handle: u64) {
        self.created += 1;
        let graph = Graph {
            number: self.created,
            nodes: Vec::new(),
        };
        self.graphs.insert(handle, graph);
    }

    /// Creates a node of an existing graph.
    pub(crate) fn make_node(&mut self, handle: u64, graph: u64, work: Operation, after: Vec<u64>) {
        if let Some(of) = self.graphs.get_mut(&graph) {
            of.nodes.push(handle);
        }
        self.nodes.insert(handle, Node { graph, work, after });
    }

    /// Destroys a graph and its nodes.
    pub(crate) fn end_graph(&mut self, graph: u64) {
        let ended = self.graphs.remove(&graph);
        for node in ended.map_or(Vec::new(), |graph| graph.nodes) {
            self.nodes.remove(&node);
        }
    }

    /// Instantiates a graph, if it exists.
    pub(crate) fn executable(&self, graph: u64) -> Option<Executable> {
        let of = self.graphs.get(&graph)?;
        let index = |node: &u64| of.nodes.iter().position(|other| other == node);
        let nodes = of.nodes.iter().map(|handle| {
            let node = &self.nodes[handle];
            GraphNode {
                of: *handle,
                operation: node.work.clone(),
                after: node.after.iter().filter_map(index).collect(),
            }
        });
        Some(Executable {
            number: of.number,
            nodes: nodes.collect(),
            last: None,
        })
    }
}

//! Graphs: nodes with edges between them; executable graphs; and captures, which build graphs from streams.
//!
//! | module | contents |
//! | --- | --- |
//! | `work` | the work of a node, and its conversion to an operation |
//! | `capture` | the state of captures and captured streams |
//! | `run` | launches of executable graphs |
//! | `update` | updates of executable graphs |

mod capture;
mod run;
mod update;
mod work;

use std::collections::BTreeMap;

use crate::clock::Point;

pub(crate) use capture::{Capture, Mode, StreamCapture};
pub(crate) use update::Outcome;
pub(crate) use work::{CopyEnd, Work};

/// A graph.
pub(crate) struct Graph {
    /// The number in reports.
    pub(crate) number: u64,
    /// In the order of creation.
    pub(crate) nodes: Vec<u64>,
    /// Whether a capture is still building the graph, and owns it.
    pub(crate) captured: bool,
}

/// A node of a graph.
pub(crate) struct Node {
    pub(crate) graph: u64,
    pub(crate) work: Work,
    /// The nodes that it depends on.
    pub(crate) after: Vec<u64>,
    /// The addresses of its launch parameters for callers that query them. Valid until the parameters are set again.
    pub(crate) values: Vec<u64>,
}

/// A node of an executable graph.
pub(crate) struct ExecutableNode {
    /// The node of the graph.
    pub(crate) of: u64,
    pub(crate) work: Work,
    /// The indices of the nodes that it depends on.
    pub(crate) after: Vec<usize>,
}

/// An executable graph. It is independent of the graph that it was instantiated from, which may be destroyed.
pub(crate) struct Executable {
    pub(crate) number: u64,
    pub(crate) nodes: Vec<ExecutableNode>,
    /// The last launch; the next one starts after it.
    pub(crate) last: Option<Point>,
}

/// All graphs of a session, by their handles.
#[derive(Default)]
pub(crate) struct Graphs {
    pub(crate) graphs: BTreeMap<u64, Graph>,
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) executables: BTreeMap<u64, Executable>,
    pub(crate) captures: BTreeMap<u64, Capture>,
    /// The modes of threads that have exchanged theirs.
    pub(crate) modes: BTreeMap<u64, Mode>,
    /// The description of each instantiated graph.
    pub(crate) descriptions: Vec<String>,
    created: u64,
}

impl Executable {
    /// Describes the graph: the numbers of nodes, of edges, and of nodes on the longest path.
    pub(crate) fn describe(&self) -> String {
        let edges: usize = self.nodes.iter().map(|node| node.after.len()).sum();
        // Edges may lead to earlier nodes of the list, so the lengths are computed until none grows.
        let mut lengths = vec![1; self.nodes.len()];
        let mut grows = true;
        while grows {
            grows = false;
            for (index, node) in self.nodes.iter().enumerate() {
                let before = node.after.iter().map(|other| lengths[*other]).max();
                let length = 1 + before.unwrap_or(0);
                grows |= length > lengths[index];
                lengths[index] = length;
            }
        }
        let (nodes, longest) = (self.nodes.len(), lengths.into_iter().max().unwrap_or(0));
        format!("{nodes} nodes, {edges} edges, longest path {longest}")
    }

    /// Returns `true` if the edges have a cycle.
    pub(crate) fn has_cycle(&self) -> bool {
        let mut done = vec![false; self.nodes.len()];
        let mut rest: Vec<usize> = (0..self.nodes.len()).collect();
        loop {
            let before = rest.len();
            rest.retain(|index| {
                let ready = self.nodes[*index].after.iter().all(|other| done[*other]);
                done[*index] |= ready;
                !ready
            });
            if rest.is_empty() || rest.len() == before {
                return !rest.is_empty();
            }
        }
    }
}

impl Graphs {
    /// Creates an empty graph.
    pub(crate) fn make_graph(&mut self, handle: u64, captured: bool) {
        self.created += 1;
        let graph = Graph {
            number: self.created,
            nodes: Vec::new(),
            captured,
        };
        self.graphs.insert(handle, graph);
    }

    /// Creates a node of an existing graph.
    pub(crate) fn make_node(&mut self, handle: u64, graph: u64, work: Work, after: Vec<u64>) {
        if let Some(of) = self.graphs.get_mut(&graph) {
            of.nodes.push(handle);
        }
        let values = work.values();
        let node = Node {
            graph,
            work,
            after,
            values,
        };
        self.nodes.insert(handle, node);
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
            ExecutableNode {
                of: *handle,
                work: node.work.clone(),
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

//! Graphs: nodes of work with edges between them, what is made of them to be launched, and captures, which make them
//! of what streams are given.
//!
//! | module | what |
//! | --- | --- |
//! | `work` | what a node does, and as an operation |
//! | `capture` | what a capture, and a stream that is captured, remember |
//! | `run` | an executable graph as an operation |
//! | `update` | changes of an executable graph |

mod capture;
mod run;
mod update;
mod work;

use std::collections::BTreeMap;

use crate::clock::Moment;

pub(crate) use capture::{Capture, Captured, Mode};
pub(crate) use update::Outcome;
pub(crate) use work::{End, Work};

/// A graph.
pub(crate) struct Graph {
    /// As reports call it.
    pub(crate) number: u64,
    /// In the order in which they were made.
    pub(crate) nodes: Vec<u64>,
    /// A capture is making it, and owns it.
    pub(crate) captured: bool,
}

/// A node of a graph.
pub(crate) struct Node {
    pub(crate) graph: u64,
    pub(crate) work: Work,
    /// The nodes that come before it.
    pub(crate) after: Vec<u64>,
    /// Where a caller finds the values of its launch: they stay until they are set anew.
    pub(crate) values: Vec<u64>,
}

/// A node of an executable graph.
pub(crate) struct ExecutableNode {
    /// The node that it was made of.
    pub(crate) of: u64,
    pub(crate) work: Work,
    /// Places of the nodes that come before it.
    pub(crate) after: Vec<usize>,
}

/// A graph that can be launched. It has all of it that it needs; what it was made of may end.
pub(crate) struct Executable {
    pub(crate) number: u64,
    pub(crate) nodes: Vec<ExecutableNode>,
    /// The last launch: the next one begins after it.
    pub(crate) last: Option<Moment>,
}

/// All graphs of a session, by their handles.
#[derive(Default)]
pub(crate) struct Graphs {
    pub(crate) graphs: BTreeMap<u64, Graph>,
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) executables: BTreeMap<u64, Executable>,
    pub(crate) captures: BTreeMap<u64, Capture>,
    /// Of threads that have exchanged theirs.
    pub(crate) modes: BTreeMap<u64, Mode>,
    /// What each executable graph was as it was made.
    pub(crate) said: Vec<String>,
    made: u64,
}

impl Executable {
    /// Its nodes, its edges, and the nodes of the longest way along edges.
    pub(crate) fn said(&self) -> String {
        let edges: usize = self.nodes.iter().map(|node| node.after.len()).sum();
        // Nodes are made before those that come after them, or joined by edges later: the ways grow until none does.
        let mut ways = vec![1; self.nodes.len()];
        let mut grows = true;
        while grows {
            grows = false;
            for (place, node) in self.nodes.iter().enumerate() {
                let before = node.after.iter().map(|other| ways[*other]).max();
                let way = 1 + before.unwrap_or(0);
                grows |= way > ways[place];
                ways[place] = way;
            }
        }
        let (nodes, longest) = (self.nodes.len(), ways.into_iter().max().unwrap_or(0));
        format!("{nodes} nodes, {edges} edges, longest way {longest}")
    }

    /// Is there a node that comes before itself?
    pub(crate) fn has_cycle(&self) -> bool {
        let mut done = vec![false; self.nodes.len()];
        let mut rest: Vec<usize> = (0..self.nodes.len()).collect();
        loop {
            let before = rest.len();
            rest.retain(|place| {
                let ready = self.nodes[*place].after.iter().all(|other| done[*other]);
                done[*place] |= ready;
                !ready
            });
            if rest.is_empty() || rest.len() == before {
                return !rest.is_empty();
            }
        }
    }
}

impl Graphs {
    /// Makes an empty graph.
    pub(crate) fn make_graph(&mut self, handle: u64, captured: bool) {
        self.made += 1;
        let graph = Graph {
            number: self.made,
            nodes: Vec::new(),
            captured,
        };
        self.graphs.insert(handle, graph);
    }

    /// Makes a node of a graph that there is.
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

    /// Ends a graph, and its nodes.
    pub(crate) fn end_graph(&mut self, graph: u64) {
        let ended = self.graphs.remove(&graph);
        for node in ended.map_or(Vec::new(), |graph| graph.nodes) {
            self.nodes.remove(&node);
        }
    }

    /// What a graph is to be launched as, if there is one.
    pub(crate) fn executable(&self, graph: u64) -> Option<Executable> {
        let of = self.graphs.get(&graph)?;
        let place = |node: &u64| of.nodes.iter().position(|other| other == node);
        let nodes = of.nodes.iter().map(|handle| {
            let node = &self.nodes[handle];
            ExecutableNode {
                of: *handle,
                work: node.work.clone(),
                after: node.after.iter().filter_map(place).collect(),
            }
        });
        Some(Executable {
            number: of.number,
            nodes: nodes.collect(),
            last: None,
        })
    }
}

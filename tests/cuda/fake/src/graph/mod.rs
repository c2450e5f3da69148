//! Graphs: nodes of work with edges between them, what is made of them to be launched, and captures, which make them
//! of what streams are given.
//!
//! | module | what |
//! | --- | --- |
//! | `work` | what a node does, and as an operation |
//! | `capture` | streams whose work is taken into a graph, and the rules of that |
//! | `run` | one launch of an executable graph |
//! | `update` | changes of an executable graph |

mod capture;
mod run;
mod update;
mod work;

use std::collections::BTreeMap;

use crate::code::Code;
use crate::state::State;
use crate::stream::Moment;

pub(crate) use capture::{Capture, Captured, Mode};
pub(crate) use run::{Run, run};
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
}

impl State {
    /// Makes an empty graph.
    pub(crate) fn make_graph(&mut self, captured: bool) -> u64 {
        let handle = self.handle();
        self.graphs.made += 1;
        let graph = Graph {
            number: self.graphs.made,
            nodes: Vec::new(),
            captured,
        };
        self.graphs.graphs.insert(handle, graph);
        handle
    }

    /// Makes a node of a graph that there is.
    pub(crate) fn make_node(&mut self, graph: u64, work: Work, after: Vec<u64>) -> u64 {
        let handle = self.handle();
        if let Some(of) = self.graphs.graphs.get_mut(&graph) {
            of.nodes.push(handle);
        }
        let values = work.values();
        let node = Node {
            graph,
            work,
            after,
            values,
        };
        self.graphs.nodes.insert(handle, node);
        handle
    }

    /// Ends a graph, and its nodes.
    pub(crate) fn end_graph(&mut self, graph: u64) {
        for node in self
            .graphs
            .graphs
            .remove(&graph)
            .map_or(Vec::new(), |graph| graph.nodes)
        {
            self.graphs.nodes.remove(&node);
        }
    }

    /// What a graph is to be launched as.
    pub(crate) fn executable(&mut self, graph: u64) -> Result<Executable, Code> {
        let Some(of) = self.graphs.graphs.get(&graph) else {
            return Err(Code::INVALID_VALUE);
        };
        let place = |node: &u64| of.nodes.iter().position(|other| other == node);
        let nodes: Vec<ExecutableNode> = of
            .nodes
            .iter()
            .map(|handle| {
                let node = &self.graphs.nodes[handle];
                ExecutableNode {
                    of: *handle,
                    work: node.work.clone(),
                    after: node.after.iter().filter_map(place).collect(),
                }
            })
            .collect();
        let number = of.number;
        if has_cycle(&nodes) {
            self.report(format!("wrong graph: graph {number} has a cycle"));
            return Err(Code::INVALID_VALUE);
        }
        Ok(Executable {
            number,
            nodes,
            last: None,
        })
    }
}

/// Is there a node that comes before itself?
fn has_cycle(nodes: &[ExecutableNode]) -> bool {
    let mut done = vec![false; nodes.len()];
    let mut rest: Vec<usize> = (0..nodes.len()).collect();
    loop {
        let before = rest.len();
        rest.retain(|place| {
            let ready = nodes[*place].after.iter().all(|other| done[*other]);
            done[*place] |= ready;
            !ready
        });
        if rest.is_empty() || rest.len() == before {
            return !rest.is_empty();
        }
    }
}

//! The nodes that roots need, as a list in topological order: operands come before their users.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::DType;
use smallvec::SmallVec;

use crate::error::ScheduleError;
use crate::lazy::buffer::{LazyBuffer, NodeRef};
use crate::lazy::graph::Graph;
use crate::lazy::node::Op;
use crate::shape::Shape;

/// The index of a node in a [`Walk`].
pub(crate) type Local = u32;

/// A node, as the scheduler sees it.
#[derive(Clone, Debug)]
pub(crate) struct WalkNode {
    pub(crate) op: Op,
    pub(crate) operands: SmallVec<[Local; 3]>,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    /// When the node was added to the graph, in order of additions: it names the node. Nodes that the scheduler adds
    /// have that of the first.
    pub(crate) written: u64,
}

impl WalkNode {
    /// Returns `true` if the node is a buffer of the graph or an input that each run binds.
    pub(crate) fn is_buffer(&self) -> bool {
        matches!(self.op, Op::Input(_) | Op::Buffer(_))
    }

    /// Returns the handle of a buffer of the graph.
    pub(crate) fn handle(&self) -> Option<&Handle<u8>> {
        match &self.op {
            Op::Buffer(handle) => Some(handle),
            _ => None,
        }
    }

    /// Returns the name of a buffer of the graph or an input. The name of a buffer is that of its slice.
    pub(crate) fn input_name(&self) -> Option<Arc<str>> {
        match &self.op {
            Op::Input(name) => Some(name.clone()),
            Op::Buffer(handle) => Some(handle.id().to_string().into()),
            _ => None,
        }
    }

    /// Returns `true` if the node has no operands and is computed wherever it is used.
    pub(crate) fn is_generated(&self) -> bool {
        matches!(
            self.op,
            Op::Const(_) | Op::Scalar(_) | Op::Index(_) | Op::Length(_) | Op::Random(_)
        )
    }

    /// Returns `true` if the node has the elements of its operand in another shape.
    pub(crate) fn is_view(&self) -> bool {
        matches!(
            self.op,
            Op::Broadcast
                | Op::Detach
                | Op::Permute(_)
                | Op::Narrow { .. }
                | Op::Reshape
                | Op::Parts { .. }
        )
    }

    /// Returns the node whose memory the node stores into, if it stores into an existing buffer. A view is not its
    /// operand: it gets a buffer of its own, whatever the lengths.
    pub(crate) fn base(&self) -> Option<Local> {
        match &self.op {
            Op::Set(_) => self.operands.first().copied(),
            Op::Custom(custom) if custom.in_place => self.operands.last().copied(),
            _ => None,
        }
    }

    /// Returns `true` if the node is computed element by element.
    pub(crate) fn is_elementwise(&self) -> bool {
        matches!(
            self.op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast
        )
    }
}

/// The nodes that some roots need.
pub(crate) struct Walk {
    pub(crate) nodes: Vec<WalkNode>,
    /// The node of each root. Several roots may be the same node.
    pub(crate) roots: Vec<Local>,
    /// The graph of the nodes.
    pub(crate) graph: Graph,
    /// Nodes that have a buffer of their own, which all their users load.
    pub(crate) apart: HashSet<Local>,
}

impl Walk {
    /// Collects the nodes that `roots` need.
    pub(crate) fn new(roots: &[&LazyBuffer]) -> Result<Self, ScheduleError> {
        let refs: Result<Vec<&NodeRef>, _> = roots.iter().map(|root| root.node_ref()).collect();
        let refs = refs.map_err(|error| ScheduleError::Graph(error.clone()))?;
        let Some(first) = refs.first() else {
            return Err(ScheduleError::NoRoots);
        };
        let other = |other: &&NodeRef| !other.graph.is(&first.graph);
        if let Some(second) = refs.iter().position(other) {
            return Err(ScheduleError::Graphs { first: 0, second });
        }
        let arena = first.graph.lock();
        // The value of a function takes its place: only gradients need its arguments.
        let ids = arena.needed(refs.iter().map(|root| root.id), |node| match node.op {
            Op::Function(_) => &node.operands[..1],
            _ => &node.operands,
        });
        let mut nodes: Vec<WalkNode> = Vec::with_capacity(ids.len());
        let most = ids.iter().max().map_or(0, |id| *id as usize + 1);
        let mut places: Vec<Local> = vec![0; most];
        for id in ids {
            let node = arena.node(id);
            let operands = node.operands.iter().map(|id| places[*id as usize]);
            if let Op::Function(_) = node.op {
                places[id as usize] = places[node.operands[0] as usize];
                continue;
            }
            nodes.push(WalkNode {
                op: node.op.clone(),
                operands: operands.collect(),
                shape: node.shape.clone(),
                dtype: node.dtype,
                written: arena.written(id),
            });
            places[id as usize] = (nodes.len() - 1) as Local;
        }
        drop(arena);
        Ok(Self {
            nodes,
            roots: refs.iter().map(|root| places[root.id as usize]).collect(),
            graph: first.graph.clone(),
            apart: HashSet::new(),
        })
    }

    /// Adds a node of the scheduler, with a buffer of its own.
    pub(crate) fn add(&mut self, node: WalkNode) -> Local {
        let local = self.nodes.len() as Local;
        self.nodes.push(node);
        local
    }

    pub(crate) fn node(&self, local: Local) -> &WalkNode {
        &self.nodes[local as usize]
    }
}

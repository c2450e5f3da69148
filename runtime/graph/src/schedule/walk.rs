//! The part of a graph that roots need, as a list in which what is used comes before what uses it.
//!
//! The walk is a loop with a list of its own: a chain of a million nodes needs no stack. It stops at buffers that are there.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_ir::DType;
use smallvec::SmallVec;

use crate::error::ScheduleError;
use crate::lazy::buffer::{Held, LazyBuffer};
use crate::lazy::graph::Named;
use crate::lazy::node::{NodeId, Op};
use crate::shape::Shape;

/// The place of a node in a [`Walk`].
pub(crate) type Local = u32;

/// A node as the scheduler sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) op: Op,
    pub(crate) operands: SmallVec<[Local; 3]>,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
    /// Which node of the graph it is.
    pub(crate) id: NodeId,
    /// When it was written, among the nodes of the graph. Nodes that schedules make have that of the first.
    pub(crate) written: u64,
}

impl Seen {
    /// Is it a buffer that is there, or is bound by each run?
    pub(crate) fn is_buffer(&self) -> bool {
        matches!(self.op, Op::Input(_) | Op::Buffer(_))
    }

    /// Is it made of nothing, and computed wherever it is needed?
    pub(crate) fn is_generated(&self) -> bool {
        matches!(
            self.op,
            Op::Const(_) | Op::Scalar(_) | Op::Index(_) | Op::Length(_) | Op::Random(_)
        )
    }

    /// Is it the same elements in another shape?
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

    /// Is it computed element by element?
    pub(crate) fn is_elementwise(&self) -> bool {
        matches!(
            self.op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast
        )
    }
}

/// What roots need.
pub(crate) struct Walk {
    pub(crate) nodes: Vec<Seen>,
    /// For each root its node. The same node may be several roots.
    pub(crate) roots: Vec<Local>,
    /// The buffers among the nodes.
    pub(crate) named: Arc<Named>,
    /// Nodes that depend on nothing but constants and what is held; empty where nothing is.
    pub(crate) held: Vec<bool>,
    /// Nodes that get a buffer, whatever needs them.
    pub(crate) forced: Vec<Local>,
}

const UNSEEN: Local = Local::MAX;

impl Walk {
    /// What `roots` need.
    pub(crate) fn new(roots: &[&LazyBuffer]) -> Result<Self, ScheduleError> {
        let held: Result<Vec<&Held>, _> = roots.iter().map(|root| root.held()).collect();
        let held = held.map_err(|error| ScheduleError::Graph(error.clone()))?;
        let Some(first) = held.first() else {
            return Err(ScheduleError::NoRoots);
        };
        let other = |held: &&Held| !held.graph.is(&first.graph);
        if let Some(second) = held.iter().position(other) {
            return Err(ScheduleError::Graphs { first: 0, second });
        }
        let mut arena = first.graph.lock();
        let mut nodes: Vec<Seen> = Vec::new();
        let mut places: Vec<Local> = Vec::new();
        let place =
            |places: &[Local], id: NodeId| places.get(id as usize).copied().unwrap_or(UNSEEN);
        // A node, and how many of its operands have been looked at.
        let mut pending: Vec<(NodeId, usize)> = Vec::new();
        for root in &held {
            pending.push((root.id, 0));
            while let Some((id, seen)) = pending.pop() {
                if place(&places, id) != UNSEEN {
                    continue;
                }
                let node = arena.node(id);
                if let Some(operand) = node.operands.get(seen) {
                    pending.push((id, seen + 1));
                    if place(&places, *operand) == UNSEEN {
                        pending.push((*operand, 0));
                    }
                    continue;
                }
                if places.len() <= id as usize {
                    places.resize(id as usize + 1, UNSEEN);
                }
                places[id as usize] = nodes.len() as Local;
                nodes.push(Seen {
                    op: node.op.clone(),
                    operands: node
                        .operands
                        .iter()
                        .map(|id| places[*id as usize])
                        .collect(),
                    shape: node.shape.clone(),
                    dtype: node.dtype,
                    id,
                    written: arena.written(id),
                });
            }
        }
        let buffers = nodes.iter().filter(|node| node.is_buffer());
        let buffers = buffers.map(|node| node.id).collect();
        let named = Arc::new(Named::hold(&first.graph, &mut arena, buffers));
        drop(arena);
        let roots: Vec<Local> = held.iter().map(|root| places[root.id as usize]).collect();
        Ok(Self {
            nodes,
            roots,
            named,
            held: Vec::new(),
            forced: Vec::new(),
        })
    }

    /// Adds a node that a schedule makes, with a buffer of its own. Is it made before runs?
    pub(crate) fn add(&mut self, node: Seen, is_held: bool) -> Local {
        let local = self.nodes.len() as Local;
        self.nodes.push(node);
        if !self.held.is_empty() {
            self.held.push(is_held);
        }
        local
    }

    /// Does a node depend on nothing but constants and what is held?
    pub(crate) fn is_held(&self, local: Local) -> bool {
        self.held.get(local as usize).copied().unwrap_or(false)
    }

    pub(crate) fn node(&self, local: Local) -> &Seen {
        &self.nodes[local as usize]
    }

    /// The nodes that are roots.
    pub(crate) fn root_set(&self) -> HashSet<Local> {
        self.roots.iter().copied().collect()
    }
}

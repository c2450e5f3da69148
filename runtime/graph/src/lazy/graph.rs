//! A graph: an arena of nodes that any thread may add to.
//!
//! Nodes are named by indices and never change, but that a buffer may take the place of what computes it; then what it was
//! computed from is let go. Each node counts who holds it: buffers of users, and nodes that are made of it. What nobody
//! holds is freed by a loop with a list, not by calls within calls, so that a chain of a million nodes goes as a short one does.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_client::handle::Handle;
use smallvec::SmallVec;

use crate::error::Why;
use crate::lazy::node::{Node, NodeId, Op};

/// Where lazy buffers are made. Cheap to clone: clones are the same graph.
///
/// ```
/// use millstream_graph::{DType, Graph};
///
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [64, 784]);
/// let w = graph.input("w", DType::F32, [784, 10]);
/// let y = x.matmul(&w).softmax(-1);
/// assert_eq!(y.shape().to_string(), "[64, 10]");
/// ```
#[derive(Clone, Default)]
pub struct Graph(Arc<Mutex<Arena>>);

/// The nodes of a graph.
#[derive(Default)]
pub(crate) struct Arena {
    slots: Vec<Slot>,
    /// The first free slot, and so on through the free slots.
    free: Option<NodeId>,
    live: usize,
    /// Nodes that were ever added.
    added: u64,
}

enum Slot {
    Free {
        next: Option<NodeId>,
    },
    Used {
        node: Node,
        holds: u32,
        /// How many nodes were added before it: names are used again, this is not.
        written: u64,
    },
}

impl Arena {
    /// A node that is there.
    ///
    /// # Panics
    /// When it is not: whoever names a node holds it.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        match &self.slots[id as usize] {
            Slot::Used { node, .. } => node,
            Slot::Free { .. } => unreachable!("a node that is named is held"),
        }
    }

    /// When a node was written, among all of the graph.
    pub(crate) fn written(&self, id: NodeId) -> u64 {
        match &self.slots[id as usize] {
            Slot::Used { written, .. } => *written,
            Slot::Free { .. } => 0,
        }
    }

    /// A node that is there, with one more hold on it.
    pub(crate) fn held_node(&mut self, id: NodeId) -> Node {
        self.hold(id);
        self.node(id).clone()
    }

    /// Adds a node with one hold, and holds what it is made of. None when there are too many.
    fn add(&mut self, node: Node) -> Option<NodeId> {
        let id = match self.free {
            Some(id) => id,
            None => NodeId::try_from(self.slots.len()).ok()?,
        };
        for operand in &node.operands {
            self.hold(*operand);
        }
        let (holds, written) = (1, self.added);
        self.added += 1;
        let slot = Slot::Used {
            node,
            holds,
            written,
        };
        if self.free.is_some() {
            let old = std::mem::replace(&mut self.slots[id as usize], slot);
            self.free = match old {
                Slot::Free { next } => next,
                Slot::Used { .. } => None,
            };
        } else {
            self.slots.push(slot);
        }
        self.live += 1;
        Some(id)
    }

    fn hold(&mut self, id: NodeId) {
        if let Slot::Used { holds, .. } = &mut self.slots[id as usize] {
            *holds += 1;
        }
    }

    /// Lets go of a node. Handles and user code are put aside, to be dropped without the lock.
    fn release(&mut self, id: NodeId, freed: &mut Vec<Node>) {
        let mut pending: SmallVec<[NodeId; 16]> = SmallVec::from_slice(&[id]);
        while let Some(id) = pending.pop() {
            let Slot::Used { holds, .. } = &mut self.slots[id as usize] else {
                continue;
            };
            *holds -= 1;
            if *holds > 0 {
                continue;
            }
            let next = self.free.replace(id);
            let slot = std::mem::replace(&mut self.slots[id as usize], Slot::Free { next });
            self.live -= 1;
            if let Slot::Used { node, .. } = slot {
                pending.extend_from_slice(&node.operands);
                if matches!(node.op, Op::Buffer(_) | Op::Custom(_)) {
                    freed.push(node);
                }
            }
        }
    }
}

/// Buffers of a graph that a schedule names by their numbers, and holds, so that no other node has one of these numbers meanwhile.
#[derive(Debug)]
pub(crate) struct Named {
    graph: Graph,
    /// In order.
    ids: Vec<NodeId>,
}

impl Named {
    /// Holds these nodes of a graph, whose nodes are those of the arena.
    pub(crate) fn hold(graph: &Graph, arena: &mut Arena, mut ids: Vec<NodeId>) -> Self {
        ids.sort_unstable();
        ids.iter().for_each(|id| arena.hold(*id));
        let graph = graph.clone();
        Self { graph, ids }
    }

    /// The number of a node of this graph, if it is one of them.
    pub(crate) fn number(&self, graph: &Graph, id: NodeId) -> Option<NodeId> {
        let is_one = graph.is(&self.graph) && self.ids.binary_search(&id).is_ok();
        is_one.then_some(id)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.ids.iter().for_each(|id| self.graph.release(*id));
    }
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.lock().live
    }

    /// Are there no nodes?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes. Nothing that runs with the lock may panic half-way, so a poisoned one is as good as any.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arena> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is(&self, other: &Graph) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn add(&self, node: Node) -> Option<NodeId> {
        self.lock().add(node)
    }

    pub(crate) fn hold(&self, id: NodeId) {
        self.lock().hold(id);
    }

    pub(crate) fn release(&self, id: NodeId) {
        let mut freed = Vec::new();
        self.lock().release(id, &mut freed);
    }

    /// Puts a buffer in the place of what computes it, and lets go of what it was computed from.
    pub(crate) fn realize(&self, id: NodeId, handle: Handle<u8>) {
        let mut freed = Vec::new();
        let mut arena = self.lock();
        let Slot::Used { node, .. } = &mut arena.slots[id as usize] else {
            return;
        };
        let old = std::mem::replace(&mut node.op, Op::Buffer(handle));
        let operands = std::mem::take(&mut node.operands);
        for operand in operands {
            arena.release(operand, &mut freed);
        }
        drop(arena);
        drop(old);
    }
}

/// The axis that is meant, where negative ones count from the end.
pub(crate) fn axis_of(axis: isize, rank: usize) -> Result<usize, Why> {
    let from_start = if axis < 0 { axis + rank as isize } else { axis };
    match usize::try_from(from_start) {
        Ok(index) if index < rank => Ok(index),
        _ => Err(Why::Axis { axis, rank }),
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}

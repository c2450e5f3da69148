//! A graph: an arena of nodes that any thread may add to.
//!
//! Nodes are named by indices and immutable, except that a buffer may replace the operation of a node (`realize`),
//! which releases its operands. Each node has a reference count: lazy buffers and nodes that use it. Releasing the last
//! reference frees a node and releases its operands iteratively, so dropping a chain of a million nodes needs no stack.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_client::handle::Handle;
use slab::Slab;
use smallvec::SmallVec;

use crate::error::{Why, why};
use crate::lazy::node::{Node, NodeId, Op};

/// A graph, in which lazy buffers are created. Cheap to clone: clones are the same graph.
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
    slots: Slab<Slot>,
    /// The number of nodes ever added.
    added: u64,
}

struct Slot {
    node: Node,
    references: u32,
    /// The number of nodes that were added before. Ids are reused, this number is not.
    written: u64,
}

// A caller that has an id holds a reference, so the slot exists.
impl Arena {
    /// Returns a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.slots[id as usize].node
    }

    /// Returns when a node was added, in order of additions.
    pub(crate) fn written(&self, id: NodeId) -> u64 {
        self.slots[id as usize].written
    }

    /// Returns these nodes and all that they need, each after its operands; `operands` returns those of a node that it
    /// needs. Iterative, so a chain of a million nodes needs no stack.
    pub(crate) fn needed(
        &self,
        roots: impl IntoIterator<Item = NodeId>,
        operands: impl Fn(&Node) -> &[NodeId],
    ) -> Vec<NodeId> {
        let mut order = Vec::new();
        let mut is_seen: HashSet<NodeId> = HashSet::new();
        // A node, and the number of its operands that have been visited.
        let mut pending: Vec<(NodeId, usize)> = Vec::new();
        for root in roots {
            pending.push((root, 0));
            while let Some((id, seen)) = pending.pop() {
                if is_seen.contains(&id) {
                    continue;
                }
                if let Some(operand) = operands(self.node(id)).get(seen) {
                    pending.extend([(id, seen + 1), (*operand, 0)]);
                    continue;
                }
                is_seen.insert(id);
                order.push(id);
            }
        }
        order
    }

    /// Adds a node with one reference, and a reference to each operand. Returns its id, and when it was added. `None`
    /// if there are too many nodes.
    pub(crate) fn add(&mut self, node: Node) -> Option<(NodeId, u64)> {
        let id = NodeId::try_from(self.slots.vacant_key()).ok()?;
        for operand in &node.operands {
            self.add_reference(*operand);
        }
        let (references, written) = (1, self.added);
        self.added += 1;
        self.slots.insert(Slot {
            node,
            references,
            written,
        });
        Some((id, written))
    }

    pub(crate) fn add_reference(&mut self, id: NodeId) {
        self.slots[id as usize].references += 1;
    }

    /// Releases a reference. Nodes with handles or user code are added to `freed`, to be dropped without the lock.
    fn release(&mut self, id: NodeId, freed: &mut Vec<Node>) {
        let mut pending: SmallVec<[NodeId; 16]> = SmallVec::from_slice(&[id]);
        while let Some(id) = pending.pop() {
            let slot = &mut self.slots[id as usize];
            slot.references -= 1;
            if slot.references > 0 {
                continue;
            }
            let Slot { node, .. } = self.slots.remove(id as usize);
            pending.extend_from_slice(&node.operands);
            if matches!(node.op, Op::Buffer(_) | Op::Custom(_)) {
                freed.push(node);
            }
        }
    }
}

impl Graph {
    /// Creates an empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Returns `true` if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks the arena. No code panics half-way with the lock held, so a poisoned lock is intact.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Arena> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is(&self, other: &Graph) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn release(&self, id: NodeId) {
        let mut freed = Vec::new();
        self.lock().release(id, &mut freed);
    }

    /// Replaces the operation of a node by a buffer, and releases the operands.
    pub(crate) fn realize(&self, id: NodeId, handle: Handle<u8>) {
        let mut freed = Vec::new();
        let mut arena = self.lock();
        let node = &mut arena.slots[id as usize].node;
        let old = std::mem::replace(&mut node.op, Op::Buffer(handle));
        let operands = std::mem::take(&mut node.operands);
        for operand in operands {
            arena.release(operand, &mut freed);
        }
        drop(arena);
        drop(old);
    }
}

/// Returns the index of an axis. Negative axes count from the end.
pub(crate) fn axis_of(axis: isize, rank: usize) -> Result<usize, Why> {
    let from_start = if axis < 0 { axis + rank as isize } else { axis };
    match usize::try_from(from_start) {
        Ok(index) if index < rank => Ok(index),
        _ => Err(why::axis(axis, rank)),
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} nodes)", self.len())
    }
}

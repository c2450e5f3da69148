//! A graph: an arena of nodes that any thread may add to.
//!
//! Nodes are named by indices and never change, but that a buffer may take the place of what computes it; then what it was
//! computed from is let go. Each node counts who holds it: buffers of users, and nodes that are made of it. What nobody
//! holds is freed by a loop with a list, not by calls within calls, so that a chain of a million nodes goes as a short one does.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_client::handle::Handle;
use millstream_ir::DType;
use millstream_protocol::element::Element;
use smallvec::SmallVec;

use crate::error::Why;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::node::{Node, NodeId, Op};
use crate::lazy::scalar::Scalar;
use crate::literal::Literal;
use crate::shape::Shape;
use crate::size::{Size, Symbol};

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

    /// The number of a buffer, if it is one of them.
    pub(crate) fn number(&self, buffer: &LazyBuffer) -> Option<NodeId> {
        let held = buffer.held().ok()?;
        let is_one = held.graph.is(&self.graph) && self.ids.binary_search(&held.id).is_ok();
        is_one.then_some(held.id)
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

    /// A buffer that each run binds: dense, rows one after the other.
    #[track_caller]
    pub fn input(
        &self,
        name: impl Into<Arc<str>>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> LazyBuffer {
        self.leaf(Op::Input(name.into()), dtype, shape.into())
    }

    /// A buffer that is there: dense, rows one after the other. A run may bind another in its place.
    #[track_caller]
    pub fn buffer<T: Element>(&self, handle: &Handle<T>, shape: impl Into<Shape>) -> LazyBuffer {
        self.buffer_as(handle, T::DTYPE, shape)
    }

    /// A buffer that is there, as elements of a type that no Rust type stands for: truth values in bytes, say.
    #[track_caller]
    pub fn buffer_as<T: Element>(
        &self,
        handle: &Handle<T>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> LazyBuffer {
        let at = Location::caller();
        let shape = shape.into();
        let elements = shape.known().and_then(|lengths| {
            let product = |all: u64, length| all.checked_mul(length);
            lengths.into_iter().try_fold(dtype.size() as u64, product)
        });
        let why = match elements {
            Some(expected) if expected != handle.size() => {
                let given = handle.size();
                Some(Why::HandleBytes { expected, given })
            }
            Some(_) => None,
            None => {
                let symbol = shape.iter().flat_map(Size::symbols).next();
                Some(symbol.map_or(Why::TooLarge, |symbol| {
                    Why::Symbolic(symbol.name().to_owned())
                }))
            }
        };
        if let Some(why) = why {
            return LazyBuffer::refused("buffer", [(dtype, shape)], why, at);
        }
        match handle.cast::<u8>() {
            Ok(bytes) => self.leaf(Op::Buffer(bytes), dtype, shape),
            Err(why) => {
                LazyBuffer::refused("buffer", [(dtype, shape)], Why::Kernel(why.to_string()), at)
            }
        }
    }

    /// One number, with no axes.
    #[track_caller]
    pub fn constant(&self, dtype: DType, value: impl Into<Literal>) -> LazyBuffer {
        let value = value.into();
        match value.bits(dtype) {
            Some(bits) => self.leaf(Op::Const(bits), dtype, Shape::scalar()),
            None => {
                let value = value.to_string();
                let why = Why::Literal { value, dtype };
                LazyBuffer::refused("constant", [], why, Location::caller())
            }
        }
    }

    /// A shape full of one number.
    #[track_caller]
    pub fn full(
        &self,
        dtype: DType,
        shape: impl Into<Shape>,
        value: impl Into<Literal>,
    ) -> LazyBuffer {
        self.constant(dtype, value).broadcast_to(shape)
    }

    /// A shape full of zeros.
    #[track_caller]
    pub fn zeros(&self, dtype: DType, shape: impl Into<Shape>) -> LazyBuffer {
        let zero = if dtype == DType::Bool {
            Literal::Bool(false)
        } else {
            Literal::Int(0)
        };
        self.full(dtype, shape, zero)
    }

    /// A number that runs may change, with the value that it has unless they do. The lazy buffer has no axes.
    #[track_caller]
    pub fn scalar(
        &self,
        name: impl Into<String>,
        dtype: DType,
        value: impl Into<Literal>,
    ) -> (Scalar, LazyBuffer) {
        let value = value.into();
        let bits = value.bits(dtype);
        let scalar = Scalar::new(name, dtype, bits.unwrap_or(0));
        let buffer = match bits {
            Some(_) => self.leaf(Op::Scalar(scalar.clone()), dtype, Shape::scalar()),
            None => {
                let value = value.to_string();
                let why = Why::Literal { value, dtype };
                LazyBuffer::refused("scalar", [], why, Location::caller())
            }
        };
        (scalar, buffer)
    }

    /// A length that is known when a schedule runs, of at most `max`. Use it in shapes and ranges.
    pub fn length(&self, name: impl Into<String>, max: u64) -> Symbol {
        Symbol::new(name, max)
    }

    /// The value of a length in a run, as `i64` with no axes.
    #[track_caller]
    pub fn length_value(&self, length: impl Into<Size>) -> LazyBuffer {
        self.leaf(Op::Length(length.into()), DType::I64, Shape::scalar())
    }

    /// The index along one axis of a shape, as `i64`.
    #[track_caller]
    pub fn index(&self, shape: impl Into<Shape>, axis: isize) -> LazyBuffer {
        let shape = shape.into();
        match axis_of(axis, shape.rank()) {
            Ok(axis) => self.leaf(Op::Index(axis), DType::I64, shape),
            Err(why) => LazyBuffer::refused("index", [], why, Location::caller()),
        }
    }

    /// The numbers `0..len`, as `i64`.
    #[track_caller]
    pub fn iota(&self, len: impl Into<Size>) -> LazyBuffer {
        self.index(Shape::new([len.into()]), 0)
    }

    /// 32 random bits for each element: Philox4x32-10 with the seed as its key and the flat index as its counter, so that the
    /// same seed gives the same numbers on every device and in every order. A run may change the seed.
    #[track_caller]
    pub fn random_bits(&self, shape: impl Into<Shape>, seed: u64) -> (Scalar, LazyBuffer) {
        let seed = Scalar::new("seed", DType::U64, seed);
        let bits = self.leaf(Op::Random(seed.clone()), DType::U32, shape.into());
        (seed, bits)
    }

    /// Random floats in `0.0..1.0`: the upper 24 of [`Graph::random_bits`].
    #[track_caller]
    pub fn uniform(&self, shape: impl Into<Shape>, seed: u64) -> (Scalar, LazyBuffer) {
        let (seed, bits) = self.random_bits(shape, seed);
        // Cut off by a division, exactly: of an integer towards zero.
        let upper = (&bits / 256_u32).cast(DType::F32);
        (seed, upper * (1.0 / 16_777_216.0))
    }

    /// Random floats of the standard normal distribution, of type `f32`: pairs of [`Graph::random_bits`] by the transform of Box
    /// and Muller.
    #[track_caller]
    pub fn normal(&self, shape: impl Into<Shape>, seed: u64) -> (Scalar, LazyBuffer) {
        let shape = shape.into();
        let Some(count) = shape.elements() else {
            let at = Location::caller();
            let refused = LazyBuffer::refused("normal", [(DType::F32, shape)], Why::TooLarge, at);
            return (Scalar::new("seed", DType::U64, seed), refused);
        };
        let (seed, bits) = self.random_bits([count, Size::from(2)], seed);
        let upper = (&bits / 256_u32).cast(DType::F32);
        // The radius is of a number in (0, 1], whose logarithm is finite.
        let radius = ((upper.narrow(1, 0, 1) + 1.0) * (1.0 / 16_777_216.0)).log() * -2.0;
        let angle = upper.narrow(1, 1, 1) * (std::f64::consts::TAU / 16_777_216.0);
        (seed, (radius.sqrt() * angle.cos()).reshape(shape))
    }

    #[track_caller]
    fn leaf(&self, op: Op, dtype: DType, shape: Shape) -> LazyBuffer {
        LazyBuffer::make(self, op, SmallVec::new(), dtype, shape, Location::caller())
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

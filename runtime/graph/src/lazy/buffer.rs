//! The lazy buffer: a reference to a node of a graph, or the error of a refused operation.

use std::fmt;
use std::panic::Location;

use millstream_client::handle::Handle;
use millstream_ir::DType;
use millstream_protocol::Element;
use smallvec::SmallVec;

use crate::elements::check_elements;
use crate::error::{At, GraphError, ScheduleError, Why, why};
use crate::lazy::graph::{Graph, NamedBuffers};
use crate::lazy::node::{Node, NodeId, Op};
use crate::literal::Literal;
use crate::shape::{MAX_RANK, Shape};
use crate::size::Size;

/// A node of an expression: an operation and its operands. `Send + Sync` and cheap to clone. Nothing is computed until
/// a [`Schedule`](crate::Schedule) with it runs.
///
/// # Errors
/// Each operation checks types, shapes and limits at once. An invalid one returns a *refused* buffer, which carries the
/// error and its location, and so does every operation on a refused buffer. So expressions need no `?` at each step:
/// [`LazyBuffer::check`], or the schedule, returns the first error.
#[derive(Clone)]
#[must_use = "a lazy buffer is computed only by a schedule that needs it"]
pub struct LazyBuffer(Result<NodeRef, GraphError>);

/// A reference to a node.
pub(crate) struct NodeRef {
    pub(crate) graph: Graph,
    pub(crate) id: NodeId,
    shape: Shape,
    dtype: DType,
}

impl Clone for NodeRef {
    fn clone(&self) -> Self {
        self.graph.lock().add_reference(self.id);
        Self {
            graph: self.graph.clone(),
            id: self.id,
            shape: self.shape.clone(),
            dtype: self.dtype,
        }
    }
}

impl Drop for NodeRef {
    fn drop(&mut self) {
        self.graph.release(self.id);
    }
}

/// An operand: a buffer, or a number, which takes the type of the other operand.
pub enum Operand {
    /// A buffer.
    Buffer(LazyBuffer),
    /// A number.
    Number(Literal),
}

impl From<&LazyBuffer> for Operand {
    fn from(buffer: &LazyBuffer) -> Self {
        Operand::Buffer(buffer.clone())
    }
}

impl From<LazyBuffer> for Operand {
    fn from(buffer: LazyBuffer) -> Self {
        Operand::Buffer(buffer)
    }
}

impl<L: Into<Literal>> From<L> for Operand {
    fn from(number: L) -> Self {
        Operand::Number(number.into())
    }
}

impl LazyBuffer {
    /// Adds a node. Performs the checks that all operations need: the number of axes, the type, and that the size does
    /// not overflow.
    fn make(
        graph: &Graph,
        op: Op,
        operands: SmallVec<[NodeId; 3]>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Self, Why> {
        if shape.rank() > MAX_RANK {
            let given = shape.rank();
            let why =
                format!("expected at most {MAX_RANK} axes, got {given}: merge some with `reshape`");
            return Err(why.into());
        }
        if let Some(negative) = shape.iter().find(|axis| axis.min().is_none_or(|m| m < 0)) {
            return Err(why::negative(negative));
        }
        if !is_supported(dtype) {
            return Err(why::dtype(dtype));
        }
        let bytes = shape.elements().and_then(|elements| {
            let bytes = elements.times(&Size::fixed(dtype.size() as i64))?;
            bytes.max()
        });
        bytes.ok_or(why::TOO_LARGE)?;
        let node = Node {
            op,
            operands,
            shape: shape.clone(),
            dtype,
        };
        let id = graph.lock().add(node).ok_or(why::TOO_LARGE)?;
        Ok(Self(Ok(NodeRef {
            graph: graph.clone(),
            id,
            shape,
            dtype,
        })))
    }

    /// Adds a node without operands.
    pub(crate) fn leaf(graph: &Graph, op: Op, dtype: DType, shape: Shape, at: At) -> Self {
        let name = op.name();
        let made = Self::make(graph, op, SmallVec::new(), dtype, shape.clone());
        made.unwrap_or_else(|why| Self::refused(name, [(dtype, shape)], why, at))
    }

    pub(crate) fn refused(
        op: &'static str,
        operands: impl IntoIterator<Item = (DType, Shape)>,
        why: impl Into<Why>,
        at: At,
    ) -> Self {
        Self(Err(GraphError::new(op, operands, why, at)))
    }

    /// Returns this buffer. If it is refused and none of these operands is, it is the error of an operation that is
    /// composed of others: it gets the name and, if there are any, the operands that the caller knows.
    pub(crate) fn named(self, op: &'static str, operands: &[&LazyBuffer], at: At) -> Self {
        match &self.0 {
            Err(error) if operands.is_empty() => {
                let operands = error.operands().iter().cloned();
                Self::refused(op, operands, error.why().to_owned(), at)
            }
            Err(error) if operands.iter().all(|operand| operand.error().is_none()) => {
                let operands = operands.iter().map(|of| (of.dtype(), of.shape()));
                Self::refused(op, operands, error.why().to_owned(), at)
            }
            _ => self,
        }
    }

    /// Returns what `build` makes of these buffers, or the first of them that is refused. If it fails, or makes a refused
    /// buffer, the error has the name and the operands of this operation, not those of the parts.
    pub(crate) fn composed(
        op: &'static str,
        operands: &[&LazyBuffer],
        at: At,
        build: impl FnOnce() -> Result<LazyBuffer, Why>,
    ) -> Self {
        if let Some(refused) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*refused).clone();
        }
        match build() {
            Ok(made) => made.named(op, operands, at),
            Err(why) => {
                let operands = operands.iter().map(|of| (of.dtype(), of.shape()));
                Self::refused(op, operands, why, at)
            }
        }
    }

    /// As [`LazyBuffer::composed`], of one buffer, which must be of floats.
    pub(crate) fn of_floats(
        &self,
        op: &'static str,
        at: At,
        build: impl FnOnce(&LazyBuffer) -> LazyBuffer,
    ) -> Self {
        Self::composed(op, &[self], at, || match self.dtype() {
            dtype if dtype.is_float() => Ok(build(self)),
            dtype => Err(why::dtype(dtype)),
        })
    }

    /// Returns the node, or the error.
    pub(crate) fn node_ref(&self) -> Result<&NodeRef, &GraphError> {
        self.0.as_ref()
    }

    /// Returns the id of its node, if the node is one of those named.
    pub(crate) fn id_in(&self, named: &NamedBuffers) -> Option<NodeId> {
        let node_ref = self.node_ref().ok()?;
        named.id(&node_ref.graph, node_ref.id)
    }

    /// Returns a lazy buffer that takes over a reference to a node.
    pub(crate) fn of_node(graph: &Graph, id: NodeId, node: &Node) -> Self {
        Self(Ok(NodeRef {
            graph: graph.clone(),
            id,
            shape: node.shape.clone(),
            dtype: node.dtype,
        }))
    }

    /// Returns the operation that `build` makes of the nodes of `buffers`, which must be of one graph. Returns the
    /// first refused buffer, if any.
    pub(crate) fn of<const N: usize>(
        op: &'static str,
        buffers: [&LazyBuffer; N],
        at: At,
        build: impl FnOnce([&NodeRef; N]) -> Result<(Op, DType, Shape), Why>,
    ) -> Self {
        let build = |nodes: &[&NodeRef]| build(std::array::from_fn(|index| nodes[index]));
        Self::of_all(op, buffers, at, build)
    }

    /// As [`LazyBuffer::of`], for any number of buffers.
    pub(crate) fn of_all<'a>(
        op: &'static str,
        buffers: impl IntoIterator<Item = &'a LazyBuffer>,
        at: At,
        build: impl FnOnce(&[&NodeRef]) -> Result<(Op, DType, Shape), Why>,
    ) -> Self {
        let nodes = buffers.into_iter().map(LazyBuffer::node_ref);
        let nodes: Vec<&NodeRef> = match nodes.collect() {
            Ok(nodes) => nodes,
            Err(error) => return Self(Err(error.clone())),
        };
        let try_make = || -> Result<Self, Why> {
            let graph = &nodes.first().ok_or(why::NOTHING)?.graph;
            if nodes.iter().any(|node| !node.graph.is(graph)) {
                return Err(why::GRAPHS);
            }
            let (made, dtype, shape) = build(&nodes)?;
            let operands = nodes.iter().map(|node| node.id).collect();
            Self::make(graph, made, operands, dtype, shape)
        };
        try_make().unwrap_or_else(|why| {
            let operands = nodes.iter().map(|node| (node.dtype, node.shape.clone()));
            Self::refused(op, operands, why, at)
        })
    }

    /// Returns the buffer, or its error.
    ///
    /// # Errors
    /// The error of the first refused operation among this one and its operands.
    pub fn check(&self) -> Result<&Self, GraphError> {
        match &self.0 {
            Ok(_) => Ok(self),
            Err(error) => Err(error.clone()),
        }
    }

    /// Returns the error of a refused buffer.
    pub fn error(&self) -> Option<&GraphError> {
        self.0.as_ref().err()
    }

    /// Returns the shape. A refused buffer has no axes.
    pub fn shape(&self) -> Shape {
        match &self.0 {
            Ok(node_ref) => node_ref.shape.clone(),
            Err(_) => Shape::scalar(),
        }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |node_ref| node_ref.shape.rank())
    }

    /// Returns the type of the elements. A refused buffer has `bool`.
    pub fn dtype(&self) -> DType {
        self.0
            .as_ref()
            .map_or(DType::Bool, |node_ref| node_ref.dtype)
    }

    /// Returns the graph, unless the buffer is refused.
    pub fn graph(&self) -> Option<&Graph> {
        self.0.as_ref().ok().map(|node_ref| &node_ref.graph)
    }

    /// Replaces the operation of this node by a computed buffer, and releases its operands. Operations on this node use
    /// the buffer from now on.
    ///
    /// # Errors
    /// A refused buffer; a handle of another size; [`ScheduleError::Elements`] if `T` is neither the element type nor
    /// `u8`.
    #[track_caller]
    pub fn realize<T: Element>(&self, handle: &Handle<T>) -> Result<(), ScheduleError> {
        let node_ref = self.node_ref().map_err(Clone::clone)?;
        check_elements::<T>(node_ref.dtype, || format!("{self:?}"))?;
        let as_leaf = node_ref
            .graph
            .buffer_as(handle, node_ref.dtype, &node_ref.shape);
        as_leaf.check()?;
        let bytes = handle.cast::<u8>().map_err(|why| {
            let operand = (node_ref.dtype, node_ref.shape.clone());
            GraphError::new("realize", [operand], why.to_string(), Location::caller())
        })?;
        node_ref.graph.realize(node_ref.id, bytes);
        Ok(())
    }

    /// Returns `true` if it is a buffer of the graph or an input that each run binds.
    pub fn is_realized(&self) -> bool {
        let Ok(node_ref) = &self.0 else {
            return false;
        };
        matches!(
            node_ref.graph.lock().node(node_ref.id).op,
            Op::Buffer(_) | Op::Input(_)
        )
    }

    /// Returns a number as a buffer of this buffer's type.
    pub(crate) fn number(&self, op: &'static str, number: Literal, at: At) -> LazyBuffer {
        let node_ref = match &self.0 {
            Ok(node_ref) => node_ref,
            Err(error) => return Self(Err(error.clone())),
        };
        let dtype = node_ref.dtype;
        match number.bits(dtype) {
            Some(bits) => {
                let (op, shape) = (Op::Const(bits), Shape::scalar());
                Self::leaf(&node_ref.graph, op, dtype, shape, at)
            }
            None => {
                let operand = (dtype, node_ref.shape.clone());
                Self::refused(op, [operand], why::literal(number, dtype), at)
            }
        }
    }
}

impl NodeRef {
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }
}

/// Returns `true` if graphs compute with the type, or use it for seeds.
pub(crate) fn is_supported(dtype: DType) -> bool {
    !matches!(dtype, DType::I8 | DType::I16 | DType::U16)
}

impl fmt::Debug for LazyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(node_ref) => {
                let arena = node_ref.graph.lock();
                let op = &arena.node(node_ref.id).op;
                let name = op.name();
                match op {
                    Op::Input(input) => {
                        write!(
                            f,
                            "LazyBuffer({name} `{input}` {} {})",
                            node_ref.dtype, node_ref.shape
                        )
                    }
                    _ => write!(
                        f,
                        "LazyBuffer({name} {} {})",
                        node_ref.dtype, node_ref.shape
                    ),
                }
            }
            Err(error) => write!(f, "LazyBuffer(refused: {error})"),
        }
    }
}

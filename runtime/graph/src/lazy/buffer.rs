//! The lazy buffer: a reference to a node of a graph, or the error of a refused operation.

use millstream_client::handle::Handle;
use millstream_ir::DType;
use millstream_protocol::Element;
use smallvec::SmallVec;
use std::fmt;

use crate::elements::check_elements;
use crate::error::{By, GraphError, ScheduleError, Why, why};
use crate::lazy::graph::{Arena, Graph};
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
    /// When the node was added to the graph. Ids are reused, this number is not.
    pub(crate) written: u64,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
}

impl Clone for NodeRef {
    fn clone(&self) -> Self {
        self.graph.lock().add_reference(self.id);
        Self {
            graph: self.graph.clone(),
            id: self.id,
            written: self.written,
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

impl Operand {
    /// Returns the buffer. A number takes the type of `typed`.
    pub(crate) fn like(self, by: By, typed: &LazyBuffer) -> LazyBuffer {
        match self {
            Operand::Buffer(buffer) => buffer,
            Operand::Number(number) => typed.number(by, number),
        }
    }
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
        if let Some(negative) = shape.iter().find(|axis| axis.may_be_negative()) {
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
        let (id, written) = graph.lock().add(node).ok_or(why::TOO_LARGE)?;
        Ok(Self(Ok(NodeRef {
            graph: graph.clone(),
            id,
            written,
            shape,
            dtype,
        })))
    }

    /// Adds a node without operands.
    pub(crate) fn leaf(graph: &Graph, by: By, op: Op, dtype: DType, shape: Shape) -> Self {
        let made = Self::make(graph, op, SmallVec::new(), dtype, shape.clone());
        made.unwrap_or_else(|why| Self::refused(by, [(dtype, shape)], why))
    }

    pub(crate) fn refused(
        by: By,
        operands: impl IntoIterator<Item = (DType, Shape)>,
        why: impl Into<Why>,
    ) -> Self {
        Self(Err(GraphError::new(by, operands, why)))
    }

    /// Returns this buffer. If it is refused and none of these operands is, it is the error of an operation that is
    /// composed of others: it gets the name and, if there are any, the operands that the caller knows.
    pub(crate) fn named(self, by: By, operands: &[&LazyBuffer]) -> Self {
        match &self.0 {
            Err(error) if operands.is_empty() => {
                let operands = error.operands().iter().cloned();
                Self::refused(by, operands, error.why().to_owned())
            }
            Err(error) if operands.iter().all(|operand| operand.error().is_none()) => {
                let operands = operands.iter().map(|of| (of.dtype(), of.shape()));
                Self::refused(by, operands, error.why().to_owned())
            }
            _ => self,
        }
    }

    /// Returns what `build` makes of these buffers, or the first of them that is refused. If it fails, or makes a refused
    /// buffer, the error has the name and the operands of this operation, not those of the parts.
    pub(crate) fn composed(
        by: By,
        operands: &[&LazyBuffer],
        build: impl FnOnce() -> Result<LazyBuffer, Why>,
    ) -> Self {
        if let Some(refused) = operands.iter().find(|operand| operand.error().is_some()) {
            return (*refused).clone();
        }
        match build() {
            Ok(made) => made.named(by, operands),
            Err(why) => {
                let operands = operands.iter().map(|of| (of.dtype(), of.shape()));
                Self::refused(by, operands, why)
            }
        }
    }

    /// As [`LazyBuffer::composed`], of one buffer, which must be of floats.
    pub(crate) fn of_floats(&self, by: By, build: impl FnOnce(&LazyBuffer) -> LazyBuffer) -> Self {
        Self::composed(by, &[self], || match self.dtype() {
            dtype if dtype.is_float() => Ok(build(self)),
            dtype => Err(why::dtype(dtype)),
        })
    }

    /// Returns the node, or the error.
    pub(crate) fn node_ref(&self) -> Result<&NodeRef, &GraphError> {
        self.0.as_ref()
    }

    /// Adds a reference to a node. `arena` is the locked arena of `graph`.
    pub(crate) fn of_node(graph: &Graph, arena: &mut Arena, id: NodeId) -> Self {
        arena.add_reference(id);
        let (node, written) = (arena.node(id), arena.written(id));
        Self(Ok(NodeRef {
            graph: graph.clone(),
            id,
            written,
            shape: node.shape.clone(),
            dtype: node.dtype,
        }))
    }

    /// Returns the operation that `build` makes of the nodes of `buffers`, which must be of one graph. Returns the
    /// first refused buffer, if any.
    pub(crate) fn of<const N: usize>(
        by: By,
        buffers: [&LazyBuffer; N],
        build: impl FnOnce([&NodeRef; N]) -> Result<(Op, DType, Shape), Why>,
    ) -> Self {
        let build = |nodes: &[&NodeRef]| build(std::array::from_fn(|index| nodes[index]));
        Self::of_all(by, buffers, build)
    }

    /// As [`LazyBuffer::of`], for any number of buffers.
    pub(crate) fn of_all<'a>(
        by: By,
        buffers: impl IntoIterator<Item = &'a LazyBuffer>,
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
            Self::refused(by, operands, why)
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
            GraphError::new(By::new("realize"), [operand], why.to_string())
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
    pub(crate) fn number(&self, by: By, number: Literal) -> LazyBuffer {
        let node_ref = match &self.0 {
            Ok(node_ref) => node_ref,
            Err(error) => return Self(Err(error.clone())),
        };
        let dtype = node_ref.dtype;
        match number.bits(dtype) {
            Some(bits) => {
                let (op, shape) = (Op::Const(bits), Shape::scalar());
                Self::leaf(&node_ref.graph, by, op, dtype, shape)
            }
            None => {
                let operand = (dtype, node_ref.shape.clone());
                Self::refused(by, [operand], why::literal(number, dtype))
            }
        }
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
                let (name, dtype, shape) = (op.name(), node_ref.dtype, &node_ref.shape);
                match op {
                    Op::Input(input) => write!(f, "LazyBuffer({name} `{input}` {dtype} {shape})"),
                    _ => write!(f, "LazyBuffer({name} {dtype} {shape})"),
                }
            }
            Err(error) => write!(f, "LazyBuffer(refused: {error})"),
        }
    }
}

//! The lazy buffer: a node of a graph, or why there is none.

use std::fmt;
use std::panic::Location;

use millstream_client::handle::Handle;
use millstream_ir::DType;
use millstream_protocol::element::Element;
use smallvec::SmallVec;

use crate::elements::check_elements;
use crate::error::{GraphError, ScheduleError, Why};
use crate::lazy::graph::{Graph, Named};
use crate::lazy::node::{Node, NodeId, Op};
use crate::literal::Literal;
use crate::shape::{MAX_RANK, Shape};
use crate::size::Size;

/// What will be computed: an operation and what it is done to. `Send + Sync`, cheap to clone, and nothing runs until a
/// [`Schedule`](crate::Schedule) of it does.
///
/// # Errors
/// Types, shapes and limits are checked where an operation is written. One that cannot be makes a *refused* buffer, which says what
/// is wrong and where, and so does whatever is made of it: expressions read without a `?` at every step, and
/// [`LazyBuffer::check`], or the schedule, tells the first thing that was wrong.
#[derive(Clone)]
#[must_use = "nothing is computed of a buffer that no schedule has as a root, or needs for one"]
pub struct LazyBuffer(Result<Held, GraphError>);

/// A hold on a node.
pub(crate) struct Held {
    pub(crate) graph: Graph,
    pub(crate) id: NodeId,
    shape: Shape,
    dtype: DType,
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.graph.hold(self.id);
        Self {
            graph: self.graph.clone(),
            id: self.id,
            shape: self.shape.clone(),
            dtype: self.dtype,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.graph.release(self.id);
    }
}

/// One side of an operation: a buffer, or a number that becomes what the other side is.
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
    /// A node of these operands. The last checks, which are the same for all: its axes, and that its elements can be counted.
    pub(crate) fn make(
        graph: &Graph,
        op: Op,
        operands: SmallVec<[NodeId; 3]>,
        dtype: DType,
        shape: Shape,
        at: &'static Location<'static>,
    ) -> Self {
        let why = if shape.rank() > MAX_RANK {
            let given = shape.rank();
            Some(Why::TooManyAxes { given })
        } else if let Some(negative) = shape.iter().find(|axis| axis.min().is_none_or(|m| m < 0)) {
            Some(Why::Negative(negative.clone()))
        } else if !is_supported(dtype) {
            Some(Why::DType(dtype))
        } else {
            let bytes = shape
                .elements()
                .and_then(|elements| elements.times(&Size::fixed(dtype.size() as i64))?.max());
            bytes.is_none().then_some(Why::TooLarge)
        };
        if let Some(why) = why {
            let name = op.name();
            return Self::refused(name, [(dtype, shape)], why, at);
        }
        let name = op.name();
        let node = Node {
            op,
            operands,
            shape: shape.clone(),
            dtype,
        };
        match graph.add(node) {
            Some(id) => Self(Ok(Held {
                graph: graph.clone(),
                id,
                shape,
                dtype,
            })),
            None => Self::refused(name, [(dtype, shape)], Why::TooLarge, at),
        }
    }

    pub(crate) fn refused(
        op: &'static str,
        operands: impl IntoIterator<Item = (DType, Shape)>,
        why: Why,
        at: &'static Location<'static>,
    ) -> Self {
        Self(Err(GraphError::new(op, operands, why, at)))
    }

    /// The node, or why there is none.
    pub(crate) fn held(&self) -> Result<&Held, &GraphError> {
        self.0.as_ref()
    }

    /// The number of its node, if it is one of those that are named.
    pub(crate) fn number_in(&self, named: &Named) -> Option<NodeId> {
        let held = self.held().ok()?;
        named.number(&held.graph, held.id)
    }

    /// A node of a graph, with a hold on it that the buffer takes over.
    pub(crate) fn of_held_node(graph: &Graph, id: NodeId, node: &Node) -> Self {
        Self(Ok(Held {
            graph: graph.clone(),
            id,
            shape: node.shape.clone(),
            dtype: node.dtype,
        }))
    }

    /// Is it the same node of the same graph?
    pub(crate) fn is(&self, other: &LazyBuffer) -> bool {
        match (&self.0, &other.0) {
            (Ok(held), Ok(other)) => held.graph.is(&other.graph) && held.id == other.id,
            _ => false,
        }
    }

    /// What `build` makes of the nodes of `buffers`, which must be of one graph; a refused one is the answer itself.
    pub(crate) fn of<const N: usize>(
        op: &'static str,
        buffers: [&LazyBuffer; N],
        at: &'static Location<'static>,
        build: impl FnOnce([&Held; N]) -> Result<(Op, DType, Shape), Why>,
    ) -> Self {
        let mut held = Vec::with_capacity(N);
        for buffer in buffers {
            match &buffer.0 {
                Ok(node) => held.push(node),
                Err(error) => return Self(Err(error.clone())),
            }
        }
        Self::of_held(op, held, at, |held| match held.try_into() {
            Ok(all) => build(all),
            Err(_) => Err(Why::Nothing),
        })
    }

    /// As [`LazyBuffer::of`], of any number of nodes.
    pub(crate) fn of_held<'a>(
        op: &'static str,
        held: Vec<&'a Held>,
        at: &'static Location<'static>,
        build: impl FnOnce(Vec<&'a Held>) -> Result<(Op, DType, Shape), Why>,
    ) -> Self {
        let seen = |held: &[&Held]| -> Vec<(DType, Shape)> {
            held.iter()
                .map(|node| (node.dtype, node.shape.clone()))
                .collect()
        };
        let Some(first) = held.first() else {
            return Self::refused(op, [], Why::Nothing, at);
        };
        let graph = first.graph.clone();
        if held.iter().any(|node| !node.graph.is(&graph)) {
            return Self::refused(op, seen(&held), Why::Graphs, at);
        }
        let operands = held.iter().map(|node| node.id).collect();
        match build(held.clone()) {
            Ok((op, dtype, shape)) => Self::make(&graph, op, operands, dtype, shape, at),
            Err(why) => Self::refused(op, seen(&held), why, at),
        }
    }

    /// The buffer again if it can be, or what is wrong.
    ///
    /// # Errors
    /// What was refused first, of it and all that it is made of.
    pub fn check(&self) -> Result<&Self, GraphError> {
        match &self.0 {
            Ok(_) => Ok(self),
            Err(error) => Err(error.clone()),
        }
    }

    /// What is wrong with it, if something is.
    pub fn error(&self) -> Option<&GraphError> {
        self.0.as_ref().err()
    }

    /// Its shape; that of a refused buffer has no axes.
    pub fn shape(&self) -> Shape {
        match &self.0 {
            Ok(held) => held.shape.clone(),
            Err(_) => Shape::scalar(),
        }
    }

    /// How many axes it has.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.shape.rank())
    }

    /// The type of its elements; that of a refused buffer is `bool`.
    pub fn dtype(&self) -> DType {
        self.0.as_ref().map_or(DType::Bool, |held| held.dtype)
    }

    /// Its graph, if it is not refused.
    pub fn graph(&self) -> Option<&Graph> {
        self.0.as_ref().ok().map(|held| &held.graph)
    }

    /// Puts a buffer that was computed in the place of what computes this, which lets go of all that it was computed from. Other
    /// lazy buffers that are made of this one use the buffer from now on.
    ///
    /// # Errors
    /// A refused buffer; a handle of another size; [`ScheduleError::Elements`] where the handle has neither this one's elements
    /// nor bytes.
    #[track_caller]
    pub fn realize<T: Element>(&self, handle: &Handle<T>) -> Result<(), ScheduleError> {
        let held = self.held().map_err(Clone::clone)?;
        check_elements::<T>(held.dtype, || format!("{self:?}"))?;
        let as_leaf = held.graph.buffer_as(handle, held.dtype, &held.shape);
        as_leaf.check()?;
        let bytes = handle.cast::<u8>().map_err(|why| {
            let operand = (held.dtype, held.shape.clone());
            GraphError::new(
                "realize",
                [operand],
                Why::Kernel(why.to_string()),
                Location::caller(),
            )
        })?;
        held.graph.realize(held.id, bytes);
        Ok(())
    }

    /// Is it a buffer that is there, or is bound by each run?
    pub fn is_realized(&self) -> bool {
        let Ok(held) = &self.0 else {
            return false;
        };
        matches!(
            held.graph.lock().node(held.id).op,
            Op::Buffer(_) | Op::Input(_)
        )
    }

    /// A number as a buffer beside this one.
    pub(crate) fn number(
        &self,
        op: &'static str,
        number: Literal,
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        let held = match &self.0 {
            Ok(held) => held,
            Err(error) => return Self(Err(error.clone())),
        };
        let dtype = held.dtype;
        match number.bits(dtype) {
            Some(bits) => {
                let (op, shape) = (Op::Const(bits), Shape::scalar());
                Self::make(&held.graph, op, SmallVec::new(), dtype, shape, at)
            }
            None => {
                let value = number.to_string();
                let operand = (dtype, held.shape.clone());
                Self::refused(op, [operand], Why::Literal { value, dtype }, at)
            }
        }
    }
}

impl Held {
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }
}

/// Is it a type that graphs compute with, or draw seeds of?
pub(crate) fn is_supported(dtype: DType) -> bool {
    !matches!(dtype, DType::I8 | DType::I16 | DType::U16)
}

/// Several nodes, or the first error among the buffers.
pub(crate) fn all_held<'a>(
    buffers: impl IntoIterator<Item = &'a LazyBuffer>,
) -> Result<Vec<&'a Held>, LazyBuffer> {
    let held = buffers.into_iter().map(|buffer| {
        let error = |error: &GraphError| LazyBuffer(Err(error.clone()));
        buffer.held().map_err(error)
    });
    held.collect()
}

impl fmt::Debug for LazyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(held) => {
                let arena = held.graph.lock();
                let op = &arena.node(held.id).op;
                let name = op.name();
                match op {
                    Op::Input(input) => {
                        write!(
                            f,
                            "LazyBuffer({name} `{input}` {} {})",
                            held.dtype, held.shape
                        )
                    }
                    _ => write!(f, "LazyBuffer({name} {} {})", held.dtype, held.shape),
                }
            }
            Err(error) => write!(f, "LazyBuffer(refused: {error})"),
        }
    }
}

//! A node of a graph: an operation, what it is done to, and what comes out.

use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};
use smallvec::SmallVec;

use crate::lazy::callee::Custom;
use crate::lazy::scalar::Scalar;
use crate::shape::Shape;
use crate::size::Size;

/// The place of a node in its graph.
pub(crate) type NodeId = u32;

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Bound by each run.
    Input(Arc<str>),
    /// A buffer that is there, dense.
    Buffer(Handle<u8>),
    /// One number: its bits.
    Const(u64),
    /// One number that runs may change.
    Scalar(Scalar),
    /// The index along an axis.
    Index(usize),
    /// The value of a length.
    Length(Size),
    /// 32 random bits for each element.
    Random(Scalar),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    Select,
    Cast,
    /// Axes that are reduced keep the length 1.
    Reduce(ReduceOp),
    /// Batch axes are equal already.
    Matmul,
    /// To the node's shape. Axes are matched from the last one; there may be more of them.
    Broadcast,
    /// Axis `i` of the node is axis `axes[i]` of what it is made of.
    Permute(SmallVec<[u8; 8]>),
    Narrow {
        axis: usize,
        start: Size,
    },
    Reshape,
    /// The same values, through which no gradient goes.
    Detach,
    /// Of a buffer by indices of the node's shape.
    Gather {
        axis: usize,
    },
    /// Of a base, indices, and values of the indices' shape.
    Scatter {
        axis: usize,
        adds: bool,
    },
    /// Parts, one after the other.
    Cat {
        axis: usize,
    },
    /// Of a base and values, which are put into the base's buffer.
    Set(Arc<Layout>),
    /// Of arguments, in order.
    Custom(Arc<Custom>),
    /// What was made before a run, of what is held: the how many-eth of those values. Schedules make these.
    Prepared(u32),
    /// Of what it is made of, where index `p` of `axis` and `i` of the axis behind it are index `p * step + i`. Schedules make these.
    Parts {
        axis: usize,
        step: i64,
    },
    /// Of a buffer that is overwritten before it has been read for the last time. Schedules make these.
    Copy,
}

impl Op {
    /// Its word in texts.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Op::Input(_) => "input",
            Op::Buffer(_) => "buffer",
            Op::Const(_) => "const",
            Op::Scalar(_) => "scalar",
            Op::Index(_) => "index",
            Op::Length(_) => "length",
            Op::Random(_) => "random",
            Op::Unary(op) => op.name(),
            Op::Binary(op) => op.name(),
            Op::Compare(op) => op.name(),
            Op::Select => "select",
            Op::Cast => "cast",
            Op::Reduce(op) => op.name(),
            Op::Matmul => "matmul",
            Op::Broadcast => "broadcast",
            Op::Permute(_) => "permute",
            Op::Narrow { .. } => "narrow",
            Op::Reshape => "reshape",
            Op::Detach => "detach",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Cat { .. } => "cat",
            Op::Set(_) => "set",
            Op::Custom(_) => "custom",
            Op::Prepared(_) => "prepared",
            Op::Parts { .. } => "parts",
            Op::Copy => "copy",
        }
    }
}

/// Where the elements of something lie in a buffer: at `offset + sum(index * stride)`, in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Where the first one lies.
    pub offset: Size,
    /// How far apart neighbours along each axis are.
    pub strides: Vec<Size>,
}

/// What is known of a node. It never changes, but for a buffer that takes its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) operands: SmallVec<[NodeId; 3]>,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
}

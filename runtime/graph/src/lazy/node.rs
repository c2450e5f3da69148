//! A node of a graph: an operation with its operands, type and shape.

use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};
use smallvec::SmallVec;

use crate::lazy::callee::Custom;
use crate::lazy::scalar::Scalar;
use crate::shape::Shape;
use crate::size::Size;

/// The id of a node: its index in the arena of its graph.
pub(crate) type NodeId = u32;

/// The operation of a node.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A buffer that each run binds.
    Input(Arc<str>),
    /// An existing buffer, dense.
    Buffer(Handle<u8>),
    /// A number, as bits.
    Const(u64),
    /// A number that runs may set.
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
    /// Reduced axes keep length 1.
    Reduce(ReduceOp),
    /// The batch axes of both operands are equal.
    Matmul,
    /// The operand is broadcast to the node's shape. Axes are matched from the last; missing ones are added in front.
    Broadcast,
    /// Axis `i` of the node is axis `axes[i]` of the operand.
    Permute(SmallVec<[u8; 8]>),
    Narrow {
        axis: usize,
        start: Size,
    },
    Reshape,
    /// The values of the operand, without gradient.
    Detach,
    /// The values of the first operand, with the gradient of a function of the others. A schedule has the first operand
    /// in its place.
    Function(Function),
    /// Operands: a buffer, and indices of the node's shape.
    Gather {
        axis: usize,
    },
    /// Operands: a base, indices, and values of the indices' shape.
    Scatter {
        axis: usize,
        adds: bool,
    },
    /// The operands one after the other.
    Cat {
        axis: usize,
    },
    /// Operands: a base, and values that are stored into the base's buffer.
    Set(Arc<Layout>),
    /// Operands: the arguments, in order.
    Custom(Arc<Custom>),
    /// A view: index `p` of `axis` and `i` of the axis behind it are index `p * step + i` of the operand. Added by the
    /// scheduler.
    Parts {
        axis: usize,
        step: i64,
    },
    /// A copy of a buffer whose old version is read after a store into it. Added by the scheduler.
    Copy,
}

impl Op {
    /// Returns the name of the operation, as texts show it.
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
            Op::Function(function) => function.name(),
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Cat { .. } => "cat",
            Op::Set(_) => "set",
            Op::Custom(_) => "custom",
            Op::Parts { .. } => "parts",
            Op::Copy => "copy",
        }
    }
}

/// A function that is composed of other operations, but has a gradient of its own. The gradient of its parts would be
/// NaN where one of them overflows, or where a correction divides by zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    Relu,
    /// Arguments: the value and its limits, which are numbers.
    Clamp,
    Sigmoid,
    Silu,
    GeluTanh,
    Log1p,
    Expm1,
    /// Arguments: `y` and `x`.
    Atan2,
}

impl Function {
    /// Returns the name of its method.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Relu => "relu",
            Function::Clamp => "clamp",
            Function::Sigmoid => "sigmoid",
            Function::Silu => "silu",
            Function::GeluTanh => "gelu_tanh",
            Function::Log1p => "log1p",
            Function::Expm1 => "expm1",
            Function::Atan2 => "atan2",
        }
    }
}

/// The places of elements in a buffer: `offset + sum(index * stride)`, in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// The place of the first element.
    pub offset: Size,
    /// The stride of each axis.
    pub strides: Vec<Size>,
}

/// A node. It is immutable, except that `realize` replaces its operation by a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) operands: SmallVec<[NodeId; 3]>,
    pub(crate) shape: Shape,
    pub(crate) dtype: DType,
}

impl Node {
    /// Returns the operands that a gradient passes to.
    pub(crate) fn differentiated(&self) -> &[NodeId] {
        match self.op {
            _ if !self.dtype.is_float() => &[],
            Op::Detach => &[],
            Op::Function(_) => &self.operands[1..],
            _ => &self.operands,
        }
    }
}

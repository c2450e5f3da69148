//! The derivative of each operation: what the adjoint of its result adds to the adjoints of its operands.
//!
//! `g` is the adjoint of the result `y`. The adjoint of an operand that a broadcast or a reduction repeats is a sum.

use std::f64::consts::FRAC_2_SQRT_PI;

use millstream_ir::{BinaryOp, DType, ReduceOp, UnaryOp};
use smallvec::{SmallVec, smallvec};

use crate::error::{By, Why, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::Graph;
use crate::lazy::node::{Layout, Node, Op};
use crate::lazy::reduce::Over;
use crate::shape::Shape;
use crate::size::Size;

/// Adjoints, with the index of the operand that each is added to.
pub(super) type OperandAdjoints = SmallVec<[(usize, LazyBuffer); 3]>;

/// One node of a backward pass.
pub(super) struct Rule<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
    pub(super) operands: &'a [&'a LazyBuffer],
    /// The result of the node.
    pub(super) result: &'a LazyBuffer,
    pub(super) adjoint: &'a LazyBuffer,
    pub(super) by: By,
}

impl Rule<'_> {
    /// Returns what the adjoint adds to the adjoints of the wanted operands.
    pub(super) fn operand_adjoints(
        &self,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<OperandAdjoints, LazyBuffer> {
        let (g, y) = (self.adjoint, self.result);
        let mut adjoints: OperandAdjoints = match &self.node.op {
            Op::Unary(op) => smallvec![(0, self.unary(*op)?)],
            Op::Binary(op) => self.binary(*op, is_wanted)?,
            Op::Select => {
                let (condition, zero) = (self.operand(0), self.zeros(y.shape()));
                smallvec![
                    (1, condition.select(g, &zero)),
                    (2, condition.select(&zero, g))
                ]
            }
            Op::Cast => smallvec![(0, g.cast(self.operand(0).dtype()))],
            Op::Reduce(op) => smallvec![(0, self.reduce(*op)?)],
            Op::Matmul => {
                let (a, b) = (self.operand(0), self.operand(1));
                smallvec![(0, g.matmul_t(&b)), (1, a.t().matmul(g))]
            }
            Op::Broadcast => smallvec![(0, self.summed_to(&self.operand(0).shape()))],
            Op::Permute(axes) => {
                let mut back = vec![0_isize; axes.len()];
                for (axis, from) in axes.iter().enumerate() {
                    back[usize::from(*from)] = axis as isize;
                }
                smallvec![(0, g.permute(back))]
            }
            Op::Narrow { axis, start } => {
                let zeros = self.zeros(self.operand(0).shape());
                smallvec![(0, zeros.set_rows(*axis as isize, start, g))]
            }
            Op::Reshape => smallvec![(0, g.reshape(self.operand(0).shape()))],
            Op::Gather { axis } => {
                let (base, index) = (self.operand(0), self.operand(1));
                smallvec![(0, self.scattered(&base.shape(), *axis, &index))]
            }
            Op::Scatter { axis, adds } => self.scatter(*axis as isize, *adds),
            Op::Cat { axis } => self.cat(*axis)?,
            Op::Set(layout) => self.set(layout),
            Op::Function(function) => self.function(*function),
            Op::Custom(custom) => {
                let name = custom.kernel.name();
                let why = format!(
                    "kernel `{name}` has no gradient: `detach` its result, or use operations"
                );
                return Err(self.refused(why));
            }
            Op::Input(_)
            | Op::Buffer(_)
            | Op::Const(_)
            | Op::Scalar(_)
            | Op::Index(_)
            | Op::Length(_)
            | Op::Random(_)
            | Op::Compare(_)
            | Op::Detach
            | Op::Parts { .. }
            | Op::Copy => OperandAdjoints::new(),
        };
        adjoints.retain(|(operand, _)| is_wanted(*operand));
        match adjoints.iter().find(|(_, part)| part.error().is_some()) {
            Some((_, refused)) => Err(refused.clone()),
            None => Ok(adjoints),
        }
    }

    pub(super) fn operand(&self, index: usize) -> LazyBuffer {
        self.operands[index].clone()
    }

    pub(super) fn zeros(&self, shape: Shape) -> LazyBuffer {
        self.graph.zeros(self.adjoint.dtype(), shape)
    }

    fn refused(&self, why: impl Into<Why>) -> LazyBuffer {
        let operand = (self.node.dtype, self.node.shape.clone());
        LazyBuffer::refused(self.by, [operand], why)
    }

    fn no_gradient(&self, op: &str) -> LazyBuffer {
        let why = format!("`{op}` has no gradient: `detach` its result, or use other operations");
        self.refused(why)
    }

    fn unary(&self, op: UnaryOp) -> Result<LazyBuffer, LazyBuffer> {
        let (g, y, x) = (self.adjoint, self.result, self.operand(0));
        Ok(match op {
            UnaryOp::Neg => -g,
            UnaryOp::Abs => {
                let sign = x.greater(0.0).select(1.0, x.less(0.0).select(-1.0, 0.0));
                g * sign.cast(g.dtype())
            }
            UnaryOp::Sqrt => g / (y * 2.0),
            UnaryOp::Exp => g * y,
            UnaryOp::Log => g / x,
            UnaryOp::Sin => g * x.cos(),
            UnaryOp::Cos => -(g * x.sin()),
            UnaryOp::Tanh => g * (1.0 - y.square()),
            UnaryOp::Erf => g * (-x.square()).exp() * FRAC_2_SQRT_PI,
            UnaryOp::Floor | UnaryOp::Ceil => self.zeros(x.shape()),
            other => return Err(self.no_gradient(other.name())),
        })
    }

    fn binary(
        &self,
        op: BinaryOp,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<OperandAdjoints, LazyBuffer> {
        let (g, y) = (self.adjoint, self.result);
        let (a, b) = (self.operand(0), self.operand(1));
        Ok(match op {
            BinaryOp::Add => smallvec![(0, g.clone()), (1, g.clone())],
            BinaryOp::Sub => smallvec![(0, g.clone()), (1, -g)],
            BinaryOp::Mul => smallvec![(0, g * &b), (1, g * &a)],
            // The quotient first: `g / b` may overflow where `y` is 0.
            BinaryOp::Div => smallvec![(0, g / &b), (1, -(g * (y / &b)))],
            BinaryOp::Rem => {
                let quotient = &a / &b;
                let cut = quotient.less(0.0).select(quotient.ceil(), quotient.floor());
                smallvec![(0, g.clone()), (1, -(g * cut))]
            }
            BinaryOp::Pow => {
                let zero = self.zeros(y.shape());
                let mut adjoints = OperandAdjoints::new();
                if is_wanted(0) {
                    let of_base = g * (&b * a.pow(&b - 1.0));
                    adjoints.push((0, b.equals(0.0).select(&zero, of_base)));
                }
                if is_wanted(1) {
                    // At base 0 this is the limit of the derivative, not 0 times infinity.
                    let is_limit = a.equals(0.0) & b.greater_equal(0.0);
                    adjoints.push((1, is_limit.select(&zero, g * (y * a.log()))));
                }
                adjoints
            }
            // If an operand is NaN, so is the result, and both have its gradient.
            BinaryOp::Min | BinaryOp::Max => {
                let (of_first, of_second) = match op {
                    BinaryOp::Min => (a.greater(&b), a.less(&b)),
                    _ => (a.less(&b), a.greater(&b)),
                };
                let zero = self.zeros(y.shape());
                let share = a.equals(&b).select(g * 0.5, g);
                smallvec![
                    (0, of_first.select(&zero, &share)),
                    (1, of_second.select(&zero, &share))
                ]
            }
            other => return Err(self.no_gradient(other.name())),
        })
    }

    fn reduce(&self, op: ReduceOp) -> Result<LazyBuffer, LazyBuffer> {
        let (g, y, x) = (self.adjoint, self.result, self.operand(0));
        let axes = differing(&x.shape(), &y.shape());
        let over = || Over::Axes(axes.clone());
        Ok(match op {
            ReduceOp::Sum => g.broadcast_to(x.shape()),
            ReduceOp::Prod => {
                // The product of the other elements. For an element that is 0: the product of the rest, if no other is
                // 0.
                let is_zero = x.equals(0.0);
                let one = self.graph.full(x.dtype(), x.shape(), 1);
                let others = is_zero.select(&one, &x).product(over());
                let zeros = is_zero.select(&one, self.zeros(x.shape())).sum(over());
                let zero = self.zeros(y.shape());
                let of_zero = zeros.equals(1.0).select(&others, &zero);
                let of_rest = zeros.equals(0.0).select(&others, &zero);
                let (of_zero, of_rest) = (g * of_zero, g * of_rest);
                let nonzero = is_zero.select(&one, &x);
                is_zero.select(
                    of_zero.broadcast_to(x.shape()),
                    of_rest.broadcast_to(x.shape()) / nonzero,
                )
            }
            ReduceOp::Min | ReduceOp::Max => {
                let one = self.graph.full(x.dtype(), x.shape(), 1);
                let best = x.equals(y).select(&one, self.zeros(x.shape()));
                let share = g / best.sum(over());
                best * share
            }
            ReduceOp::ArgMin | ReduceOp::ArgMax => self.zeros(x.shape()),
            other => return Err(self.no_gradient(other.name())),
        })
    }

    /// Returns the adjoint summed over the axes that a broadcast from this shape repeated.
    fn summed_to(&self, from: &Shape) -> LazyBuffer {
        let to = self.adjoint.shape();
        let missing = to.rank() - from.rank();
        let mut axes: Vec<isize> = (0..missing as isize).collect();
        axes.extend(
            differing(&Shape::new(&to[missing..]), from)
                .into_iter()
                .map(|axis| axis + missing as isize),
        );
        if axes.is_empty() {
            return self.adjoint.clone();
        }
        self.adjoint.sum(Over::Axes(axes)).reshape(from)
    }

    /// Adds the adjoint to zeros of a shape, at indices along an axis.
    fn scattered(&self, shape: &Shape, axis: usize, index: &LazyBuffer) -> LazyBuffer {
        let wide = self.adjoint.dtype().computed();
        let zeros = self.graph.zeros(wide, shape);
        let values = self.adjoint.cast(wide);
        let sum = zeros.scatter_add(axis as isize, index, &values);
        sum.cast(self.adjoint.dtype())
    }

    fn scatter(&self, axis: isize, adds: bool) -> OperandAdjoints {
        let (g, index) = (self.adjoint, self.operand(1));
        let of_values = g.gather(axis, &index);
        if adds {
            return smallvec![(0, g.clone()), (2, of_values)];
        }
        // Of several values for one place only the last remains, so only it has a gradient.
        let shape = index.shape();
        let strides = shape.dense_strides().unwrap_or_default();
        let place = flat_index(self.graph, &shape, &Size::ZERO, &strides);
        let none = self.graph.full(DType::I64, g.shape(), -1);
        let last = none.scatter(axis, &index, &place).gather(axis, &index);
        let zeros = self.zeros(shape);
        let of_values = last.equals(&place).select(&of_values, &zeros);
        smallvec![(0, g.scatter(axis, &index, &zeros)), (2, of_values)]
    }

    fn cat(&self, axis: usize) -> Result<OperandAdjoints, LazyBuffer> {
        let mut start = Size::ZERO;
        let mut adjoints = OperandAdjoints::new();
        for operand in 0..self.node.operands.len() {
            let length = self.operand(operand).shape()[axis].clone();
            let part = self.adjoint.narrow(axis as isize, &start, &length);
            adjoints.push((operand, part));
            let end = start.plus(&length);
            start = end.ok_or_else(|| self.refused(why::TOO_LARGE))?;
        }
        Ok(adjoints)
    }

    /// Overwritten elements of the base have no gradient; stored values have that of their place.
    fn set(&self, layout: &Layout) -> OperandAdjoints {
        let (g, values) = (self.adjoint, self.operand(1).shape());
        let zeros = self.zeros(values.clone());
        let of_base = g.set_layout(&zeros, layout.clone());
        if let Some((axis, start)) = as_rows(layout, &g.shape(), &values) {
            let of_values = g.narrow(axis, start, values[axis as usize].clone());
            return smallvec![(0, of_base), (1, of_values)];
        }
        let Some(count) = g.shape().elements() else {
            return smallvec![(0, of_base), (1, self.refused(why::TOO_LARGE))];
        };
        let index = flat_index(self.graph, &values, &layout.offset, &layout.strides);
        let of_values = g.reshape([count]).take(0, &index);
        smallvec![(0, of_base), (1, of_values)]
    }
}

/// Returns the axes along which two shapes of one rank differ.
fn differing(one: &Shape, other: &Shape) -> Vec<isize> {
    let axes = one.iter().zip(other.iter()).enumerate();
    axes.filter(|(_, (one, other))| one != other)
        .map(|(axis, _)| axis as isize)
        .collect()
}

/// Returns the flat indices of the elements of a shape: `offset + sum(index * stride)`.
fn flat_index(graph: &Graph, shape: &Shape, offset: &Size, strides: &[Size]) -> LazyBuffer {
    let number = |size: &Size| graph.length_value(size.clone());
    let mut sum = number(offset).broadcast_to(shape);
    for (axis, stride) in strides.iter().enumerate() {
        sum = sum + graph.index(shape, axis as isize) * number(stride);
    }
    sum
}

/// Returns the axis and the first row, if a layout provably names whole rows of a buffer along one axis.
fn as_rows(layout: &Layout, base: &Shape, values: &Shape) -> Option<(isize, Size)> {
    if Some(&layout.strides) != base.dense_strides().as_ref() || base.rank() != values.rank() {
        return None;
    }
    match differing(base, values)[..] {
        [] if layout.offset.is(0) && base.rank() > 0 => Some((0, Size::ZERO)),
        [axis] => {
            let stride = layout.strides[axis as usize].known()?;
            let offset = layout.offset.known()?;
            (stride > 0 && offset % stride == 0).then(|| (axis, Size::fixed(offset / stride)))
        }
        _ => None,
    }
}

//! Lazy buffers: each operation adds a node to the graph.
//!
//! The first argument of most methods is the name of the operation in Python, for messages.

use millstream::graph::{LazyBuffer, Over};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::element;
use crate::errors::argument_error;
use crate::graph::length::{Extent, shape_of, sizes};
use crate::graph::{checked, literal};

/// A node of an expression; `millstream.LazyBuffer` has its operators. Most methods take the name of the operation.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct LazyNode(pub(crate) LazyBuffer);

/// Returns the axes of a reduction: all, or these.
fn over(axes: Option<Vec<isize>>, keeps: bool) -> Over {
    let over = axes.map_or(Over::All, Over::Axes);
    if keeps { over } else { over.dropped() }
}

/// Calls the method that has the name of the operation in Python, or else what is given for the name.
macro_rules! by_name {
    ($op:expr, $x:expr, $arguments:tt; $($method:ident)*, $($more:tt)*) => {
        match $op {
            $(stringify!($method) => $x.$method $arguments,)*
            $($more)*
        }
    };
}

fn unknown(op: &str) -> PyErr {
    argument_error(format!("graphs have no operation `{op}`"))
}

#[pymethods]
impl LazyNode {
    /// `-> type[Value]`
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::class_of(py, self.0.dtype())
    }

    /// `-> tuple[Extent, ...]`
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        shape_of(py, &self.0)
    }

    /// `(op: str, value: Number) -> LazyNode`
    ///
    /// Returns a number of this node's type, without axes.
    fn number(&self, op: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let graph = self.0.graph().ok_or_else(|| unknown(op))?;
        checked(op, graph.constant(self.0.dtype(), literal(value)?))
    }

    /// `(length: int, start: int, step: int) -> LazyNode`
    ///
    /// Returns the indices of a slice with a step: `start + step * 0, 1, ..`.
    fn places(&self, length: u64, start: i64, step: i64) -> PyResult<Self> {
        let graph = self.0.graph().ok_or_else(|| unknown("getitem"))?;
        checked("getitem", graph.iota(length) * step + start)
    }

    /// `(op: str) -> LazyNode`
    fn unary(&self, op: &str) -> PyResult<Self> {
        let x = &self.0;
        let result = by_name!(op, x, ();
            abs sqrt exp log sin cos tanh erf floor ceil round sign log1p expm1 relu sigmoid silu gelu gelu_tanh detach,
            "negative" => -x,
            "invert" => !x,
            "isnan" => x.is_nan(),
            _ => return Err(unknown(op)),
        );
        checked(op, result)
    }

    /// `(op: str, other: LazyNode) -> LazyNode`
    ///
    /// An operation on two nodes of one type. `divide`, `remainder` and the shifts are those of the runtime.
    fn binary(&self, op: &str, other: &LazyNode) -> PyResult<Self> {
        let (x, y) = (&self.0, &other.0);
        let result = by_name!(op, x, (y);
            minimum maximum less less_equal greater greater_equal matmul set,
            "add" => x + y,
            "subtract" => x - y,
            "multiply" => x * y,
            "divide" => x / y,
            "remainder" => x % y,
            "bitwise_and" => x & y,
            "bitwise_or" => x | y,
            "bitwise_xor" => x ^ y,
            "left_shift" => x << y,
            "right_shift" => x >> y,
            "power" => x.pow(y),
            "arctan2" => x.atan2(y),
            "equal" => x.equals(y),
            "not_equal" => x.differs(y),
            _ => return Err(unknown(op)),
        );
        checked(op, result)
    }

    /// `(op: str, axes: Sequence[int] | None, keeps: bool) -> LazyNode`
    #[pyo3(signature = (op, axes, keeps))]
    fn reduce(&self, op: &str, axes: Option<Vec<isize>>, keeps: bool) -> PyResult<Self> {
        let (x, over) = (&self.0, over(axes, keeps));
        let result = by_name!(op, x, (over);
            sum max min argmax argmin any all mean softmax log_softmax,
            "prod" => x.product(over),
            "var" => x.variance(over),
            _ => return Err(unknown(op)),
        );
        checked(op, result)
    }

    /// `(yes: LazyNode, no: LazyNode) -> LazyNode`
    fn select(&self, yes: &LazyNode, no: &LazyNode) -> PyResult<Self> {
        checked("where", self.0.select(&yes.0, &no.0))
    }

    /// `(dtype: DTypeLike) -> LazyNode`
    fn cast(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        checked("cast", self.0.cast(element::parse(dtype)?))
    }

    /// `(op: str, shape: Sequence[Extent]) -> LazyNode`
    fn reshape(&self, op: &str, shape: Vec<Extent<'_>>) -> PyResult<Self> {
        checked(op, self.0.reshape(sizes(&shape)))
    }

    /// `(shape: Sequence[Extent]) -> LazyNode`
    fn broadcast_to(&self, shape: Vec<Extent<'_>>) -> PyResult<Self> {
        checked("broadcast_to", self.0.broadcast_to(sizes(&shape)))
    }

    /// `(op: str, axes: Sequence[int]) -> LazyNode`
    fn permute(&self, op: &str, axes: Vec<isize>) -> PyResult<Self> {
        checked(op, self.0.permute(axes))
    }

    /// `(op: str, axis: int) -> LazyNode`
    ///
    /// An operation along one axis.
    fn along(&self, op: &str, axis: isize) -> PyResult<Self> {
        let result = by_name!(op, self.0, (axis);
            flip cumsum squeeze unsqueeze,
            _ => return Err(unknown(op)),
        );
        checked(op, result)
    }

    /// `(op: str, axis: int, start: Extent, len: Extent) -> LazyNode`
    fn narrow(&self, op: &str, axis: isize, start: Extent<'_>, len: Extent<'_>) -> PyResult<Self> {
        checked(op, self.0.narrow(axis, start.size(), len.size()))
    }

    /// `(axis: int, by: int) -> LazyNode`
    fn roll(&self, axis: isize, by: isize) -> PyResult<Self> {
        checked("roll", self.0.roll(axis, by))
    }

    /// `(axis: int, times: Extent) -> LazyNode`
    fn repeat(&self, axis: isize, times: Extent<'_>) -> PyResult<Self> {
        checked("repeat", self.0.repeat(axis, times.size()))
    }

    /// `(op: str, axis: int, index: LazyNode) -> LazyNode`
    ///
    /// `take` or `gather` of rows or elements by an index of `i64`.
    fn indexed(&self, op: &str, axis: isize, index: &LazyNode) -> PyResult<Self> {
        let result = match op {
            "gather" => self.0.gather(axis, &index.0),
            _ => self.0.take(axis, &index.0),
        };
        checked(op, result)
    }

    /// `(axis: int, index: LazyNode, values: LazyNode, adds: bool) -> LazyNode`
    fn scatter(
        &self,
        axis: isize,
        index: &LazyNode,
        values: &LazyNode,
        adds: bool,
    ) -> PyResult<Self> {
        let (index, values) = (&index.0, &values.0);
        match adds {
            true => checked("scatter_add", self.0.scatter_add(axis, index, values)),
            false => checked("scatter", self.0.scatter(axis, index, values)),
        }
    }

    /// `(axis: int, start: Extent, values: LazyNode) -> LazyNode`
    fn set_rows(&self, axis: isize, start: Extent<'_>, values: &LazyNode) -> PyResult<Self> {
        let result = self.0.set_rows(axis, start.size(), &values.0);
        checked("set_rows", result)
    }

    /// `(of: Sequence[LazyNode]) -> list[LazyNode]`
    ///
    /// The gradients of the sum of this node.
    fn grad(&self, of: Vec<Bound<'_, LazyNode>>) -> PyResult<Vec<Self>> {
        let of: Vec<&LazyBuffer> = of.iter().map(|node| &node.get().0).collect();
        let gradients = self.0.grad_all(&of).into_iter();
        gradients.map(|node| checked("grad", node)).collect()
    }

    /// `(op: str, parts: Sequence[LazyNode], axis: int) -> LazyNode`
    #[staticmethod]
    fn cat(op: &str, parts: Vec<Bound<'_, LazyNode>>, axis: isize) -> PyResult<Self> {
        let parts = parts.iter().map(|part| &part.get().0);
        let result = match op {
            "stack" => LazyBuffer::stack(parts, axis),
            _ => LazyBuffer::cat(parts, axis),
        };
        checked(op, result)
    }

    /// `(terms: str, parts: Sequence[LazyNode]) -> LazyNode`
    #[staticmethod]
    fn einsum(terms: &str, parts: Vec<Bound<'_, LazyNode>>) -> PyResult<Self> {
        let parts = parts.iter().map(|part| &part.get().0);
        checked("einsum", LazyBuffer::einsum(terms, parts))
    }
}

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

/// A node of an expression.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct LazyNode(pub(crate) LazyBuffer);

/// Returns the axes of a reduction: all, or these.
fn over(axes: Option<Vec<isize>>, keeps: bool) -> Over {
    let over = axes.map_or(Over::All, Over::Axes);
    if keeps { over } else { over.dropped() }
}

fn unknown(py: Python<'_>, op: &str) -> PyErr {
    argument_error(py, format!("graphs have no operation `{op}`"))
}

#[pymethods]
impl LazyNode {
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::class_of(py, self.0.dtype())
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        shape_of(py, &self.0)
    }

    /// Returns a number of this node's type, without axes.
    fn number(&self, py: Python<'_>, op: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let value = literal(value)?;
        match self.0.graph() {
            Some(graph) => checked(py, op, graph.constant(self.0.dtype(), value)),
            None => Err(unknown(py, op)),
        }
    }

    /// Returns the indices of a slice with a step: `start + step * 0, 1, ..`.
    fn places(&self, py: Python<'_>, length: u64, start: i64, step: i64) -> PyResult<Self> {
        match self.0.graph() {
            Some(graph) => checked(py, "getitem", graph.iota(length) * step + start),
            None => Err(unknown(py, "getitem")),
        }
    }

    fn unary(&self, py: Python<'_>, op: &str) -> PyResult<Self> {
        let x = &self.0;
        let result = match op {
            "negative" => -x,
            "invert" => !x,
            "abs" => x.abs(),
            "sqrt" => x.sqrt(),
            "exp" => x.exp(),
            "log" => x.log(),
            "sin" => x.sin(),
            "cos" => x.cos(),
            "tanh" => x.tanh(),
            "erf" => x.erf(),
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            "round" => x.round(),
            "sign" => x.sign(),
            "log1p" => x.log1p(),
            "expm1" => x.expm1(),
            "isnan" => x.is_nan(),
            "relu" => x.relu(),
            "sigmoid" => x.sigmoid(),
            "silu" => x.silu(),
            "gelu" => x.gelu(),
            "gelu_tanh" => x.gelu_tanh(),
            "detach" => x.detach(),
            _ => return Err(unknown(py, op)),
        };
        checked(py, op, result)
    }

    /// An operation on two nodes of one type. `divide`, `remainder` and the shifts are those of the runtime.
    fn binary(&self, py: Python<'_>, op: &str, other: &Bound<'_, LazyNode>) -> PyResult<Self> {
        let (x, y) = (&self.0, &other.get().0);
        let result = match op {
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
            "minimum" => x.minimum(y),
            "maximum" => x.maximum(y),
            "arctan2" => x.atan2(y),
            "equal" => x.equals(y),
            "not_equal" => x.differs(y),
            "less" => x.less(y),
            "less_equal" => x.less_equal(y),
            "greater" => x.greater(y),
            "greater_equal" => x.greater_equal(y),
            "matmul" => x.matmul(y),
            "set" => x.set(y),
            _ => return Err(unknown(py, op)),
        };
        checked(py, op, result)
    }

    #[pyo3(signature = (op, axes, keeps))]
    fn reduce(
        &self,
        py: Python<'_>,
        op: &str,
        axes: Option<Vec<isize>>,
        keeps: bool,
    ) -> PyResult<Self> {
        let (x, over) = (&self.0, over(axes, keeps));
        let result = match op {
            "sum" => x.sum(over),
            "prod" => x.product(over),
            "max" => x.max(over),
            "min" => x.min(over),
            "argmax" => x.argmax(over),
            "argmin" => x.argmin(over),
            "any" => x.any(over),
            "all" => x.all(over),
            "mean" => x.mean(over),
            "var" => x.variance(over),
            "softmax" => x.softmax(over),
            "log_softmax" => x.log_softmax(over),
            _ => return Err(unknown(py, op)),
        };
        checked(py, op, result)
    }

    fn select(
        &self,
        py: Python<'_>,
        yes: &Bound<'_, LazyNode>,
        no: &Bound<'_, LazyNode>,
    ) -> PyResult<Self> {
        checked(py, "where", self.0.select(&yes.get().0, &no.get().0))
    }

    fn cast(&self, py: Python<'_>, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        checked(py, "cast", self.0.cast(element::parse(dtype)?))
    }

    fn reshape(&self, py: Python<'_>, op: &str, shape: Vec<Extent<'_>>) -> PyResult<Self> {
        checked(py, op, self.0.reshape(sizes(&shape)))
    }

    fn broadcast_to(&self, py: Python<'_>, shape: Vec<Extent<'_>>) -> PyResult<Self> {
        checked(py, "broadcast_to", self.0.broadcast_to(sizes(&shape)))
    }

    fn permute(&self, py: Python<'_>, op: &str, axes: Vec<isize>) -> PyResult<Self> {
        checked(py, op, self.0.permute(axes))
    }

    /// An operation along one axis.
    fn along(&self, py: Python<'_>, op: &str, axis: isize) -> PyResult<Self> {
        let result = match op {
            "flip" => self.0.flip(axis),
            "cumsum" => self.0.cumsum(axis),
            "squeeze" => self.0.squeeze(axis),
            "unsqueeze" => self.0.unsqueeze(axis),
            _ => return Err(unknown(py, op)),
        };
        checked(py, op, result)
    }

    fn narrow(
        &self,
        py: Python<'_>,
        op: &str,
        axis: isize,
        start: Extent<'_>,
        len: Extent<'_>,
    ) -> PyResult<Self> {
        checked(py, op, self.0.narrow(axis, start.size(), len.size()))
    }

    fn roll(&self, py: Python<'_>, axis: isize, by: isize) -> PyResult<Self> {
        checked(py, "roll", self.0.roll(axis, by))
    }

    fn repeat(&self, py: Python<'_>, axis: isize, times: Extent<'_>) -> PyResult<Self> {
        checked(py, "repeat", self.0.repeat(axis, times.size()))
    }

    /// `take` or `gather` of rows or elements by an index of `i64`.
    fn indexed(
        &self,
        py: Python<'_>,
        op: &str,
        axis: isize,
        index: &Bound<'_, LazyNode>,
    ) -> PyResult<Self> {
        let index = &index.get().0;
        let result = match op {
            "gather" => self.0.gather(axis, index),
            _ => self.0.take(axis, index),
        };
        checked(py, op, result)
    }

    fn scatter(
        &self,
        py: Python<'_>,
        axis: isize,
        index: &Bound<'_, LazyNode>,
        values: &Bound<'_, LazyNode>,
        adds: bool,
    ) -> PyResult<Self> {
        let (index, values) = (&index.get().0, &values.get().0);
        match adds {
            true => checked(py, "scatter_add", self.0.scatter_add(axis, index, values)),
            false => checked(py, "scatter", self.0.scatter(axis, index, values)),
        }
    }

    fn set_rows(
        &self,
        py: Python<'_>,
        axis: isize,
        start: Extent<'_>,
        values: &Bound<'_, LazyNode>,
    ) -> PyResult<Self> {
        checked(
            py,
            "set_rows",
            self.0.set_rows(axis, start.size(), &values.get().0),
        )
    }

    /// The gradients of the sum of this node.
    fn grad(&self, py: Python<'_>, of: Vec<Bound<'_, LazyNode>>) -> PyResult<Vec<Self>> {
        let of: Vec<&LazyBuffer> = of.iter().map(|node| &node.get().0).collect();
        let gradients = self.0.grad_all(&of).into_iter();
        gradients.map(|node| checked(py, "grad", node)).collect()
    }

    #[staticmethod]
    fn cat(
        py: Python<'_>,
        op: &str,
        parts: Vec<Bound<'_, LazyNode>>,
        axis: isize,
    ) -> PyResult<Self> {
        let parts = parts.iter().map(|part| &part.get().0);
        let result = match op {
            "stack" => LazyBuffer::stack(parts, axis),
            _ => LazyBuffer::cat(parts, axis),
        };
        checked(py, op, result)
    }

    #[staticmethod]
    fn einsum(py: Python<'_>, terms: &str, parts: Vec<Bound<'_, LazyNode>>) -> PyResult<Self> {
        let parts = parts.iter().map(|part| &part.get().0);
        checked(py, "einsum", LazyBuffer::einsum(terms, parts))
    }
}

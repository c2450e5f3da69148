//! Lazy buffers: each operation adds a node to the graph.

use millstream::graph::{LazyBuffer, Over, Size};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::element;
use crate::errors::argument_error;
use crate::graph::length::{Extent, shape_of, sizes};
use crate::graph::{checked, literal};

/// A node of an expression; `millstream.LazyBuffer` has its operators.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct LazyNode(pub(crate) LazyBuffer);

/// Calls the method that has the name of the operation, with the arguments of its row; or else what is given for the name.
macro_rules! by_name {
    ($op:expr, $x:expr; $(with $arguments:tt: $($method:ident)*;)* $($name:literal => $result:expr,)*) => {
        match $op {
            $($(stringify!($method) => $x.$method $arguments,)*)*
            $($name => $result,)*
            op => return Err(argument_error(format!("graphs have no operation `{op}`"))),
        }
    };
}

/// The arguments of an operation, by their places.
struct Arguments<'a, 'py>(&'a Bound<'py, PyTuple>);

impl<'py> Arguments<'_, 'py> {
    fn at<T: FromPyObjectOwned<'py>>(&self, index: usize) -> PyResult<T> {
        self.0.get_item(index)?.extract().map_err(Into::into)
    }

    fn node(&self, index: usize) -> PyResult<LazyBuffer> {
        Ok(self.at::<Bound<'py, LazyNode>>(index)?.get().0.clone())
    }

    fn size(&self, index: usize) -> PyResult<Size> {
        Ok(self.at::<Extent<'py>>(index)?.size())
    }

    fn shape(&self) -> PyResult<Vec<Size>> {
        Ok(sizes(&self.at::<Vec<Extent<'py>>>(0)?))
    }

    /// Returns the axes of a reduction: the first argument; the second is whether they stay.
    fn over(&self) -> PyResult<Over> {
        let over = Over::Axes(self.at(0)?);
        Ok(if self.at(1)? { over } else { over.dropped() })
    }
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

    /// `(op: str, *arguments: Any, name: str | None = None) -> LazyNode`
    ///
    /// Adds an operation on this node: `add(other)`, `exp()`, `sum(axes, keeps)`, `narrow(axis, start, length)`, ..
    /// `name` is its name in messages, if that is another.
    ///
    /// `divide`, `remainder` and the shifts are those of the runtime. `number(value)` is a number of this node's type,
    /// without axes, and `places(length, start, step)` the indices of a slice.
    #[pyo3(signature = (op, *arguments, name=None))]
    fn apply(
        &self,
        op: &str,
        arguments: &Bound<'_, PyTuple>,
        name: Option<&str>,
    ) -> PyResult<Self> {
        let (x, given) = (&self.0, Arguments(arguments));
        // Of each node, since no refused buffer is one.
        let graph = || x.graph().cloned().unwrap_or_default();
        let result = by_name!(op, x;
            with (): abs sqrt exp log sin cos tanh erf floor ceil round sign log1p expm1 relu sigmoid silu gelu gelu_tanh detach;
            with (&given.node(0)?): minimum maximum less less_equal greater greater_equal matmul set;
            with (given.over()?): sum max min argmax argmin any all mean softmax log_softmax;
            with (given.shape()?): reshape broadcast_to;
            with (given.at(0)?): flip cumsum squeeze unsqueeze;
            with (given.at(0)?, &given.node(1)?): take gather;
            with (given.at(0)?, &given.node(1)?, &given.node(2)?): scatter scatter_add;
            "negative" => -x,
            "invert" => !x,
            "isnan" => x.is_nan(),
            "add" => x + &given.node(0)?,
            "subtract" => x - &given.node(0)?,
            "multiply" => x * &given.node(0)?,
            "divide" => x / &given.node(0)?,
            "remainder" => x % &given.node(0)?,
            "bitwise_and" => x & &given.node(0)?,
            "bitwise_or" => x | &given.node(0)?,
            "bitwise_xor" => x ^ &given.node(0)?,
            "left_shift" => x << &given.node(0)?,
            "right_shift" => x >> &given.node(0)?,
            "power" => x.pow(&given.node(0)?),
            "arctan2" => x.atan2(&given.node(0)?),
            "equal" => x.equals(&given.node(0)?),
            "not_equal" => x.differs(&given.node(0)?),
            "where" => x.select(&given.node(0)?, &given.node(1)?),
            "prod" => x.product(given.over()?),
            "var" => x.variance(given.over()?),
            "cast" => x.cast(element::parse(&given.at(0)?)?),
            "permute" => x.permute(given.at::<Vec<isize>>(0)?),
            "narrow" => x.narrow(given.at(0)?, given.size(1)?, given.size(2)?),
            "roll" => x.roll(given.at(0)?, given.at(1)?),
            "repeat" => x.repeat(given.at(0)?, given.size(1)?),
            "set_rows" => x.set_rows(given.at(0)?, given.size(1)?, &given.node(2)?),
            "number" => graph().constant(x.dtype(), literal(&given.at(0)?)?),
            "places" => graph().iota(given.at::<u64>(0)?) * given.at::<i64>(2)? + given.at::<i64>(1)?,
        );
        checked(name.unwrap_or(op), result)
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

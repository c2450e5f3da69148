//! Lazy buffers: each operation adds a node to the graph.

use millstream::graph::{LazyBuffer, Over, Size};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::element;
use crate::errors::{argument_error, caused};
use crate::graph::length::{Extent, shape_of, sizes};
use crate::graph::{checked, literal};

/// A node of an expression; `millstream.LazyBuffer` has its operators.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct LazyNode(pub(crate) LazyBuffer);

/// Calls the method that has the name of the operation, with the arguments of its row; or else what is given for the name. Each
/// row has the names of its arguments.
macro_rules! by_name {
    (
        $op:expr, $x:expr, $given:ident = ($shown:expr, $arguments:expr);
        $(with $names:tt $call:tt: $($method:ident)*;)*
        $($name:literal $own:tt => $result:expr,)*
    ) => {
        match $op {
            $($(stringify!($method) => {
                #[allow(unused_variables, reason = "not each row has arguments")]
                let $given = Arguments::of($shown, &$names, $arguments)?;
                $x.$method $call
            })*)*
            $($name => {
                #[allow(unused_variables, reason = "as above")]
                let $given = Arguments::of($shown, &$own, $arguments)?;
                $result
            })*
            op => return Err(argument_error(format!("graphs have no operation `{op}`"))),
        }
    };
}

/// The arguments of an operation, by their places.
struct Arguments<'a, 'py> {
    op: &'a str,
    names: &'a [&'a str],
    values: &'a Bound<'py, PyTuple>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// Checks that there are as many arguments as names.
    fn of(op: &'a str, names: &'a [&'a str], values: &'a Bound<'py, PyTuple>) -> PyResult<Self> {
        let (expected, given) = (names.len(), values.len());
        if expected != given {
            let names = names.join(", ");
            let message = format!("`{op}` takes {expected} arguments ({names}), got {given}");
            return Err(PyTypeError::new_err(message));
        }
        Ok(Self { op, names, values })
    }

    fn at<T: FromPyObjectOwned<'py>>(&self, index: usize) -> PyResult<T> {
        let value = self.values.get_item(index)?;
        let extracted: PyResult<T> = value.extract().map_err(Into::into);
        extracted.map_err(|error| self.unfit(index, error))
    }

    /// Adds the name of the argument to an error of its type.
    #[cold]
    fn unfit(&self, index: usize, error: PyErr) -> PyErr {
        let py = self.values.py();
        if !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        let (op, name) = (self.op, self.names[index]);
        let message = format!("argument `{name}` of `{op}`: {}", error.value(py));
        caused(PyTypeError::new_err(message), error)
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
        let (x, shown) = (&self.0, name.unwrap_or(op));
        // A node has a graph: only a refused buffer has none, and that is no node.
        let graph = || x.graph().cloned().unwrap_or_default();
        let result = by_name!(op, x, given = (shown, arguments);
            with [] (): abs sqrt exp log sin cos tanh erf floor ceil round sign log1p expm1 relu sigmoid silu gelu gelu_tanh detach;
            with ["other"] (&given.node(0)?): minimum maximum less less_equal greater greater_equal matmul set;
            with ["axes", "keeps"] (given.over()?): sum max min argmax argmin any all mean softmax log_softmax;
            with ["shape"] (given.shape()?): reshape broadcast_to;
            with ["axis"] (given.at(0)?): flip cumsum squeeze unsqueeze;
            with ["axis", "index"] (given.at(0)?, &given.node(1)?): take gather;
            with ["axis", "index", "values"] (given.at(0)?, &given.node(1)?, &given.node(2)?): scatter scatter_add;
            "negative" [] => -x,
            "invert" [] => !x,
            "isnan" [] => x.is_nan(),
            "add" ["other"] => x + &given.node(0)?,
            "subtract" ["other"] => x - &given.node(0)?,
            "multiply" ["other"] => x * &given.node(0)?,
            "divide" ["other"] => x / &given.node(0)?,
            "remainder" ["other"] => x % &given.node(0)?,
            "bitwise_and" ["other"] => x & &given.node(0)?,
            "bitwise_or" ["other"] => x | &given.node(0)?,
            "bitwise_xor" ["other"] => x ^ &given.node(0)?,
            "left_shift" ["other"] => x << &given.node(0)?,
            "right_shift" ["other"] => x >> &given.node(0)?,
            "power" ["other"] => x.pow(&given.node(0)?),
            "arctan2" ["other"] => x.atan2(&given.node(0)?),
            "equal" ["other"] => x.equals(&given.node(0)?),
            "not_equal" ["other"] => x.differs(&given.node(0)?),
            "where" ["yes", "no"] => x.select(&given.node(0)?, &given.node(1)?),
            "prod" ["axes", "keeps"] => x.product(given.over()?),
            "var" ["axes", "keeps"] => x.variance(given.over()?),
            "cast" ["dtype"] => x.cast(element::parse(&given.at(0)?)?),
            "permute" ["axes"] => x.permute(given.at::<Vec<isize>>(0)?),
            "narrow" ["axis", "start", "length"] => x.narrow(given.at(0)?, given.size(1)?, given.size(2)?),
            "roll" ["axis", "by"] => x.roll(given.at(0)?, given.at(1)?),
            "repeat" ["axis", "times"] => x.repeat(given.at(0)?, given.size(1)?),
            "set_rows" ["axis", "start", "values"] => x.set_rows(given.at(0)?, given.size(1)?, &given.node(2)?),
            "number" ["value"] => graph().constant(x.dtype(), literal(&given.at(0)?)?),
            "places" ["length", "start", "step"] => graph().iota(given.at::<u64>(0)?) * given.at::<i64>(2)? + given.at::<i64>(1)?,
        );
        checked(shown, result)
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

//! Lengths that each run sets, and shapes with them.

use millstream::graph::{LazyBuffer, Size, Symbol};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::argument_error;

/// A length that each run of a graph sets, made by `Graph.length`; or a sum, difference or product of such lengths.
///
/// ```text
/// def __add__(self, other: Extent) -> Length
/// def __radd__(self, other: Extent) -> Length
/// def __sub__(self, other: Extent) -> Length
/// def __rsub__(self, other: Extent) -> Length
/// def __mul__(self, other: Extent) -> Length
/// def __rmul__(self, other: Extent) -> Length
/// def __eq__(self, other: object) -> bool
/// def __hash__(self) -> int
/// ```
#[pyclass(frozen, eq, hash, module = "millstream")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Length(pub(crate) Size);

/// A length of Python: an `int`, or a [`Length`].
#[derive(FromPyObject)]
pub(crate) enum Extent<'py> {
    Fixed(i64),
    Symbolic(Bound<'py, Length>),
}

impl Extent<'_> {
    pub(crate) fn size(&self) -> Size {
        match self {
            Extent::Fixed(length) => Size::fixed(*length),
            Extent::Symbolic(length) => length.get().0.clone(),
        }
    }
}

/// Converts a shape of Python.
pub(crate) fn sizes(shape: &[Extent<'_>]) -> Vec<Size> {
    shape.iter().map(Extent::size).collect()
}

/// Returns the shape of a node: an `int` for each known length, and a [`Length`] for others.
pub(crate) fn shape_of<'py>(py: Python<'py>, node: &LazyBuffer) -> PyResult<Bound<'py, PyTuple>> {
    let shape = node.shape();
    let lengths = shape.iter().map(|size| match size.known() {
        Some(length) => Ok(length.into_pyobject(py)?.into_any()),
        None => Ok(Bound::new(py, Length(size.clone()))?.into_any()),
    });
    PyTuple::new(py, lengths.collect::<PyResult<Vec<_>>>()?)
}

/// The symbol of a size that is a symbol alone.
pub(crate) fn symbol_of(size: &Size) -> Option<Symbol> {
    let symbol = size.symbols().next()?;
    (Size::from(symbol) == *size).then(|| symbol.clone())
}

impl Length {
    /// Returns the symbol that a run sets.
    pub(crate) fn symbol(&self) -> PyResult<Symbol> {
        let missing = || {
            let message = format!("`run`: {} is computed from lengths: set those", self.0);
            argument_error(message)
        };
        symbol_of(&self.0).ok_or_else(missing)
    }

    fn combined(size: Option<Size>) -> PyResult<Self> {
        let overflow = || argument_error("the length overflows 64 bits");
        size.map(Self).ok_or_else(overflow)
    }
}

#[pymethods]
impl Length {
    /// `-> int | None`
    ///
    /// The greatest value, or ``None`` if it overflows.
    #[getter]
    fn max(&self) -> Option<i64> {
        self.0.max()
    }

    fn __add__(&self, other: Extent<'_>) -> PyResult<Self> {
        Self::combined(self.0.plus(&other.size()))
    }

    fn __radd__(&self, other: Extent<'_>) -> PyResult<Self> {
        Self::combined(self.0.plus(&other.size()))
    }

    fn __sub__(&self, other: Extent<'_>) -> PyResult<Self> {
        Self::combined(self.0.minus(&other.size()))
    }

    fn __rsub__(&self, other: Extent<'_>) -> PyResult<Self> {
        Self::combined(other.size().minus(&self.0))
    }

    fn __mul__(&self, other: Extent<'_>) -> PyResult<Self> {
        Self::combined(self.0.times(&other.size()))
    }

    fn __rmul__(&self, other: Extent<'_>) -> PyResult<Self> {
        Self::combined(self.0.times(&other.size()))
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

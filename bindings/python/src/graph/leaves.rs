//! Graphs, and the nodes without operands.

use millstream::graph::{Graph, Scalar, Size};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::element;
use crate::graph::length::{Extent, Length, sizes};
use crate::graph::node::LazyNode;
use crate::graph::{checked, literal};

/// The nodes of a `millstream.Graph`.
///
/// ```text
/// def __new__(cls) -> Self
/// def __len__(self) -> int
/// ```
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct GraphArena(Graph);

/// A number of a graph that each run may set: `Graph.scalar`, or the seed of random numbers.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct GraphScalar(pub(crate) Scalar);

#[pymethods]
impl GraphScalar {
    /// `-> str`
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// `-> type[Value]`
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::class_of(py, self.0.dtype())
    }
}

#[pymethods]
impl GraphArena {
    #[new]
    fn new() -> Self {
        Self(Graph::new())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// `(name: str, shape: Sequence[Extent], dtype: DTypeLike) -> LazyNode`
    fn input(
        &self,
        name: &str,
        shape: Vec<Extent<'_>>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<LazyNode> {
        let dtype = element::parse(dtype)?;
        checked("input", self.0.input(name, dtype, sizes(&shape)))
    }

    /// `(buffer: Buffer) -> LazyNode`
    fn buffer(&self, buffer: &Buffer) -> PyResult<LazyNode> {
        let shape: Vec<u64> = buffer.shape.iter().map(|length| *length as u64).collect();
        let node = self.0.buffer_as(&buffer.handle, buffer.dtype, shape);
        checked("buffer", node)
    }

    /// `(op: str, value: Number, dtype: DTypeLike) -> LazyNode`
    fn constant(
        &self,
        op: &str,
        value: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<LazyNode> {
        let node = self.0.constant(element::parse(dtype)?, literal(value)?);
        checked(op, node)
    }

    /// `(name: str, value: Number, dtype: DTypeLike) -> tuple[GraphScalar, LazyNode]`
    fn scalar(
        &self,
        name: &str,
        value: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<(GraphScalar, LazyNode)> {
        let (scalar, node) = self.0.scalar(name, element::parse(dtype)?, literal(value)?);
        Ok((GraphScalar(scalar), checked("scalar", node)?))
    }

    /// `(shape: Sequence[Extent], axis: int) -> LazyNode`
    fn index(&self, shape: Vec<Extent<'_>>, axis: isize) -> PyResult<LazyNode> {
        checked("index", self.0.index(sizes(&shape), axis))
    }

    /// `(name: str, max: int) -> Length`
    ///
    /// Makes a length of at most `max` that each run sets.
    fn length(&self, name: &str, max: u64) -> Length {
        Length(Size::from(&self.0.length(name, max)))
    }

    /// `(length: Extent) -> LazyNode`
    ///
    /// The value of a length in a run, as `i64`.
    fn length_value(&self, length: Extent<'_>) -> PyResult<LazyNode> {
        checked("length_value", self.0.length_value(length.size()))
    }

    /// `(kind: str, shape: Sequence[Extent], seed: int) -> tuple[GraphScalar, LazyNode]`
    ///
    /// Random numbers: `random_bits`, `uniform` or `normal`. Returns the seed, too.
    fn random(
        &self,
        kind: &str,
        shape: Vec<Extent<'_>>,
        seed: u64,
    ) -> PyResult<(GraphScalar, LazyNode)> {
        let shape = sizes(&shape);
        let (seed, node) = match kind {
            "uniform" => self.0.uniform(shape, seed),
            "normal" => self.0.normal(shape, seed),
            _ => self.0.random_bits(shape, seed),
        };
        Ok((GraphScalar(seed), checked(kind, node)?))
    }
}

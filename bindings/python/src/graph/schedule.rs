//! Schedules, caches, compiled schedules and their runs.

use std::sync::Arc;

use millstream::graph::{
    CompiledSchedule, GraphCache, LazyBuffer, Output, OutputInfo, Schedule, ScheduleError, Shape,
    Size, Symbol,
};
use millstream::{ComputeClient, DType, Error};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::buffer::Buffer;
use crate::client::Client;
use crate::errors::argument_error;
use crate::exchange::origin::Origin;
use crate::graph::leaves::GraphScalar;
use crate::graph::length::{Length, symbol_of};
use crate::graph::node::LazyNode;
use crate::graph::{literal, schedule_error};
use crate::metrics::dict;
use crate::stream::Stream;

/// See `millstream.Schedule`.
///
/// ```text
/// def __new__(cls, roots: Sequence[LazyNode]) -> Self
/// def __len__(self) -> int
/// ```
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct ScheduleSteps(Schedule);

/// See `millstream.GraphCache`.
///
/// ```text
/// def __new__(cls, kernels: int) -> Self
/// ```
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct ScheduleCache(GraphCache);

/// See `millstream.CompiledSchedule`.
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct CompiledSteps {
    compiled: CompiledSchedule,
    roots: Vec<OutputInfo>,
    /// The lengths that each run sets.
    lengths: Vec<Symbol>,
}

#[pymethods]
impl ScheduleCache {
    #[new]
    fn new(kernels: usize) -> Self {
        Self(GraphCache::new(kernels))
    }

    /// `() -> dict[str, int]`
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.0.stats();
        Ok(dict!(py;
            kernel_lookups: stats.kernel_lookups, kernels_compiled: stats.kernels_compiled,
            cached_kernels: stats.cached_kernels, schedule_lookups: stats.schedule_lookups,
            schedules_recorded: stats.schedules_recorded, cached_schedules: stats.cached_schedules,
        ))
    }
}

#[pymethods]
impl ScheduleSteps {
    #[new]
    fn new(py: Python<'_>, roots: Vec<Bound<'_, LazyNode>>) -> PyResult<Self> {
        let roots: Vec<&LazyBuffer> = roots.iter().map(|root| &root.get().0).collect();
        let created = py.detach(|| Schedule::create(&roots));
        created.map(Self).map_err(|error| schedule_error(&error))
    }

    fn __len__(&self) -> usize {
        self.0.items().len()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    /// `() -> str`
    fn dot(&self) -> String {
        self.0.dot()
    }

    /// `(target: Device | Client | Stream, cache: ScheduleCache | None = None) -> CompiledSteps`
    ///
    /// Compiles for the device of a `Device`, a `Client` or a `Stream`.
    #[pyo3(signature = (target, cache=None))]
    fn compile(
        &self,
        target: &Bound<'_, PyAny>,
        cache: Option<&ScheduleCache>,
    ) -> PyResult<CompiledSteps> {
        let (py, client) = (target.py(), client_of(target)?);
        let compiled = py.detach(|| match cache {
            Some(cache) => self.0.compile_with_cache(&client, &cache.0),
            None => self.0.compile(&client),
        });
        let compiled = compiled.map_err(|error| schedule_error(&error))?;
        Ok(CompiledSteps {
            compiled,
            roots: self.0.outputs().collect(),
            lengths: self.0.lengths(),
        })
    }
}

fn client_of(target: &Bound<'_, PyAny>) -> PyResult<ComputeClient> {
    if let Ok(client) = target.cast::<Client>() {
        return Ok(client.get().client.clone());
    }
    if let Ok(stream) = target.cast::<Stream>() {
        return Ok(stream.get().submitter.stream().client().clone());
    }
    let message = "`compile` takes a Device, a Client or a Stream";
    Err(argument_error(message))
}

/// The values of lengths in a run.
type Lengths = Vec<(Symbol, u64)>;

/// Adds the lengths that the shape of an input's buffer shows.
fn infer(lengths: &mut Lengths, input: &LazyBuffer, buffer: &Buffer) {
    for (size, length) in input.shape().iter().zip(buffer.shape.iter()) {
        if let Some(symbol) = symbol_of(size)
            && lengths.iter().all(|(known, _)| *known != symbol)
        {
            lengths.push((symbol, *length as u64));
        }
    }
}

#[pymethods]
impl CompiledSteps {
    /// `(stream: Stream, inputs: Sequence[tuple[LazyNode, Buffer]], scalars: Sequence[tuple[GraphScalar, Number]],
    /// outputs: Sequence[tuple[int, Buffer]], lengths: Sequence[tuple[Length, int]]) -> tuple[Buffer, ...]`
    ///
    /// Submits a run. Returns a buffer for each root.
    fn run<'py>(
        &self,
        py: Python<'py>,
        stream: &Bound<'py, Stream>,
        inputs: Vec<(Bound<'py, LazyNode>, Bound<'py, Buffer>)>,
        scalars: Vec<(Bound<'py, GraphScalar>, Bound<'py, PyAny>)>,
        outputs: Vec<(usize, Bound<'py, Buffer>)>,
        lengths: Vec<(Bound<'py, Length>, u64)>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let lengths = self.lengths_of(&inputs, &outputs, &lengths)?;
        let submitter = &stream.get().submitter;
        let mut run = self.compiled.run();
        for (input, buffer) in &inputs {
            run = run.input(&input.get().0, &buffer.get().handle);
        }
        for (scalar, value) in &scalars {
            run = run.scalar(&scalar.get().0, literal(value)?);
        }
        for (root, buffer) in &outputs {
            run = run.output(*root, &buffer.get().handle);
        }
        for (symbol, length) in &lengths {
            run = run.length(symbol, *length);
        }
        let submitted = submitter.submit(py, |stream| match run.try_submit(stream) {
            Err(ScheduleError::Device(busy @ Error::Busy { .. })) => Err(busy),
            outcome => Ok(outcome),
        })?;
        let results = submitted.map_err(|error| schedule_error(&error))?;
        let origin = &stream.get().origin;
        let buffers = results.iter().map(|output| buffer_of(output, origin));
        let buffers: Vec<Buffer> = buffers.collect();
        PyTuple::new(py, buffers)
    }

    /// `(input: LazyNode) -> bool`
    ///
    /// Returns `true` if a run binds this input.
    fn takes(&self, input: &LazyNode) -> bool {
        self.compiled.run().takes(&input.0)
    }

    /// `-> int`
    #[getter]
    fn tasks(&self) -> usize {
        self.compiled.tasks()
    }

    /// `-> int`
    #[getter]
    fn temporary_bytes(&self) -> u64 {
        self.compiled.temporary_bytes()
    }

    /// `-> int`
    #[getter]
    fn output_bytes(&self) -> u64 {
        self.compiled.output_bytes()
    }

    /// `-> int`
    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.compiled.peak_bytes()
    }
}

impl CompiledSteps {
    /// Returns the lengths that are given, and those that the shapes of inputs show. Checks inputs and outputs.
    fn lengths_of(
        &self,
        inputs: &[(Bound<'_, LazyNode>, Bound<'_, Buffer>)],
        outputs: &[(usize, Bound<'_, Buffer>)],
        given: &[(Bound<'_, Length>, u64)],
    ) -> PyResult<Lengths> {
        let given = given.iter();
        let given = given.map(|(length, value)| Ok((length.get().symbol()?, *value)));
        let mut lengths = given.collect::<PyResult<Lengths>>()?;
        let explicit = lengths.len();
        for (node, buffer) in inputs {
            infer(&mut lengths, &node.get().0, buffer.get());
        }
        for (node, buffer) in inputs {
            let (node, buffer) = (&node.get().0, buffer.get());
            let expected = (node.dtype(), &node.shape());
            check_binding(|| format!("{node:?}"), expected, &lengths, buffer)?;
        }
        for (root, buffer) in outputs {
            // The run refuses a root that does not exist.
            if let Some(info) = self.roots.get(*root) {
                let (name, expected) = (|| format!("the output of root {root}"), &info.shape);
                check_binding(name, (info.dtype, expected), &lengths, buffer.get())?;
            }
        }
        // A run refuses a length that it does not depend on, which is no error for one that was inferred.
        let mut place = 0;
        lengths.retain(|(symbol, _)| {
            place += 1;
            place <= explicit || self.lengths.contains(symbol)
        });
        Ok(lengths)
    }
}

/// Checks what the runtime cannot, since it takes the memory as bytes.
fn check_binding(
    name: impl FnOnce() -> String,
    (dtype, shape): (DType, &Shape),
    lengths: &Lengths,
    buffer: &Buffer,
) -> PyResult<()> {
    let fits = known_shape(shape, lengths).is_none_or(|shape| {
        // Without all lengths the run fails, since one is missing.
        let given = buffer.shape.iter().map(|length| *length as i64);
        shape.into_iter().eq(given)
    });
    if dtype == buffer.dtype && fits {
        return Ok(());
    }
    let message = format!(
        "`run`: {} takes a buffer of {dtype} {shape}, got {} {:?}",
        name(),
        buffer.dtype,
        buffer.shape
    );
    Err(argument_error(message))
}

/// Returns a shape with these lengths, if it depends on no others.
fn known_shape(shape: &Shape, lengths: &Lengths) -> Option<Vec<i64>> {
    let value = |symbol: &Symbol| {
        let found = lengths.iter().rev().find(|(known, _)| known == symbol);
        found.map(|(_, length)| *length)
    };
    let is_known = |size: &Size| size.symbols().all(|symbol| value(symbol).is_some());
    let length = |size: &Size| size.at(&|symbol| value(symbol).unwrap_or(0));
    shape
        .iter()
        .map(|size| if is_known(size) { length(size) } else { None })
        .collect()
}

fn buffer_of(output: &Output, origin: &Arc<Origin>) -> Buffer {
    let shape = output.shape().iter().map(|length| *length as usize);
    let handle = output.bytes().clone();
    Buffer::new(handle, output.dtype(), shape.collect(), origin.clone())
}

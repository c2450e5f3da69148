//! Recorders and recordings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millstream::backend::Process;
use millstream::{DType, Error, Handle, stream::RecordedWord};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments::{Packed, count_of, pack};
use crate::buffer::Buffer;
use crate::element;
use crate::elements::{Shape, bytes_of, fill_with};
use crate::errors::{argument_error, exception};
use crate::exchange::origin::Origin;
use crate::kernel::{Kernel, ParameterKind};
use crate::submit::Submitter;

/// Numbers recorders, so that a scalar parameter is used with its own recording only.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Records tasks instead of submitting them: `Stream.recorder`.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Recorder {
    number: u64,
    origin: Arc<Origin>,
    state: Mutex<RecorderState>,
    /// In a child that was forked since, the thread that held the lock does not exist.
    process: Process,
}

struct RecorderState {
    /// `None` once it is finished.
    recorder: Option<millstream::Recorder<'static>>,
    /// The types of the scalar parameters.
    scalars: Vec<DType>,
}

impl Recorder {
    pub(crate) fn new(stream: millstream::Stream, origin: Arc<Origin>) -> Self {
        // Relaxed: only the uniqueness of the number matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let state = RecorderState {
            recorder: Some(stream.into_recorder()),
            scalars: Vec::new(),
        };
        Self {
            number,
            origin,
            state: Mutex::new(state),
            process: Process::current(),
        }
    }

    /// Calls `use_state` with the state, detached, unless this is a child that was forked since.
    fn with_state<R: Send>(
        &self,
        py: Python<'_>,
        use_state: impl FnOnce(&mut RecorderState) -> Option<Result<R, Error>> + Send,
    ) -> PyResult<R> {
        if !self.process.is_current() {
            return Err(exception(Error::Forked));
        }
        let used = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            use_state(&mut state)
        });
        let finished = || argument_error("the recorder is finished; start another one");
        used.ok_or_else(finished)?.map_err(exception)
    }

    /// Calls `record` with the recorder, detached.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        record: impl FnOnce(&mut millstream::Recorder<'static>) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        self.with_state(py, |state| state.recorder.as_mut().map(record))
    }
}

/// A number of a recording that each replay sets.
#[pyclass(frozen, module = "millstream")]
pub(crate) struct ScalarParameter {
    recorder: u64,
    slot: u32,
    dtype: DType,
}

#[pymethods]
impl ScalarParameter {
    /// `-> type[Value]`
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        element::class_of(py, self.dtype)
    }
}

#[pymethods]
impl Recorder {
    /// `(shape: Shape, dtype: DTypeLike) -> Buffer`
    ///
    /// Makes a buffer without memory, which each replay binds to one with.
    fn parameter(
        &self,
        py: Python<'_>,
        shape: Shape,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Buffer> {
        self.buffer(py, shape, dtype, millstream::Recorder::parameter::<u8>)
    }

    /// `(shape: Shape, dtype: DTypeLike) -> Buffer`
    ///
    /// As `parameter`, for memory whose previous contents no replay needs.
    fn scratch(&self, py: Python<'_>, shape: Shape, dtype: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        self.buffer(py, shape, dtype, millstream::Recorder::scratch::<u8>)
    }

    /// `(shape: Shape, dtype: DTypeLike) -> Buffer`
    ///
    /// Allocates memory that belongs to the recording.
    fn empty(&self, py: Python<'_>, shape: Shape, dtype: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        self.buffer(py, shape, dtype, millstream::Recorder::empty::<u8>)
    }

    /// `(dtype: DTypeLike) -> ScalarParameter`
    ///
    /// Makes a number that each replay sets.
    fn scalar(&self, dtype: &Bound<'_, PyAny>) -> PyResult<ScalarParameter> {
        let (py, dtype) = (dtype.py(), element::parse(dtype)?);
        let slot = self.with_state(py, |state| {
            // `None` after `finish`: the recording would not know the scalar.
            state.recorder.as_ref()?;
            state.scalars.push(dtype);
            Some(Ok(state.scalars.len() as u32 - 1))
        })?;
        let recorder = self.number;
        Ok(ScalarParameter {
            recorder,
            slot,
            dtype,
        })
    }

    /// `(buffer: Buffer, value: complex | bool | np.generic) -> None`
    fn fill(&self, buffer: &Buffer, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let bits = element::bits_of(buffer.dtype, value)?;
        let size = buffer.dtype.size();
        self.with(py, |recorder| {
            fill_with!(recorder, &buffer.handle, size, bits)
        })
    }

    /// `(source: Buffer, target: Buffer) -> None`
    fn copy(&self, py: Python<'_>, source: &Buffer, target: &Buffer) -> PyResult<()> {
        self.with(py, |recorder| recorder.copy(&source.handle, &target.handle))
    }

    /// `(kernel: Kernel, count: Count, *args: Buffer | ScalarParameter | complex | bool | np.generic) -> None`
    #[pyo3(signature = (kernel, count, *args))]
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, Kernel>,
        count: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let (kernel, count) = (kernel.get(), count_of(count)?);
        let mut slots = Vec::new();
        let Packed { bindings, words } = pack(kernel, args, |given, dtype, offset| {
            let Ok(scalar) = given.cast::<ScalarParameter>() else {
                return Ok(false);
            };
            slots.push((
                offset / 8,
                self.slot_of(kernel, scalar.get(), (dtype, offset))?,
            ));
            Ok(true)
        })?;
        let mut words: Vec<_> = words.into_iter().map(RecordedWord::Value).collect();
        for (word, slot) in slots {
            words[word] = RecordedWord::Slot(slot);
        }
        self.with(py, |recorder| {
            recorder.launch_words(&kernel.handle, count, &bindings, &words)
        })
    }

    /// `() -> Recording`
    ///
    /// Ends the recording. The recorder cannot be used any more.
    fn finish(&self, py: Python<'_>) -> PyResult<Recording> {
        let (recording, scalars) = self.with_state(py, |state| {
            let finished = state.recorder.take()?.finish();
            Some(finished.map(|recording| (recording, state.scalars.as_slice().into())))
        })?;
        let number = self.number;
        Ok(Recording {
            recording,
            number,
            scalars,
        })
    }
}

impl Recorder {
    /// Makes a buffer, of whose bytes `make` makes the handle.
    fn buffer(
        &self,
        py: Python<'_>,
        shape: Shape,
        dtype: &Bound<'_, PyAny>,
        make: impl FnOnce(&mut millstream::Recorder<'static>, usize) -> Result<Handle<u8>, Error> + Send,
    ) -> PyResult<Buffer> {
        let (shape, dtype) = (shape.axes(), element::parse(dtype)?);
        let bytes = bytes_of(&shape, dtype.size())?;
        let handle = self.with(py, |recorder| make(recorder, bytes))?;
        Ok(Buffer::new(handle, dtype, shape, self.origin.clone()))
    }

    /// Returns the slot of a scalar parameter, which needs a word of its own.
    fn slot_of(
        &self,
        kernel: &Kernel,
        scalar: &ScalarParameter,
        (dtype, offset): (DType, usize),
    ) -> PyResult<u32> {
        if scalar.recorder != self.number {
            return Err(argument_error("the scalar belongs to another recorder"));
        }
        if scalar.dtype != dtype {
            let message = format!(
                "the kernel takes a number of {dtype}, got a parameter of {}",
                scalar.dtype
            );
            return Err(argument_error(message));
        }
        let shares_word = |kind: &ParameterKind| match kind {
            ParameterKind::Scalar { offset: other, .. } => {
                *other != offset && other / 8 == offset / 8
            }
            ParameterKind::Binding { .. } => false,
        };
        let mut others = kernel.parameters.iter();
        if others.any(|parameter| shares_word(&parameter.kind)) {
            let message = "this kernel packs several numbers in a word; use a kernel of the IR for parameters";
            return Err(argument_error(message));
        }
        Ok(scalar.slot)
    }
}

/// Tasks that were checked once, and can be replayed any number of times, on any stream of the device.
///
/// ```text
/// def __len__(self) -> int
/// ```
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Recording {
    recording: millstream::Recording,
    number: u64,
    scalars: Arc<[DType]>,
}

#[pymethods]
impl Recording {
    fn __len__(&self) -> usize {
        self.recording.len()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.recording)
    }
}

/// Replays a recording with buffers in place of parameters, and values of scalars.
pub(crate) fn replay(
    py: Python<'_>,
    submitter: &Submitter,
    recording: &Recording,
    buffers: Option<&Bound<'_, PyDict>>,
    values: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let mut rebound = Vec::new();
    for (parameter, buffer) in buffers.into_iter().flatten() {
        let (Ok(parameter), Ok(buffer)) = (parameter.cast::<Buffer>(), buffer.cast::<Buffer>())
        else {
            return Err(argument_error(
                "`buffers` maps the buffers of parameters to buffers",
            ));
        };
        let Some(index) = recording.recording.parameter_of(&parameter.get().handle) else {
            return Err(argument_error("no recorded task uses this parameter"));
        };
        rebound.push((index, buffer.get().handle.clone()));
    }
    let words = words_of(recording, values)?;
    let rebound: Vec<_> = rebound
        .iter()
        .map(|(index, handle)| (*index, handle))
        .collect();
    submitter.submit(py, |stream| {
        recording.recording.replay_args(stream, &rebound, &words)
    })
}

fn words_of(recording: &Recording, values: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<u64>> {
    let mut words = vec![None; recording.scalars.len()];
    for (scalar, value) in values.into_iter().flatten() {
        let Ok(scalar) = scalar.cast::<ScalarParameter>() else {
            return Err(argument_error("`values` maps scalar parameters to numbers"));
        };
        let scalar = scalar.get();
        if scalar.recorder != recording.number {
            return Err(argument_error("the scalar belongs to another recording"));
        }
        let Some(word) = words.get_mut(scalar.slot as usize) else {
            return Err(argument_error("the scalar belongs to another recording"));
        };
        *word = Some(element::bits_of(scalar.dtype, &value)?);
    }
    // Scalars that no launch takes have no words.
    words.truncate(recording.recording.words());
    let missing = |(slot, word): (usize, Option<u64>)| {
        word.ok_or_else(|| argument_error(format!("scalar parameter {slot} has no value")))
    };
    words.into_iter().enumerate().map(missing).collect()
}

//! Streams: submitting tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{DType, Error, Handle, Returned};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::arguments::{count_of, pack};
use crate::buffer::Buffer;
use crate::element;
use crate::elements::{Shape, bytes_of, fill_with};
use crate::errors::argument_error;
use crate::exchange::import::DlTensor;
use crate::exchange::origin::Origin;
use crate::held::HeldBuffer;
use crate::input::{Input, has_strides, output};
use crate::kernel::Kernel;
use crate::landing::Landing;
use crate::metrics::dict;
use crate::observe::profile::ProfileScope;
use crate::pending::Pending;
use crate::recording::{Recorder, Recording, replay};
use crate::submit::Submitter;

/// An order of tasks that any thread may add to.
///
/// A call returns once its task is accepted, and does not wait for the device. Tasks of different streams overlap, unless
/// they touch the same bytes. If there is no room, a call waits for it without the interpreter's lock; Ctrl-C ends that
/// wait.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Stream {
    pub(crate) submitter: Submitter,
    pub(crate) origin: Arc<Origin>,
    /// The token of a request, which a cancelled await cancels.
    request: Option<millstream::CancelToken>,
}

impl Stream {
    pub(crate) fn new(stream: millstream::Stream, origin: Arc<Origin>) -> Self {
        Self {
            submitter: Submitter::new(stream, true),
            origin,
            request: None,
        }
    }

    /// Returns this stream with other tags of its tasks.
    fn tagged(&self, stream: millstream::Stream) -> Self {
        Self {
            submitter: Submitter::new(stream, self.submitter.waits()),
            origin: self.origin.clone(),
            request: self.request.clone(),
        }
    }

    /// Creates a buffer with the elements of the host. If `copies`, reads them within this call.
    fn upload(&self, py: Python<'_>, input: Input, copies: bool) -> PyResult<Buffer> {
        let Input { held, dtype, shape } = input;
        let handle = self.send(
            py,
            (held, copies),
            millstream::Stream::create,
            millstream::Stream::create_from,
        )?;
        Ok(self.buffer(handle, dtype, shape.into()))
    }

    /// Sends memory of the host: `copy` copies it within this call, `keep` takes it until the upload has ended.
    fn send<R: Send>(
        &self,
        py: Python<'_>,
        (held, copies): (HeldBuffer, bool),
        copy: impl Fn(&millstream::Stream, &[u8]) -> Result<R, Error> + Send,
        keep: impl Fn(&millstream::Stream, HeldBuffer) -> Result<R, Returned<HeldBuffer>> + Send,
    ) -> PyResult<R> {
        if copies {
            let bytes = held.slice();
            let attempt = move |stream: &millstream::Stream| copy(stream, bytes);
            let sent = self.submitter.submit_bytes(py, bytes.len(), attempt);
            held.release(py);
            return sent;
        }
        let mut held = Some(held);
        self.submitter.submit(py, move |stream| match held.take() {
            Some(taken) => keep(stream, taken).map_err(|returned| {
                held = Some(returned.value);
                returned.error
            }),
            None => Err(Error::Taken),
        })
    }

    fn buffer(&self, handle: Handle<u8>, dtype: DType, shape: Arc<[usize]>) -> Buffer {
        Buffer::new(handle, dtype, shape, self.origin.clone())
    }
}

#[pymethods]
impl Stream {
    /// `(data: Data, dtype: DTypeLike | None = None, *, copy: bool = True) -> Buffer`
    ///
    /// Allocates device memory with a copy of `data`.
    ///
    /// A C-contiguous array of the right type is read in place; anything else NumPy converts first.
    ///
    /// :param data: an object with the buffer protocol, such as an array of NumPy, or with DLPack; or what `numpy.asarray`
    ///     takes
    /// :param dtype: the element type; the default is that of `data`
    /// :param copy: if false, `data` is not copied by this call but read until the upload has ended: the caller must not
    ///     change it before a later answer of the stream has arrived. Elements that NumPy converts are read from the
    ///     result. Elements with strides are refused.
    /// :raises BufferError: `copy` is false, and the elements are not contiguous
    /// :raises OutOfMemory: the limit of the client, or of the device, is exceeded
    #[pyo3(signature = (data, dtype=None, *, copy=true))]
    fn create(
        &self,
        data: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        copy: bool,
    ) -> PyResult<Buffer> {
        let py = data.py();
        let dtype = dtype.map(element::parse).transpose()?;
        self.upload(py, Input::of(data, dtype, copy)?, copy)
    }

    /// `(x: SupportsDLPack, /, *, copy: bool | None = None) -> Buffer`
    ///
    /// Allocates device memory with the elements of an array of any library with DLPack, of NumPy for example.
    ///
    /// :param x: an array in host memory, or one whose library copies it there on request
    /// :param copy: if true, the elements are read within this call. Otherwise they are read in place until the upload has
    ///     ended, as with `create(.., copy=False)`: the caller must not change them before a later answer of the stream has
    ///     arrived. Elements with strides are copied within this call, unless `copy` is false.
    /// :raises BufferError: `copy` is false, and the elements are not contiguous
    /// :raises ArgumentError: the memory, or the element type, cannot be read
    #[expect(
        clippy::wrong_self_convention,
        reason = "the name of the array API standard"
    )]
    #[pyo3(signature = (x, /, *, copy=None))]
    fn from_dlpack(&self, x: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Buffer> {
        let tensor = DlTensor::of(x)?;
        if copy == Some(false) && !tensor.is_contiguous() {
            return Err(has_strides("copy=None"));
        }
        let py = x.py();
        self.upload(py, Input::of_tensor(py, tensor)?, copy == Some(true))
    }

    /// `(shape: Shape, dtype: DTypeLike) -> Buffer`
    ///
    /// Allocates device memory with undefined contents.
    ///
    /// :param shape: a number of elements, or the lengths of all axes
    fn empty(&self, py: Python<'_>, shape: Shape, dtype: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let (shape, dtype) = (shape.axes(), element::parse(dtype)?);
        let bytes = bytes_of(&shape, dtype.size())?;
        let handle = self
            .submitter
            .submit(py, |stream| stream.empty::<u8>(bytes))?;
        Ok(self.buffer(handle, dtype, shape))
    }

    /// `(shape: Shape, dtype: DTypeLike) -> Buffer`
    ///
    /// Allocates device memory that is filled with zeros.
    fn zeros(&self, py: Python<'_>, shape: Shape, dtype: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let buffer = self.empty(py, shape, dtype)?;
        self.submitter
            .submit(py, |stream| stream.fill(&buffer.handle, 0))?;
        Ok(buffer)
    }

    /// `(buffer: Buffer, value: complex | bool | np.generic) -> None`
    ///
    /// Sets every element to a value.
    fn fill(&self, buffer: &Buffer, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let bits = element::bits_of(buffer.dtype, value)?;
        let size = buffer.dtype.size();
        self.submitter
            .submit(py, |stream| fill_with!(stream, &buffer.handle, size, bits))
    }

    /// `(buffer: Buffer, data: Data, *, copy: bool = True) -> None`
    ///
    /// Overwrites a buffer with an array of as many elements. `copy` is as in `create`.
    #[pyo3(signature = (buffer, data, *, copy=true))]
    fn write(&self, buffer: &Buffer, data: &Bound<'_, PyAny>, copy: bool) -> PyResult<()> {
        let py = data.py();
        let input = Input::of(data, Some(buffer.dtype), copy)?;
        #[allow(
            clippy::result_large_err,
            reason = "a refused upload gives the memory back"
        )]
        self.send(
            py,
            (input.held, copy),
            |stream, bytes| stream.write(&buffer.handle, bytes),
            |stream, held| stream.write_from(&buffer.handle, held),
        )
    }

    /// `(source: Buffer, target: Buffer) -> None`
    ///
    /// Copies a buffer to another of the same size in bytes.
    fn copy(&self, py: Python<'_>, source: &Buffer, target: &Buffer) -> PyResult<()> {
        self.submitter
            .submit(py, |stream| stream.copy(&source.handle, &target.handle))
    }

    /// `(buffer: Buffer) -> Pending[AnyArray]`
    /// `(buffer: Buffer, *, out: npt.NDArray[Any]) -> Pending[AnyArray]`
    ///
    /// Reads a buffer after all tasks added so far. The answer is an array of its shape, without a further copy.
    ///
    /// :param out: a contiguous, writable array of this type and size that receives the elements, and is the answer. It
    ///     is written at any time until the answer arrives, also if the answer is dropped.
    #[pyo3(signature = (buffer, *, out=None))]
    fn read(
        &self,
        py: Python<'_>,
        buffer: &Buffer,
        out: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let elements = buffer.elements();
        let (array, shape) = match out {
            Some(out) => (out.clone(), None),
            // Of one axis: an array without axes has no shape by the buffer protocol.
            None => {
                let array = element::empty_array(py, buffer.dtype, elements)?;
                (array, Some(buffer.shape.clone()))
            }
        };
        let exported = output(&array, buffer.dtype, elements)?;
        let landing = Arc::new(Landing::new(HeldBuffer::new(exported)));
        let pending = self.submitter.submit(py, |stream| {
            // SAFETY: the landing holds the buffer of the array. Rust does not access it, and Python gets an array of ours
            // once the answer has arrived; that it does not write `out` meanwhile is documented.
            let pending = unsafe { stream.read_to_landing(&buffer.handle, landing.clone()) };
            pending.submitted()
        })?;
        let array = Arc::new(array.unbind());
        let pending = Pending::new(pending, move |_| {
            let (array, shape) = (array.clone(), shape.clone());
            Box::new(move |py| match &shape {
                Some(shape) => array.call_method1(py, "reshape", (PyTuple::new(py, &**shape)?,)),
                None => Ok(array.clone_ref(py)),
            })
        });
        Ok(pending.with_cancel(self.request.clone()))
    }

    /// `(kernel: Kernel, count: Count, *args: Buffer | complex | bool | np.generic) -> None`
    ///
    /// Runs a kernel.
    ///
    /// :param count: the number of cubes, along one to three axes; `millstream.cover` computes it
    /// :param args: the arguments of the kernel, in order: buffers and numbers
    /// :raises ArgumentError: the arguments do not fit; what fails later is raised by readers of what the launch writes
    #[pyo3(signature = (kernel, count, *args))]
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, Kernel>,
        count: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let (kernel, count) = (kernel.get(), count_of(count)?);
        let packed = pack(kernel, args, |_, _, _| Ok(false))?;
        let (bindings, words) = (packed.bindings.as_slice(), packed.words.as_slice());
        self.submitter.submit(py, |stream| {
            stream.launch_words(&kernel.handle, &count, bindings, words)
        })
    }

    /// `(recording: Recording, buffers: Mapping[Buffer, Buffer] | None = None, values: Mapping[ScalarParameter,
    /// float | int] | None = None) -> None`
    ///
    /// Replays a recording as one task.
    ///
    /// :param buffers: the buffers that take the places of parameters
    /// :param values: the numbers that take the places of scalar parameters
    #[pyo3(signature = (recording, buffers=None, values=None))]
    fn replay(
        &self,
        py: Python<'_>,
        recording: &Recording,
        buffers: Option<&Bound<'_, PyDict>>,
        values: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        replay(py, &self.submitter, recording, buffers, values)
    }

    /// `() -> Recorder`
    ///
    /// Starts a recording. Nothing runs.
    fn recorder(&self) -> Recorder {
        Recorder::new(self.submitter.stream().clone(), self.origin.clone())
    }

    /// `() -> Pending[None]`
    ///
    /// Returns an answer that arrives once all tasks added so far have completed.
    fn sync(&self, py: Python<'_>) -> PyResult<Pending> {
        let pending = self
            .submitter
            .submit(py, |stream| stream.sync().submitted())?;
        Ok(Pending::nothing(pending).with_cancel(self.request.clone()))
    }

    /// `() -> Pending[list[str]]`
    ///
    /// Returns an answer with what the kernels of all tasks added so far have printed, in order, each line once:
    /// `saxpy thread 17 (kernels.py:8): x = 3.0`. A task has at most 1,000 lines, those of its first threads. The CPU and
    /// the simulator print; other devices refuse to prepare a kernel that does.
    fn printed(&self, py: Python<'_>) -> PyResult<Pending> {
        let pending = self
            .submitter
            .submit(py, |stream| stream.printed().submitted())?;
        let pending = Pending::new(pending, |lines| {
            let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
            Box::new(move |py| Ok(PyList::new(py, &lines)?.into_any().unbind()))
        });
        Ok(pending.with_cancel(self.request.clone()))
    }

    /// `() -> ProfileScope`
    ///
    /// Starts a profile of all tasks that any thread submits to this stream, until it is ended.
    ///
    ///     with stream.profile() as profile:
    ///         stream.fill(buffer, 0)
    ///     print(profile.end().wait())  # or `await profile.end()`
    fn profile(&self, py: Python<'_>) -> PyResult<ProfileScope> {
        let token = self
            .submitter
            .submit(py, millstream::Stream::start_profile)?;
        Ok(ProfileScope::new(token, self.submitter.stream().clone()))
    }

    /// `() -> None`
    ///
    /// Submits the tasks that the stream batches; it does so itself when the device is idle.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.submitter.submit(py, millstream::Stream::flush)
    }

    /// `(token: CancelToken) -> Stream`
    ///
    /// Returns the same stream, with tasks that the token can withdraw until they begin.
    fn with_cancel(&self, token: &CancelToken) -> Self {
        self.tagged(self.submitter.stream().with_cancel(&token.0))
    }

    /// `(seconds: float) -> Stream`
    ///
    /// Returns the same stream, with tasks that are withdrawn if they have not begun in this time.
    fn with_deadline(&self, seconds: f64) -> PyResult<Self> {
        // `max` would turn a NaN to 0.
        let time = Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds });
        let end = time.ok().and_then(|time| Instant::now().checked_add(time));
        let Some(end) = end else {
            return Err(argument_error(format!("{seconds} s is no deadline")));
        };
        Ok(self.tagged(self.submitter.stream().with_deadline(end)))
    }

    /// `() -> Stream`
    ///
    /// Returns the same stream with calls that never wait: if there is no room they raise `Busy`, and nothing is
    /// submitted. For event loops, and for services that refuse requests instead of queueing them.
    fn nowait(&self) -> Self {
        Self {
            submitter: Submitter::new(self.submitter.stream().clone(), false),
            origin: self.origin.clone(),
            request: self.request.clone(),
        }
    }

    /// `() -> Stream`
    ///
    /// Returns the same stream for one request: cancelling a task that awaits one of its answers withdraws all tasks
    /// of the request that have not begun.
    fn request(&self) -> Self {
        let token = millstream::CancelToken::new();
        Self {
            request: Some(token.clone()),
            ..self.tagged(self.submitter.stream().with_cancel(&token))
        }
    }

    /// `() -> bool`
    ///
    /// Withdraws the tasks of a `request` that have not begun. Returns `False` if the stream is no request.
    fn cancel(&self) -> bool {
        if let Some(token) = &self.request {
            token.cancel();
        }
        self.request.is_some()
    }

    fn __repr__(&self) -> String {
        let client = self.origin.client.properties();
        let name = self.submitter.stream().client().name();
        format!("Stream(client={name:?}, device='{}')", client.backend)
    }
}

/// Withdraws tasks that have not begun: `Stream.with_cancel`.
///
/// ```text
/// def __new__(cls) -> Self
/// ```
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct CancelToken(pub(crate) millstream::CancelToken);

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> Self {
        Self(millstream::CancelToken::new())
    }

    /// `() -> None`
    fn cancel(&self) {
        self.0.cancel();
    }

    /// `-> bool`
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// `() -> dict[str, int]`
    ///
    /// Returns how many tasks were accepted, withdrawn, finished, are running, and run on after the cancel.
    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tally = self.0.tally();
        Ok(dict!(py;
            accepted: tally.accepted, withdrawn: tally.withdrawn, finished: tally.finished,
            running: tally.running, detached: tally.detached,
        ))
    }
}

//! Streams: submitting tasks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{DType, Error, Handle, Returned};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

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
use crate::observe::profile::ProfileScope;
use crate::pending::Pending;
use crate::recording::{Recorder, Recording, replay};
use crate::submit::Submitter;

/// A logical order of tasks that any thread may add to.
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

    fn empty(&self, py: Python<'_>, shape: Shape, dtype: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let (shape, dtype) = (shape.axes(), element::parse(dtype)?);
        let bytes = bytes_of(py, &shape, dtype.size())?;
        let handle = self
            .submitter
            .submit(py, |stream| stream.empty::<u8>(bytes))?;
        Ok(self.buffer(handle, dtype, shape))
    }

    fn zeros(&self, py: Python<'_>, shape: Shape, dtype: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        let buffer = self.empty(py, shape, dtype)?;
        self.submitter
            .submit(py, |stream| stream.fill(&buffer.handle, 0))?;
        Ok(buffer)
    }

    fn fill(&self, buffer: &Bound<'_, Buffer>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, buffer) = (value.py(), buffer.get());
        let bits = element::bits_of(buffer.dtype, value)?;
        let size = buffer.dtype.size();
        self.submitter
            .submit(py, |stream| fill_with(&buffer.handle, size, bits, stream))
    }

    #[pyo3(signature = (buffer, data, *, copy=true))]
    fn write(
        &self,
        buffer: &Bound<'_, Buffer>,
        data: &Bound<'_, PyAny>,
        copy: bool,
    ) -> PyResult<()> {
        let (py, buffer) = (data.py(), buffer.get());
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

    fn copy(
        &self,
        py: Python<'_>,
        source: &Bound<'_, Buffer>,
        target: &Bound<'_, Buffer>,
    ) -> PyResult<()> {
        let (source, target) = (source.get(), target.get());
        self.submitter
            .submit(py, |stream| stream.copy(&source.handle, &target.handle))
    }

    #[pyo3(signature = (buffer, *, out=None))]
    fn read(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, Buffer>,
        out: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let buffer = buffer.get();
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

    #[pyo3(signature = (recording, buffers=None, values=None))]
    fn replay(
        &self,
        py: Python<'_>,
        recording: &Bound<'_, Recording>,
        buffers: Option<&Bound<'_, PyDict>>,
        values: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        replay(py, &self.submitter, recording.get(), buffers, values)
    }

    fn recorder(&self) -> Recorder {
        Recorder::new(self.submitter.stream().clone(), self.origin.clone())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<Pending> {
        let pending = self
            .submitter
            .submit(py, |stream| stream.sync().submitted())?;
        Ok(Pending::nothing(pending).with_cancel(self.request.clone()))
    }

    fn profile(&self, py: Python<'_>) -> PyResult<ProfileScope> {
        let token = self
            .submitter
            .submit(py, millstream::Stream::start_profile)?;
        Ok(ProfileScope::new(token, self.submitter.stream().clone()))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.submitter.submit(py, millstream::Stream::flush)
    }

    fn with_cancel(&self, token: &Bound<'_, CancelToken>) -> Self {
        self.tagged(self.submitter.stream().with_cancel(&token.get().0))
    }

    fn with_deadline(&self, py: Python<'_>, seconds: f64) -> PyResult<Self> {
        // `max` would turn a NaN to 0.
        let time = Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds });
        let end = time.ok().and_then(|time| Instant::now().checked_add(time));
        let Some(end) = end else {
            return Err(argument_error(py, format!("{seconds} s is no deadline")));
        };
        Ok(self.tagged(self.submitter.stream().with_deadline(end)))
    }

    fn nowait(&self) -> Self {
        Self {
            submitter: Submitter::new(self.submitter.stream().clone(), false),
            origin: self.origin.clone(),
            request: self.request.clone(),
        }
    }

    fn request(&self) -> Self {
        let token = millstream::CancelToken::new();
        Self {
            request: Some(token.clone()),
            ..self.tagged(self.submitter.stream().with_cancel(&token))
        }
    }

    /// Withdraws what has not begun of a request. Returns `False` for a stream that is no request.
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

/// Withdraws tasks that have not begun.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct CancelToken(pub(crate) millstream::CancelToken);

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> Self {
        Self(millstream::CancelToken::new())
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tally, all) = (self.0.tally(), PyDict::new(py));
        all.set_item("accepted", tally.accepted)?;
        all.set_item("withdrawn", tally.withdrawn)?;
        all.set_item("finished", tally.finished)?;
        all.set_item("running", tally.running)?;
        all.set_item("detached", tally.detached)?;
        Ok(all)
    }
}

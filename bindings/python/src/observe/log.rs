//! Submission logs: what a device has admitted, in a file, and its repetition on any device.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream::journal::RESUBMITTED_TASKS_MAX;
use millstream::{
    ComputeClient, KernelHandle,
    journal::{Digest, LogError, LoggedReadback, ReplayError},
};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{caused, exception, named};
use crate::kernel::Kernel;
use crate::metrics::dict;

/// What a device has admitted, in its order: `Device.take_log`. `Device.resubmit` submits it again, on any device.
///
/// ```text
/// def __len__(self) -> int
///     Returns the number of entries.
/// def __eq__(self, other: object) -> bool
/// ```
#[pyclass(frozen, module = "millstream")]
pub(crate) struct SubmissionLog(Mutex<millstream::journal::SubmissionLog>);

impl SubmissionLog {
    pub(crate) fn new(log: millstream::journal::SubmissionLog) -> Self {
        Self(Mutex::new(log))
    }

    fn locked(&self, py: Python<'_>) -> MutexGuard<'_, millstream::journal::SubmissionLog> {
        // A panic cannot leave the log in a bad state: an append that fails changes nothing.
        let locked = self.0.lock_py_attached(py);
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the log in its file format.
    fn encoded(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        let written = self.locked(py).write_to(&mut bytes);
        written.map_err(log_error)?;
        Ok(bytes)
    }

    fn copy(&self, py: Python<'_>) -> millstream::journal::SubmissionLog {
        self.locked(py).clone()
    }
}

#[pymethods]
impl SubmissionLog {
    /// `(path: str | PathLike[str]) -> SubmissionLog`
    ///
    /// Reads a file that `save` has written.
    ///
    /// :raises OSError: the file cannot be read
    /// :raises LogError: the file is no log, is damaged, or of another version
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let data = py.detach(|| fs::read(path))?;
        Self::from_bytes(&data)
    }

    /// `(data: bytes) -> SubmissionLog`
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let read = millstream::journal::SubmissionLog::read_from(data);
        read.map(Self::new).map_err(log_error)
    }

    /// `(path: str | PathLike[str]) -> None`
    ///
    /// Writes the log to a file.
    ///
    /// :raises OSError: the file cannot be written
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let data = self.encoded(py)?;
        Ok(py.detach(|| fs::write(path, data))?)
    }

    /// `() -> bytes`
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.encoded(py)?))
    }

    /// `(following: SubmissionLog) -> None`
    ///
    /// Appends the part that the next call of `Device.take_log` has returned.
    ///
    /// :raises LogError: it does not follow, or the end of this log is missing
    fn append(&self, py: Python<'_>, following: &Self) -> PyResult<()> {
        // A copy, since both may be the same log.
        let following = following.copy(py);
        let appended = self.locked(py).append(&following);
        appended.map_err(log_error)
    }

    /// `() -> None`
    ///
    /// Accepts that the last entries are missing, so that the log can be submitted again.
    fn accept_cut(&self, py: Python<'_>) {
        self.locked(py).accept_cut();
    }

    /// `-> str`
    #[getter]
    fn backend(&self, py: Python<'_>) -> String {
        self.locked(py).backend().to_owned()
    }

    /// `-> bool`
    ///
    /// Whether no entry is missing at the end: the log of the device was never full.
    #[getter]
    fn complete(&self, py: Python<'_>) -> bool {
        self.locked(py).is_complete()
    }

    /// `-> tuple[int, int]`
    ///
    /// The numbers of the first and the last part of the device's log that this has, from 0.
    #[getter]
    fn parts(&self, py: Python<'_>) -> (u32, u32) {
        let parts = self.locked(py).parts();
        (*parts.start(), *parts.end())
    }

    /// `-> int`
    ///
    /// The size in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> u64 {
        self.locked(py).size()
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.locked(py).len() as usize
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> bool {
        let other = other.copy(py);
        *self.locked(py) == other
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let log = self.locked(py);
        format!(
            "<SubmissionLog: {} entries of {}>",
            log.len(),
            log.backend()
        )
    }
}

/// Submits a log again, on any device. Blocks, detached, until the last readback has arrived.
pub(crate) fn resubmit<'py>(
    py: Python<'py>,
    client: &ComputeClient,
    log: &SubmissionLog,
    kernels: &[Bound<'py, Kernel>],
    max_tasks: Option<u64>,
) -> PyResult<Bound<'py, PyAny>> {
    let log = log.copy(py);
    let kernels: Vec<KernelHandle> = kernels
        .iter()
        .map(|kernel| kernel.get().handle.clone())
        .collect();
    let tasks_max = max_tasks.unwrap_or(RESUBMITTED_TASKS_MAX);
    let mut readbacks = Vec::new();
    let submit = || client.resubmit_at_most(tasks_max, &log, &kernels, |read| readbacks.push(read));
    match py.detach(submit) {
        Ok(digest) => object(py, &readbacks, digest),
        Err(ReplayError::Refused { entry, error }) => {
            let message = format!("entry {entry} of the log was refused");
            Err(caused(named("ReplayError", message), exception(error)))
        }
        Err(error) => Err(named("ReplayError", error.to_string())),
    }
}

/// Returns a `millstream.Replayed`.
fn object<'py>(
    py: Python<'py>,
    readbacks: &[LoggedReadback],
    digest: Digest,
) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("millstream._reports")?;
    let class = module.getattr("Readback")?;
    let readbacks = readbacks.iter().map(|readback| {
        let (data, failure) = match &readback.bytes {
            Ok(bytes) => (Some(PyBytes::new(py, bytes)), None),
            Err(error) => (None, Some(exception(error).into_value(py))),
        };
        let fields = dict!(py; tag: readback.tag, data: data, failure: failure);
        class.call((), Some(&fields))
    });
    let readbacks = PyTuple::new(py, readbacks.collect::<PyResult<Vec<_>>>()?)?;
    let digest = digest.to_string();
    module.getattr("Replayed")?.call1((readbacks, digest))
}

fn log_error(error: LogError) -> PyErr {
    match error {
        LogError::Io(error) => error.into(),
        error => named("LogError", error.to_string()),
    }
}

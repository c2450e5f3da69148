//! Clients of a device, of which each device is one.

use std::sync::Arc;

use millstream::{ComputeClient, Error, report::ProfileToken};
use pyo3::prelude::*;

use crate::errors::exception;
use crate::exchange::origin::Origin;
use crate::held::detached;
use crate::kernel::{self, Kernel};
use crate::metrics::{memory_dict, metrics_dict};
use crate::observe::log::{self, SubmissionLog};
use crate::observe::profile::ProfileScope;
use crate::pending::Pending;
use crate::stream::Stream;

/// Submits under a name, with limits of its own. `Device.client` makes it; a `Device` is one, too, without limits.
#[pyclass(frozen, weakref, subclass, module = "millstream")]
pub(crate) struct Client {
    pub(crate) client: ComputeClient,
    pub(crate) origin: Arc<Origin>,
}

#[pymethods]
impl Client {
    /// `() -> Stream`
    ///
    /// Makes a stream. Costs one message, so make as many as there are orders of tasks.
    fn stream(&self, py: Python<'_>) -> Stream {
        let stream = detached(py, || self.client.new_stream());
        Stream::new(stream, self.origin.clone())
    }

    /// `(definition: Definition) -> Kernel`
    ///
    /// Prepares a kernel: compiles it for this device. Blocks meanwhile, without the interpreter's lock.
    ///
    /// :raises CompileError: the compiler refused it
    /// :raises KernelError: the device has no compiler for its sources, or lacks a feature
    fn kernel(&self, definition: &Bound<'_, PyAny>) -> PyResult<Kernel> {
        kernel::prepare(&self.client, definition)
    }

    /// `() -> Pending[None]`
    fn sync(&self, py: Python<'_>) -> Pending {
        Pending::nothing(detached(py, || self.client.sync()))
    }

    /// `() -> Pending[dict[str, Any]]`
    ///
    /// Returns everything that the device counts and measures, as plain numbers. Names end with their units.
    fn metrics(&self, py: Python<'_>) -> Pending {
        let pending = detached(py, || self.client.metrics());
        Pending::new(pending, |found| {
            Box::new(move |py| Ok(metrics_dict(py, &found)?.into_any().unbind()))
        })
    }

    /// `() -> Pending[dict[str, int]]`
    ///
    /// Returns the memory in use, in bytes.
    fn memory(&self, py: Python<'_>) -> Pending {
        let pending = detached(py, || self.client.memory_usage());
        Pending::new(pending, |found| {
            Box::new(move |py| Ok(memory_dict(py, &found)?.into_any().unbind()))
        })
    }

    /// `() -> ProfileScope`
    fn profile(&self, py: Python<'_>) -> PyResult<ProfileScope> {
        profile_of(py, &self.client, || self.client.start_profile())
    }

    /// `(log: SubmissionLog, kernels: Sequence[Kernel] = (), *, max_tasks: int | None = None) -> Replayed`
    ///
    /// Submits a log again, and waits for all its readbacks. Ctrl-C does not end this wait.
    ///
    /// :param kernels: the kernels that the log launches, prepared for this device; they are found by their names
    /// :param max_tasks: nothing is submitted if the log has more tasks; 2**30 by default. A replay counts as the tasks of
    ///     its recording, so that a small log may have very many: choose less for a log that is not trusted
    /// :raises ReplayError: the log cannot be submitted here; the message says what is missing
    #[pyo3(signature = (log, kernels=vec![], *, max_tasks=None))]
    fn resubmit<'py>(
        &self,
        py: Python<'py>,
        log: &SubmissionLog,
        kernels: Vec<Bound<'py, Kernel>>,
        max_tasks: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        log::resubmit(py, &self.client, log, &kernels, max_tasks)
    }

    /// `-> str`
    #[getter]
    fn name(&self) -> &str {
        self.client.name()
    }

    fn __repr__(&self) -> String {
        format!("Client({:?})", self.client.name())
    }
}

/// Starts a profile, detached, which is ended by a stream of its own.
pub(crate) fn profile_of(
    py: Python<'_>,
    client: &ComputeClient,
    start: impl FnOnce() -> Result<ProfileToken, Error> + Send,
) -> PyResult<ProfileScope> {
    let started = detached(py, || start().map(|token| (token, client.new_stream())));
    let (token, stream) = started.map_err(exception)?;
    Ok(ProfileScope::new(token, stream))
}

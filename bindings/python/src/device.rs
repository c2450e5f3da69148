//! Devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millstream::{Error, Health, Priority, device::AtLimit, error::ReopenError, report::Report};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::client::{Client, profile_of};
use crate::errors::{exception, named};
use crate::exchange::origin::Origin;
use crate::held::{detached, release_dropped};
use crate::metrics::dict;
use crate::observe::log::SubmissionLog;
use crate::observe::profile::ProfileScope;
use crate::observe::timeline::Timeline;
use crate::options::{Opened, Options, given, named_option};
use crate::pending::{Pending, deadline_of};

/// How long a close without a time limit may take, after all work has completed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The most views that the error of a close names.
const MAX_SHOWN: usize = 8;

/// See `millstream.Device`.
///
/// ```text
/// def __new__(cls, options: Mapping[str, Any]) -> Self
/// ```
#[pyclass(extends = Client, frozen, subclass, module = "millstream")]
pub(crate) struct Device {
    /// `Some` until the drop.
    opened: Option<Opened>,
    origin: Arc<Origin>,
    is_closed: AtomicBool,
}

impl Device {
    fn device(&self) -> &millstream::Device {
        match &self.opened {
            Some(opened) => &opened.device,
            None => unreachable!("a device is present until it is dropped"),
        }
    }
}

impl Drop for Device {
    /// A drop waits for the work in flight, which the interpreter must not do inside of a deallocation: another thread
    /// does it.
    fn drop(&mut self) {
        let opened = self.opened.take();
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let close = move || drop(opened);
        // If no thread can be started, the closure has been dropped, and the device with it.
        let _ = thread::Builder::new()
            .name("millstream-close".into())
            .spawn(close);
    }
}

impl Device {
    /// Refuses to wait for arrays that are still in use: the wait would not end.
    fn check_no_pins(&self, py: Python<'_>) -> PyResult<()> {
        if self.origin.uses().is_empty() {
            return Ok(());
        }
        // Arrays in cycles are no longer in use.
        py.import("gc")?.call_method0("collect")?;
        let uses = self.origin.uses();
        if uses.is_empty() {
            return Ok(());
        }
        let shown = uses.iter().take(MAX_SHOWN).map(|used| used.describe());
        let shown: Vec<_> = shown.collect();
        let rest = if uses.len() > MAX_SHOWN { ", .." } else { "" };
        Err(PyBufferError::new_err(format!(
            "exports of the device's memory in use: {}: {}{rest}; drop the arrays and views of these buffers first, \
             release mapped buffers, or pass a `timeout`",
            uses.len(),
            shown.join(", ")
        )))
    }
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (options))]
    fn new(py: Python<'_>, options: Options) -> PyResult<PyClassInitializer<Self>> {
        let opened = options.open(py)?;
        let client = opened.device.new_client();
        let origin = Origin::new(client.clone(), opened.place);
        let base = Client {
            client,
            origin: origin.clone(),
        };
        Ok(PyClassInitializer::from(base).add_subclass(Self {
            opened: Some(opened),
            origin,
            is_closed: AtomicBool::new(false),
        }))
    }

    /// `(*, name: str | None = None, hard_limit: int | None = None, at_limit: Literal["fail", "wait"] = "fail",
    /// soft_limit: int | None = None, priority: Priority = "normal", weight: int = 1, max_tasks: int | None = None,
    /// max_upload_bytes: int | None = None) -> Client`
    ///
    /// Makes a client with limits of its own.
    ///
    /// :param name: the name in errors and figures
    /// :param hard_limit: the most bytes of its buffers; beyond it calls raise `OutOfMemory`, or wait for buffers that
    ///     are no longer used. A buffer above the whole limit raises `TooLarge`
    /// :param at_limit: what a call does if buffers that are still used leave no room: `"fail"` raises `OutOfMemory`,
    ///     `"wait"` waits in order, at most until the deadline of the stream, and then raises `Busy`, as a `nowait`
    ///     stream does at once
    /// :param soft_limit: the bytes of its buffers before other clients take precedence
    /// :param weight: its share among clients of the same priority
    /// :param max_tasks: tasks that are accepted and not issued; beyond it calls wait
    /// :param max_upload_bytes: bytes of uploads in flight; beyond it calls wait
    #[pyo3(signature = (*, name=None, hard_limit=None, at_limit="fail", soft_limit=None, priority="normal", weight=1, max_tasks=None, max_upload_bytes=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn client(
        &self,
        name: Option<String>,
        hard_limit: Option<u64>,
        at_limit: &str,
        soft_limit: Option<u64>,
        priority: &str,
        weight: u32,
        max_tasks: Option<u64>,
        max_upload_bytes: Option<u64>,
    ) -> PyResult<Client> {
        let priorities = [
            ("low", Priority::Low),
            ("normal", Priority::Normal),
            ("high", Priority::High),
        ];
        let limits = [("fail", AtLimit::Fail), ("wait", AtLimit::Wait)];
        let builder = self
            .device()
            .client_builder()
            .weight(weight)
            .priority(named_option("priority", priority, &priorities)?)
            .at_limit(named_option("at_limit", at_limit, &limits)?);
        let builder = given!(builder; name hard_limit soft_limit max_tasks max_upload_bytes);
        Ok(Client {
            client: builder.build(),
            origin: self.origin.clone(),
        })
    }

    /// `() -> Pending[None]`
    ///
    /// Returns an answer that arrives once everything that was submitted before has completed.
    fn sync(&self, py: Python<'_>) -> Pending {
        Pending::nothing(detached(py, || self.device().sync()))
    }

    /// `() -> ProfileScope`
    ///
    /// Starts a profile of all tasks of the device: see `Stream.profile`.
    fn profile(&self, py: Python<'_>) -> PyResult<ProfileScope> {
        profile_of(py, &self.origin.client, || self.device().start_profile())
    }

    /// `() -> Timeline`
    ///
    /// Takes the times of the tasks since the last call. Empty unless the device was opened with `trace`. Waits for one
    /// answer of the device.
    fn timeline(&self, py: Python<'_>) -> PyResult<Timeline> {
        let spans = detached(py, || self.device().trace());
        spans.map(Timeline).map_err(exception)
    }

    /// `() -> SubmissionLog`
    ///
    /// Takes what the device has admitted since the last call. Waits for one answer of the device.
    ///
    /// The parts that several calls return make one log (`SubmissionLog.append`). After a loss one more call returns what
    /// was admitted until then, before the device is reopened.
    ///
    /// :raises Error: the device was opened without `log_submissions`
    fn take_log(&self, py: Python<'_>) -> PyResult<SubmissionLog> {
        let log = detached(py, || self.device().take_log());
        log.map(SubmissionLog::new).map_err(exception)
    }

    /// `() -> dict[str, Any]`
    ///
    /// Opens a lost device again, with the same options. Returns what the lost epoch left behind, as `close` does.
    ///
    /// Clients go on. Streams, buffers, kernels and recordings of the lost epoch raise `DeviceLost`: make them anew. Waits
    /// while the device is opened, and before that for up to a second while user code of the lost epoch runs.
    ///
    /// :raises ReopenError: the device is not lost, or only another process can open it again
    /// :raises OpenError: it cannot be opened now; try again
    fn reopen<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match detached(py, || self.device().reopen()) {
            Ok(report) => report_dict(py, &report),
            Err(ReopenError::Open(error)) => Err(exception(Error::Open(error))),
            Err(error) => Err(named("ReopenError", error.to_string())),
        }
    }

    /// `-> str`
    #[getter]
    fn backend(&self) -> &'static str {
        self.device().properties().backend
    }

    /// `-> str`
    #[getter]
    fn name(&self) -> &str {
        &self.device().properties().name
    }

    /// `-> bool`
    #[getter]
    fn closed(&self) -> bool {
        matches!(self.device().health(), Health::Closed)
    }

    /// `-> Literal["running", "lost", "closed"]`
    #[getter]
    fn health(&self) -> &'static str {
        match self.device().health() {
            Health::Running { .. } => "running",
            Health::Lost { .. } => "lost",
            _ => "closed",
        }
    }

    /// `() -> dict[str, Any]`
    ///
    /// Returns the properties and limits of the device; sizes are in bytes.
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let properties = self.device().properties();
        let features = properties.features.iter().map(ToString::to_string);
        Ok(dict!(py;
            backend: properties.backend, name: &properties.name, queues: properties.queues,
            compute_units: properties.compute_units, alignment_bytes: properties.alignment,
            memory_bytes: properties.memory_bytes,
            max_allocation_bytes: properties.max_allocation_bytes,
            max_cube_count: properties.max_cube_count, max_bindings: properties.max_bindings,
            features: features.collect::<Vec<String>>(),
        ))
    }

    /// `() -> list[str]`
    ///
    /// Returns the races and other violations that the simulator has found; empty for other backends.
    fn violations(&self) -> Vec<String> {
        let findings = self
            .opened
            .iter()
            .filter_map(|opened| opened.findings.as_ref());
        let found = findings.flat_map(millstream::sim::Findings::violations);
        found.map(|violation| violation.to_string()).collect()
    }

    /// `(timeout: float | None = None) -> dict[str, Any]`
    ///
    /// Finishes the accepted work, frees the memory, and ends the threads. Returns what was left after `timeout`.
    ///
    /// :param timeout: seconds to wait for the work in flight, and for the arrays that use memory of the device. What is
    ///     left then ends later; the arrays stay valid.
    /// :raises BufferError: arrays use memory of the device, and `timeout` is not given
    #[pyo3(signature = (timeout=None))]
    fn close<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        if timeout.is_none() && !self.closed() {
            self.check_no_pins(py)?;
        }
        let deadline = deadline_of(timeout);
        // The wait for the work runs signal handlers; the close itself cannot.
        let waited = match self.health() {
            "running" => self.sync(py).wait_until(py, deadline),
            _ => Ok(true),
        };
        let left = match (&waited, deadline) {
            (Err(_), _) => Duration::ZERO,
            (_, Some(deadline)) => deadline.saturating_duration_since(Instant::now()),
            (_, None) => CLOSE_TIMEOUT,
        };
        let report = py.detach(|| self.device().close(left));
        self.is_closed.store(report.drained, Ordering::Relaxed);
        release_dropped(py);
        waited?;
        report_dict(py, &report)
    }

    /// `() -> Self`
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// `(kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /) -> None`
    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let has_failed = exception.iter().any(|part| !part.is_none());
        if has_failed && !self.origin.uses().is_empty() {
            // The traceback may keep the arrays. Their memory stays until they are gone, and nothing waits for that.
            return self.close(py, Some(0.0)).map(drop);
        }
        self.close(py, None).map(drop)
    }

    fn __repr__(&self) -> String {
        let properties = self.device().properties();
        format!("Device({:?}, {})", properties.backend, self.health())
    }
}

fn report_dict<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py;
        drained: report.drained, took_seconds: report.took.as_secs_f64(),
        tasks_left: report.tasks_left, slices_held: report.slices_held,
        bytes_freed: report.bytes_freed, bytes_left: report.bytes_left,
        threads_left: report.threads_left,
    ))
}

//! Profiles: the time that tasks take between two calls.

use std::time::Duration;

use millstream::{Error, Profile, ProfileToken};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::exception;
use crate::pending::{Form, Pending, Value};

/// A profile that covers the tasks submitted until it ends. Ends with its `with` block, or when it is dropped.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct ProfileScope {
    token: ProfileToken,
    /// A stream of the device, by which the profile ends.
    stream: millstream::Stream,
    ended: PyOnceLock<Py<Pending>>,
}

impl ProfileScope {
    pub(crate) fn new(token: ProfileToken, stream: millstream::Stream) -> Self {
        Self {
            token,
            stream,
            ended: PyOnceLock::new(),
        }
    }
}

impl Drop for ProfileScope {
    /// Ends a profile that was forgotten, which would go on to cost. If there is no room for that, it stays open, until
    /// it is full.
    fn drop(&mut self) {
        let is_ended = Python::try_attach(|py| self.ended.get(py).is_some());
        if is_ended == Some(false) {
            drop(self.stream.nowait().end_profile(self.token));
        }
    }
}

#[pymethods]
impl ProfileScope {
    fn end(&self, py: Python<'_>) -> PyResult<Py<Pending>> {
        let ended = self.ended.get_or_try_init(py, || {
            let pending = py.detach(|| self.stream.end_profile(self.token));
            let profile = |profile| Value::Profile(Box::new(profile));
            Py::new(py, Pending::new(pending, profile, Form::Plain))
        });
        ended.map(|pending| pending.clone_ref(py))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.end(py).map(drop)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a `millstream.Profile`.
pub(crate) fn object<'py>(py: Python<'py>, profile: &Profile) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("millstream._reports")?;
    let class = module.getattr("KernelProfile")?;
    let kernels = profile.kernels.iter().map(|kernel| {
        let fields = PyDict::new(py);
        fields.set_item("name", &*kernel.name)?;
        fields.set_item("tasks", kernel.tasks)?;
        fields.set_item("timed", kernel.timed)?;
        fields.set_item("total_ns", nanoseconds(kernel.total))?;
        fields.set_item("mean_ns", nanoseconds(kernel.mean()))?;
        fields.set_item("min_ns", nanoseconds(kernel.min))?;
        fields.set_item("max_ns", nanoseconds(kernel.max))?;
        class.call((), Some(&fields))
    });
    let kernels = PyTuple::new(py, kernels.collect::<PyResult<Vec<_>>>()?)?;
    let failure = profile.failure.as_ref().map(|failure| {
        let error = exception(py, &Error::Failed(failure.clone()));
        error.into_value(py)
    });
    let fields = PyDict::new(py);
    fields.set_item("elapsed_ns", nanoseconds(profile.elapsed.duration))?;
    fields.set_item("busy_ns", nanoseconds(profile.busy.duration))?;
    fields.set_item("busy_short_ns", nanoseconds(profile.busy_short))?;
    fields.set_item("calls_ns", nanoseconds(profile.calls.duration))?;
    fields.set_item("clock", profile.busy.clock.to_string())?;
    fields.set_item("tasks", profile.tasks)?;
    fields.set_item("untimed", profile.untimed)?;
    fields.set_item("failed", profile.failed)?;
    fields.set_item("failure", failure)?;
    fields.set_item("is_cut", profile.is_cut)?;
    fields.set_item("kernels", kernels)?;
    fields.set_item("table", profile.to_string())?;
    module.getattr("Profile")?.call((), Some(&fields))
}

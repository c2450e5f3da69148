//! Profiles: the time that tasks take between two calls.

use millstream::report::ProfileToken;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::metrics::profile_object;
use crate::pending::Pending;

/// A profile that is open: `Stream.profile`, `Client.profile` or `Device.profile`. It ends with its ``with`` block.
///
/// A task belongs to each profile that is open when it is submitted, whenever it runs. Profiles nest and overlap, and any
/// thread may end one.
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
    /// `() -> Pending[Profile]`
    ///
    /// Ends the profile, if it is open. The answer arrives once all its tasks have completed.
    fn end(&self, py: Python<'_>) -> PyResult<Py<Pending>> {
        let ended = self.ended.get_or_try_init(py, || {
            let pending = py.detach(|| self.stream.end_profile(self.token));
            let pending = Pending::new(pending, |profile| {
                Box::new(move |py| Ok(profile_object(py, &profile)?.unbind()))
            });
            Py::new(py, pending)
        });
        ended.map(|pending| pending.clone_ref(py))
    }

    /// `() -> Self`
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// `(kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /) -> None`
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.end(py).map(drop)
    }
}

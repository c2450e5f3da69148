//! A warning for waits that may not end: an array that the caller has forgotten holds back the task that is waited for.

use std::ffi::CString;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use super::origin::all_uses;

/// A wait that takes longer, while there are pins, may be for a task that a pin holds back.
const STALLED: Duration = Duration::from_secs(2);

/// Warns once if a wait takes long and may be for a task that a pin holds back: the caller may have forgotten an array.
pub(crate) struct StallWarning(Option<Instant>);

impl StallWarning {
    /// Starts with the wait.
    pub(crate) fn new() -> Self {
        Self(Instant::now().checked_add(STALLED))
    }

    /// Looks, now and then during the wait.
    ///
    /// # Errors
    /// If Python turns warnings into exceptions.
    pub(crate) fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        let uses = all_uses();
        if uses == 0 || self.0.is_none_or(|end| Instant::now() < end) {
            return Ok(());
        }
        self.0 = None;
        let message = format!(
            "waiting for longer than {STALLED:?} while exports of buffers are in use: {uses}; they hold back tasks that \
             write these buffers, and exports after such tasks; drop the arrays and views that are no longer needed"
        );
        let message = CString::new(message)?;
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)
    }
}

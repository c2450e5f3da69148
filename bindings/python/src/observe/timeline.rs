//! Timelines: each task that ran, when, and on which queue.

use std::path::PathBuf;

use millstream::{report::TraceSpan, timeline};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::metrics::dict;

/// The tasks that a device has run since the last call of `Device.timeline`, with their times.
///
/// ```text
/// def __len__(self) -> int
/// ```
#[pyclass(frozen, module = "millstream")]
pub(crate) struct Timeline(pub(crate) Vec<TraceSpan>);

#[pymethods]
impl Timeline {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// `-> list[Span]`
    ///
    /// The tasks, as new objects.
    #[getter]
    fn spans<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let class = py.import("millstream._reports")?.getattr("Span")?;
        let spans = self.0.iter().map(|span| {
            let waits = span.waits.iter().map(|wait| (wait.queue, wait.cursor));
            let waits = PyTuple::new(py, waits.collect::<Vec<_>>())?;
            let fields = dict!(py;
                name: &*span.name, client: &*span.client_name, stream: span.stream,
                queue: span.queue, cursor: span.cursor, start_ns: span.start_ns,
                end_ns: span.end_ns, waits: waits,
            );
            class.call((), Some(&fields))
        });
        PyList::new(py, spans.collect::<PyResult<Vec<_>>>()?)
    }

    /// `() -> str`
    ///
    /// Returns the timeline in the format of Chrome's trace events, which Perfetto (ui.perfetto.dev) shows.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let written = py.detach(|| {
            let mut text = Vec::new();
            timeline::write(&self.0, &mut text).map(|()| text)
        });
        Ok(String::from_utf8(written?)?)
    }

    /// `(path: str | PathLike[str]) -> None`
    ///
    /// Writes `to_json` to a file. ``millstream timeline FILE --picture OUT.svg`` draws it.
    ///
    /// :raises OSError: the file cannot be written
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let text = self.to_json(py)?;
        Ok(py.detach(|| std::fs::write(path, text))?)
    }

    fn __repr__(&self) -> String {
        format!("<Timeline: {} spans>", self.0.len())
    }
}

//! Timelines: each task that ran, when, and on which queue.

use std::io::BufWriter;
use std::path::PathBuf;

use millstream::{report::TraceSpan, timeline};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

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
            let fields = PyDict::new(py);
            fields.set_item("name", &*span.name)?;
            fields.set_item("client", &*span.client_name)?;
            fields.set_item("stream", span.stream)?;
            fields.set_item("queue", span.queue)?;
            fields.set_item("cursor", span.cursor)?;
            fields.set_item("start_ns", span.start_ns)?;
            fields.set_item("end_ns", span.end_ns)?;
            fields.set_item("waits", waits)?;
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
        let written = py.detach(|| {
            let file = BufWriter::new(std::fs::File::create(path)?);
            timeline::write(&self.0, file)
        });
        Ok(written?)
    }

    fn __repr__(&self) -> String {
        format!("<Timeline: {} spans>", self.0.len())
    }
}

//! Figures of a device as dictionaries of plain numbers, and profiles.

use std::time::Duration;

use millstream::metrics::{Histogram, Latencies, Metrics};
use millstream::{
    Error,
    report::{MemoryReport, MemoryUsage, Profile},
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::errors::exception;

/// The quantiles of a histogram that a dictionary has.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];

/// Returns the metrics as a dictionary. Names end with their units; times are in nanoseconds.
pub(crate) fn dict<'py>(py: Python<'py>, metrics: &Metrics) -> PyResult<Bound<'py, PyDict>> {
    let stats = &metrics.stats;
    let all = numbers(
        py,
        &[
            ("epoch", metrics.epoch),
            ("tasks", stats.tasks),
            ("batches", stats.batches),
            ("launches", stats.launches),
            ("waits_issued", stats.waits_issued),
            ("waits_implied", stats.waits_implied),
            ("tasks_parked", stats.tasks_parked),
            ("failures", stats.failures),
            ("withdrawn", stats.withdrawn),
            ("soft_limit_crossings", stats.soft_limit_crossings),
            ("streams", stats.streams),
            ("tasks_held", stats.tasks_held),
            ("mailbox_depth", metrics.mailbox_depth),
            ("mailbox_capacity", metrics.mailbox_capacity),
            ("slices_poisoned", metrics.slices_poisoned),
        ],
    )?;
    all.set_item("memory", usage(py, &stats.memory)?)?;
    let queues = PyList::empty(py);
    for queue in &stats.queues {
        let fields = [
            ("tasks", queue.tasks),
            ("completed", queue.completed),
            ("in_flight", queue.in_flight()),
            ("in_flight_max", queue.in_flight_max),
            ("held", queue.held),
            ("streams", queue.streams),
            ("busy_ns", queue.busy_ns),
        ];
        queues.append(numbers(py, &fields)?)?;
    }
    all.set_item("queues", queues)?;
    all.set_item("batch_sizes", histogram(py, &metrics.batch_sizes)?)?;
    let clients = PyDict::new(py);
    for client in &metrics.clients {
        let fields = [
            ("streams", client.streams),
            ("tasks", client.tasks),
            ("tasks_held", client.tasks_held),
            ("memory_in_use_bytes", client.memory.in_use),
            ("memory_high_water_bytes", client.memory.high_water),
        ];
        clients.set_item(&*client.name, numbers(py, &fields)?)?;
    }
    all.set_item("clients", clients)?;
    all.set_item("faults", numbers(py, &metrics.faults.by_reason())?)?;
    if let Some(latencies) = &metrics.latencies {
        all.set_item("latencies", latency_dict(py, latencies)?)?;
    }
    Ok(all)
}

/// Returns the use of memory as a dictionary.
pub(crate) fn memory_dict<'py>(
    py: Python<'py>,
    report: &MemoryReport,
) -> PyResult<Bound<'py, PyDict>> {
    let all = usage(py, &report.device)?;
    all.set_item("staging_bytes", report.staging)?;
    Ok(all)
}

fn usage<'py>(py: Python<'py>, memory: &MemoryUsage) -> PyResult<Bound<'py, PyDict>> {
    numbers(
        py,
        &[
            ("in_use_bytes", memory.in_use),
            ("reserved_bytes", memory.reserved),
            ("padding_bytes", memory.padding),
            ("waiting_bytes", memory.waiting),
            ("high_water_bytes", memory.high_water),
            ("live_slices", memory.live_slices),
        ],
    )
}

fn latency_dict<'py>(py: Python<'py>, latencies: &Latencies) -> PyResult<Bound<'py, PyDict>> {
    let all = numbers(
        py,
        &[("every", latencies.every), ("missed", latencies.missed)],
    )?;
    all.set_item("queued_ns", histogram(py, &latencies.queued_ns)?)?;
    all.set_item("runs_ns", histogram(py, &latencies.runs_ns)?)?;
    Ok(all)
}

fn histogram<'py>(py: Python<'py>, values: &Histogram) -> PyResult<Bound<'py, PyDict>> {
    let all = numbers(py, &[("count", values.count()), ("sum", values.sum())])?;
    all.set_item("mean", values.mean())?;
    all.set_item("max", values.greatest())?;
    for (name, part) in QUANTILES {
        all.set_item(name, values.quantile(part))?;
    }
    Ok(all)
}

fn numbers<'py>(py: Python<'py>, fields: &[(&str, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, number) in fields {
        all.set_item(name, number)?;
    }
    Ok(all)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a `millstream.Profile`.
pub(crate) fn profile_object<'py>(
    py: Python<'py>,
    profile: &Profile,
) -> PyResult<Bound<'py, PyAny>> {
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
        let error = exception(Error::Failed(failure.clone()));
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

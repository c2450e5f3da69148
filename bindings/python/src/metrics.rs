//! Figures of a device as dictionaries of plain numbers, and profiles.

use std::time::Duration;

use millstream::metrics::{Histogram, Metrics};
use millstream::{
    Error,
    report::{MemoryReport, MemoryUsage, Profile},
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::errors::exception;

/// Makes a dictionary of named values.
macro_rules! dict {
    ($py:expr; $($name:ident: $value:expr),* $(,)?) => {{
        let all = pyo3::types::PyDict::new($py);
        $(all.set_item(stringify!($name), $value)?;)*
        all
    }};
}
pub(crate) use dict;

/// Returns the metrics as a dictionary. Names end with their units; times are in nanoseconds.
pub(crate) fn metrics_dict<'py>(
    py: Python<'py>,
    metrics: &Metrics,
) -> PyResult<Bound<'py, PyDict>> {
    let stats = &metrics.stats;
    let (queues, clients) = (PyList::empty(py), PyDict::new(py));
    for queue in &stats.queues {
        queues.append(dict!(py;
            tasks: queue.tasks, completed: queue.completed, in_flight: queue.in_flight(),
            in_flight_max: queue.in_flight_max, held: queue.held, streams: queue.streams,
            busy_ns: queue.busy_ns,
        ))?;
    }
    for client in &metrics.clients {
        let fields = dict!(py;
            streams: client.streams, tasks: client.tasks, tasks_held: client.tasks_held,
            memory_in_use_bytes: client.memory.in_use,
            memory_high_water_bytes: client.memory.high_water,
        );
        clients.set_item(&*client.name, fields)?;
    }
    let faults = PyDict::new(py);
    for (reason, count) in metrics.faults.by_reason() {
        faults.set_item(reason, count)?;
    }
    let all = dict!(py;
        epoch: metrics.epoch, tasks: stats.tasks, batches: stats.batches,
        launches: stats.launches, waits_issued: stats.waits_issued,
        waits_implied: stats.waits_implied, tasks_parked: stats.tasks_parked,
        failures: stats.failures, withdrawn: stats.withdrawn,
        soft_limit_crossings: stats.soft_limit_crossings, streams: stats.streams,
        tasks_held: stats.tasks_held, mailbox_depth: metrics.mailbox_depth,
        mailbox_capacity: metrics.mailbox_capacity, slices_poisoned: metrics.slices_poisoned,
        memory: usage(py, &stats.memory)?, queues: queues,
        batch_sizes: histogram(py, &metrics.batch_sizes)?, clients: clients, faults: faults,
    );
    if let Some(latencies) = &metrics.latencies {
        all.set_item(
            "latencies",
            dict!(py;
                every: latencies.every, missed: latencies.missed,
                queued_ns: histogram(py, &latencies.queued_ns)?,
                runs_ns: histogram(py, &latencies.runs_ns)?,
            ),
        )?;
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
    Ok(dict!(py;
        in_use_bytes: memory.in_use, reserved_bytes: memory.reserved,
        padding_bytes: memory.padding, waiting_bytes: memory.waiting,
        high_water_bytes: memory.high_water, live_slices: memory.live_slices,
    ))
}

fn histogram<'py>(py: Python<'py>, values: &Histogram) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py;
        count: values.count(), sum: values.sum(), mean: values.mean(), max: values.greatest(),
        p50: values.quantile(0.5), p95: values.quantile(0.95), p99: values.quantile(0.99),
    ))
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
        let fields = dict!(py;
            name: &*kernel.name, tasks: kernel.tasks, timed: kernel.timed,
            total_ns: nanoseconds(kernel.total), mean_ns: nanoseconds(kernel.mean()),
            min_ns: nanoseconds(kernel.min), max_ns: nanoseconds(kernel.max),
        );
        class.call((), Some(&fields))
    });
    let kernels = kernels.collect::<PyResult<Vec<_>>>()?;
    let failure = profile.failure.as_ref().map(|failure| {
        let error = exception(Error::Failed(failure.clone()));
        error.into_value(py)
    });
    let fields = dict!(py;
        elapsed_ns: nanoseconds(profile.elapsed.duration),
        busy_ns: nanoseconds(profile.busy.duration), busy_short_ns: nanoseconds(profile.busy_short),
        calls_ns: nanoseconds(profile.calls.duration), clock: profile.busy.clock.to_string(),
        tasks: profile.tasks, untimed: profile.untimed, failed: profile.failed, failure: failure,
        is_cut: profile.is_cut, kernels: PyTuple::new(py, kernels)?, table: profile.to_string(),
    );
    module.getattr("Profile")?.call((), Some(&fields))
}

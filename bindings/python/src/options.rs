//! The options of a device: keyword arguments of `Device`.

use std::time::Duration;

use millstream::backend::Open;
use millstream::sim::{Faults, Sim};
use millstream::{Cpu, Cuda, DeviceOptions, Error, OpenError, Vulkan};
use pyo3::prelude::*;

use crate::errors::{argument_error, exception};
use crate::exchange::origin::Place;

/// The keyword arguments of `Device`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    pub(crate) backend: String,
    pub(crate) index: usize,
    pub(crate) queues: Option<usize>,
    pub(crate) threads: Option<usize>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) seed: u64,
    pub(crate) mailbox_capacity: Option<usize>,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) max_in_flight_time: Option<f64>,
    pub(crate) max_held: Option<u64>,
    pub(crate) max_upload_bytes: Option<u64>,
    pub(crate) sample_latencies: u64,
    pub(crate) trace: usize,
    pub(crate) log_submissions: u64,
    pub(crate) lost_at_run: Option<u64>,
}

/// An opened device, and what only the simulator has.
pub(crate) struct Opened {
    pub(crate) device: millstream::Device,
    pub(crate) findings: Option<millstream::sim::Findings>,
    pub(crate) place: Place,
}

impl Options {
    /// Opens the device, detached.
    pub(crate) fn open(self, py: Python<'_>) -> PyResult<Opened> {
        self.check()?;
        let opened = py.detach(|| self.open_backend());
        opened.map_err(|error| exception(Error::Open(error)))
    }

    /// Refuses options that the backend does not have.
    fn check(&self) -> PyResult<()> {
        let backend = self.backend.as_str();
        let backends = ["cpu", "sim", "cuda", "vulkan"].map(|name| (name, ()));
        named_option("backend", backend, &backends)?;
        let given = [
            ("index", self.index != 0, &["cuda", "vulkan"][..]),
            ("threads", self.threads.is_some(), &["cpu"]),
            (
                "memory_limit",
                self.memory_limit.is_some(),
                &["cpu", "sim", "vulkan"],
            ),
            ("seed", self.seed != 0, &["sim"]),
            ("lost_at_run", self.lost_at_run.is_some(), &["sim"]),
        ];
        for (option, is_given, backends) in given {
            if is_given && !backends.contains(&backend) {
                let message =
                    format!("backend {backend:?} has no option `{option}`, only {backends:?} have");
                return Err(argument_error(message));
            }
        }
        let seconds = self.max_in_flight_time.unwrap_or(0.0);
        if seconds.is_nan() || seconds < 0.0 {
            let message = format!("max_in_flight_time must be 0 s or more, got {seconds}");
            return Err(argument_error(message));
        }
        Ok(())
    }

    fn open_backend(&self) -> Result<Opened, OpenError> {
        let options = self.device_options();
        match self.backend.as_str() {
            "sim" => {
                let sim = with(Sim::seed(self.seed), self.queues, Sim::queues);
                let sim = with(sim, self.memory_limit, Sim::memory_bytes);
                let lose = |sim: Sim, run| sim.faults(Faults::none().lost_at_run(run));
                let sim = with(sim, self.lost_at_run, lose);
                let findings = sim.findings();
                let opened = open(sim, options, Place::Sim)?;
                Ok(Opened {
                    findings: Some(findings),
                    ..opened
                })
            }
            "cuda" => {
                let cuda = with(Cuda::ordinal(self.index), self.queues, Cuda::queues);
                open(cuda, options, Place::Cuda(self.index))
            }
            "vulkan" => {
                let vulkan = with(Vulkan::ordinal(self.index), self.queues, Vulkan::queues);
                let vulkan = with(vulkan, self.memory_limit, Vulkan::memory_limit);
                open(vulkan, options, Place::Vulkan(self.index))
            }
            _ => {
                let cpu = with(Cpu::default(), self.queues, Cpu::queues);
                let cpu = with(cpu, self.threads, Cpu::threads);
                let cpu = with(cpu, self.memory_limit, Cpu::memory_limit);
                open(cpu, options, Place::Cpu)
            }
        }
    }

    fn device_options(&self) -> DeviceOptions {
        let options = DeviceOptions::default()
            .trace(self.trace)
            .log_submissions(self.log_submissions);
        let options = with(
            options,
            self.mailbox_capacity,
            DeviceOptions::mailbox_capacity,
        );
        let options = with(options, self.max_in_flight, DeviceOptions::max_in_flight);
        // Infinity, which no duration is, measures nothing.
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let time = self.max_in_flight_time.map(time);
        let options = with(options, time, DeviceOptions::max_in_flight_time);
        let options = with(options, self.max_held, DeviceOptions::max_held);
        let options = with(
            options,
            self.max_upload_bytes,
            DeviceOptions::max_upload_bytes,
        );
        let every = (self.sample_latencies > 0).then_some(self.sample_latencies);
        with(options, every, DeviceOptions::sample_latencies)
    }
}

fn open(kind: impl Open, options: DeviceOptions, place: Place) -> Result<Opened, OpenError> {
    Ok(Opened {
        device: millstream::Device::open_with(kind, options)?,
        findings: None,
        place,
    })
}

/// Returns the value of an option that has names.
pub(crate) fn named_option<T: Copy>(option: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == given) {
        return Ok(*value);
    }
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    let message = format!("{option} must be one of {names:?}, got {given:?}");
    Err(argument_error(message))
}

/// Sets an option that was given.
pub(crate) fn with<B, V>(builder: B, value: Option<V>, set: impl FnOnce(B, V) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

//! The options of a device: keyword arguments of `Device`.

use std::time::Duration;

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
        self.check(py)?;
        let opened = py.detach(|| self.open_backend());
        opened.map_err(|error| exception(py, &Error::Open(error)))
    }

    /// Refuses options that the backend does not have.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let backend = self.backend.as_str();
        if !["cpu", "sim", "cuda", "vulkan"].contains(&backend) {
            let message = format!(
                "backend must be \"cpu\", \"sim\", \"cuda\" or \"vulkan\", got {backend:?}"
            );
            return Err(argument_error(py, message));
        }
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
                return Err(argument_error(py, message));
            }
        }
        if let Some(seconds) = self
            .max_in_flight_time
            .filter(|seconds| seconds.is_nan() || *seconds < 0.0)
        {
            let message = format!("max_in_flight_time must be 0 s or more, got {seconds}");
            return Err(argument_error(py, message));
        }
        Ok(())
    }

    fn open_backend(&self) -> Result<Opened, OpenError> {
        let options = self.device_options();
        match self.backend.as_str() {
            "sim" => {
                let mut sim = Sim::seed(self.seed);
                sim = self.queues.map_or(sim.clone(), |queues| sim.queues(queues));
                if let Some(bytes) = self.memory_limit {
                    sim = sim.memory_bytes(bytes);
                }
                if let Some(run) = self.lost_at_run {
                    sim = sim.faults(Faults::none().lost_at_run(run));
                }
                let findings = Some(sim.findings());
                let device = millstream::Device::open_with(sim, options)?;
                Ok(Opened {
                    device,
                    findings,
                    place: Place::Sim,
                })
            }
            "cuda" => {
                let mut cuda = Cuda::ordinal(self.index);
                if let Some(queues) = self.queues {
                    cuda = cuda.queues(queues);
                }
                let device = millstream::Device::open_with(cuda, options)?;
                Ok(Opened::plain(device, Place::Cuda(self.index)))
            }
            "vulkan" => {
                let mut vulkan = Vulkan::ordinal(self.index);
                if let Some(queues) = self.queues {
                    vulkan = vulkan.queues(queues);
                }
                if let Some(bytes) = self.memory_limit {
                    vulkan = vulkan.memory_limit(bytes);
                }
                let device = millstream::Device::open_with(vulkan, options)?;
                Ok(Opened::plain(device, Place::Vulkan(self.index)))
            }
            _ => {
                let mut cpu = Cpu::default();
                if let Some(queues) = self.queues {
                    cpu = cpu.queues(queues);
                }
                if let Some(threads) = self.threads {
                    cpu = cpu.threads(threads);
                }
                if let Some(bytes) = self.memory_limit {
                    cpu = cpu.memory_limit(bytes);
                }
                let device = millstream::Device::open_with(cpu, options)?;
                Ok(Opened::plain(device, Place::Cpu))
            }
        }
    }

    fn device_options(&self) -> DeviceOptions {
        let mut options = DeviceOptions::default()
            .trace(self.trace)
            .log_submissions(self.log_submissions);
        if let Some(messages) = self.mailbox_capacity {
            options = options.mailbox_capacity(messages);
        }
        if let Some(tasks) = self.max_in_flight {
            options = options.max_in_flight(tasks);
        }
        if let Some(seconds) = self.max_in_flight_time {
            // Infinity, which no duration is, measures nothing.
            let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            options = options.max_in_flight_time(time);
        }
        if let Some(tasks) = self.max_held {
            options = options.max_held(tasks);
        }
        if let Some(bytes) = self.max_upload_bytes {
            options = options.max_upload_bytes(bytes);
        }
        if self.sample_latencies > 0 {
            options = options.sample_latencies(self.sample_latencies);
        }
        options
    }
}

impl Opened {
    fn plain(device: millstream::Device, place: Place) -> Self {
        let findings = None;
        Self {
            device,
            findings,
            place,
        }
    }
}

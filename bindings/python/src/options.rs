//! The options of a device: keyword arguments of `Device`.

use std::time::Duration;

use millstream::backend::Open;
use millstream::sim::{Faults, Sim};
use millstream::{Cpu, Cuda, DeviceOptions, Error, OpenError, Vulkan};
use pyo3::prelude::*;

use crate::errors::{argument_error, exception};
use crate::exchange::origin::Place;

/// Sets the options of a builder that were given, variables or fields, each by the method that has its name.
macro_rules! given {
    (@ $builder:expr; $($option:ident = $value:expr;)*) => {{
        let mut builder = $builder;
        $(if let Some(value) = $value {
            builder = builder.$option(value);
        })*
        builder
    }};
    ($builder:expr; $($option:ident)*) => { given!(@ $builder; $($option = $option;)*) };
    ($builder:expr; $from:ident: $($option:ident)*) => {
        given!(@ $builder; $($option = $from.$option;)*)
    };
}
pub(crate) use given;

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
        let (options, index) = (self.device_options(), self.index);
        match self.backend.as_str() {
            "sim" => {
                let lose = |run| Faults::none().lost_at_run(run);
                let (memory_bytes, faults) = (self.memory_limit, self.lost_at_run.map(lose));
                let sim = given!(Sim::seed(self.seed); self: queues);
                let sim = given!(sim; memory_bytes faults);
                let findings = Some(sim.findings());
                let opened = open(sim, options, Place::Sim)?;
                Ok(Opened { findings, ..opened })
            }
            "cuda" => {
                let cuda = given!(Cuda::ordinal(index); self: queues);
                open(cuda, options, Place::Cuda(index))
            }
            "vulkan" => {
                let vulkan = given!(Vulkan::ordinal(index); self: queues memory_limit);
                open(vulkan, options, Place::Vulkan(index))
            }
            _ => {
                let cpu = given!(Cpu::default(); self: queues threads memory_limit);
                open(cpu, options, Place::Cpu)
            }
        }
    }

    fn device_options(&self) -> DeviceOptions {
        // Infinity, which no duration is, measures nothing.
        let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let max_in_flight_time = self.max_in_flight_time.map(time);
        let sample_latencies = Some(self.sample_latencies).filter(|every| *every > 0);
        let options = DeviceOptions::default()
            .trace(self.trace)
            .log_submissions(self.log_submissions);
        let options =
            given!(options; self: mailbox_capacity max_in_flight max_held max_upload_bytes);
        given!(options; max_in_flight_time sample_latencies)
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

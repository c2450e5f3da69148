//! Trains a network on handwritten digits on several devices of this process: each device learns a part of each batch,
//! and the gradients of one layer are summed while those of the other are computed.
//!
//! ```sh
//! cargo run --release -p millstream-cluster --example digits -- --devices 2
//! ```

use millstream_cluster_programs::digits;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use millstream::sim::Sim;
use millstream::{Cpu, Device, OpenError};
use millstream_cluster::Fleet;

use digits::Failure;
use digits::options::TrainingOptions;
use digits::report::Report;

/// Trains a network on handwritten digits, on several devices.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    training: TrainingOptions,
    /// The number of devices.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    devices: u32,
    /// The backend of all devices.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Cpu,
    Sim,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let fleet = options.open()?;
    let groups = [fleet.group(), fleet.group()];
    let report = Report::of(groups, &options.training, fleet.devices().len())?;
    report.print(options.training.json);
    report.check()
}

impl Options {
    fn open(&self) -> Result<Fleet, Failure> {
        let open = |index: u32| match self.backend {
            Backend::Cpu => Device::open(Cpu::default().threads(self.training.threads as usize)),
            Backend::Sim => Device::open(Sim::seed(index.into())),
        };
        let devices: Vec<_> = (0..self.devices)
            .map(open)
            .collect::<Result<_, OpenError>>()?;
        Ok(Fleet::new(devices)?)
    }
}

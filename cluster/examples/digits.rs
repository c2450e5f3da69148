//! Trains a network on handwritten digits on several devices of this process: each device learns a part of each batch,
//! and the gradients of one layer are summed while those of the other are computed.
//!
//! ```sh
//! cargo run --release -p millstream-cluster --example digits -- --devices 2
//! ```

use millstream_cluster_programs::digits;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use millstream::sim::Sim;
use millstream::{Cpu, Device, OpenError};
use millstream_cluster::Fleet;

use digits::model::{Images, Order};
use digits::options::TrainingOptions;
use digits::report::Report;
use digits::{Failure, Training};

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
    let (images, tests) = Images::load();
    let mut order = Order::new(images.len());
    let training = Training::new(
        [fleet.group(), fleet.group()],
        options.training.batch as usize,
        images,
        &tests,
    )?;
    let bar = options.bar()?;
    let mut rounds = Vec::new();
    for round in 0..options.training.rounds as usize {
        rounds.push(training.round(&mut order, round)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = Report {
        devices: fleet.devices().len(),
        batch: options.training.batch as usize,
        tests: tests.len(),
        rounds,
    };
    match options.training.json {
        true => println!("{:#}", report.json()),
        false => println!("{}", report.text()),
    }
    match report.is_finite() {
        true => Ok(()),
        false => Err("training diverged: the loss is not finite".into()),
    }
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

    /// Returns a progress bar, which is shown on a terminal.
    fn bar(&self) -> Result<ProgressBar, Failure> {
        let bar = match self.training.json || !std::io::stderr().is_terminal() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(self.training.rounds.into()),
        };
        let template = "{msg} {wide_bar:.cyan/240} {pos}/{len} {eta:>4}";
        bar.set_style(ProgressStyle::with_template(template)?);
        bar.set_message("training");
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(bar)
    }
}

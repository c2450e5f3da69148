//! Reaction and diffusion over several devices of this process: strips of rows, and halos that travel while the
//! interior is computed.
//!
//! ```sh
//! cargo run --release -p millstream-cluster --example reaction -- --devices 4 --size 512 --steps 1000
//! ```
//! Writes a picture to `out/reaction-cluster.png`. `--overlap` measures instead.

use millstream_cluster_programs::{idle, reaction};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use millstream::sim::Sim;
use millstream::{Cpu, Device, DeviceOptions, OpenError};
use millstream_cluster::Fleet;
use millstream_harness::Table;
use serde_json::{Value, json};

use reaction::overlap::{Overlap, Times};
use reaction::{Domain, Failure, Reaction, Tasks, overlap, picture};

/// Simulates two substances that react and diffuse, on several devices.
#[derive(Parser)]
struct Options {
    /// The number of devices.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    devices: u32,
    /// The rows and columns of the domain.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..=8192))]
    size: u32,
    /// The number of steps.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// The threads of each CPU device that share one launch.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// The backend of all devices.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// The picture to write.
    #[arg(long, default_value = "out/reaction-cluster.png")]
    output: PathBuf,
    /// Runs kernels in the scheduling class `idle`, so that the devices' own threads get a core at once. Otherwise Linux
    /// lets a kernel finish its time slice of some milliseconds first if all cores are busy.
    #[arg(long)]
    idle: bool,
    /// Prints only one JSON object.
    #[arg(long)]
    json: bool,
    /// Measures which share of the exchange's time the interior hides.
    #[arg(long)]
    overlap: bool,
    /// The samples of each program that `--overlap` takes the median of.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Cpu,
    Sim,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let report = match options.overlap {
        true => measure_overlap(&options),
        false => simulate(&options),
    };
    match report {
        Ok(report) if options.json => println!("{:#}", report.json),
        Ok(report) => println!("{}", report.text),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// What a mode prints: one of the two.
struct Report {
    json: Value,
    text: String,
}

impl Options {
    fn open(&self) -> Result<Fleet, Failure> {
        let mut device = DeviceOptions::default();
        if self.overlap {
            device = device.trace(overlap::SPANS);
        }
        if self.idle {
            device = device.spawn_with(idle::spawn);
        }
        let open = |index: usize| match self.backend {
            Backend::Cpu => Device::open_with(
                Cpu::default().threads(self.threads as usize),
                device.clone(),
            ),
            Backend::Sim => Device::open_with(Sim::seed(index as u64), device.clone()),
        };
        let devices = (0..self.devices as usize)
            .map(open)
            .collect::<Result<Vec<_>, OpenError>>()?;
        Ok(Fleet::new(devices)?)
    }

    fn domain(&self) -> Domain {
        Domain {
            rows: self.size as usize,
            columns: self.size as usize,
        }
    }
}

/// Runs the simulation, and writes the picture.
fn simulate(options: &Options) -> Result<Report, Failure> {
    let (domain, steps) = (options.domain(), options.steps as usize);
    let devices = options.devices as usize;
    let fleet = options.open()?;
    let mut reaction = Reaction::new(&fleet.group(), domain)?;
    reaction.mark().wait()?;
    let start = Instant::now();
    reaction.submit(Tasks::Step, steps)?;
    reaction.mark().wait()?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(second) = reaction.gather()? {
        create_folder(&options.output)?;
        picture::save(domain, &second, &options.output)?;
    }
    let steps_per_s = steps as f64 / seconds;
    let cells_per_s = steps_per_s * domain.cells() as f64;
    let mut table = Table::new(
        [
            "devices", "cells", "steps", "seconds", "steps/s", "Mcells/s",
        ],
        0..6,
    );
    table.row([
        devices.to_string(),
        format!("{} x {}", domain.rows, domain.columns),
        steps.to_string(),
        format!("{seconds:.2}"),
        format!("{steps_per_s:.0}"),
        format!("{:.0}", cells_per_s / 1e6),
    ]);
    Ok(Report {
        json: json!({
            "program": "reaction", "devices": devices, "rows": domain.rows, "columns": domain.columns,
            "steps": steps, "seconds": seconds, "steps_per_s": steps_per_s, "cells_per_s": cells_per_s,
            "picture": options.output,
        }),
        text: format!("{}\npicture: {}", table.text(), options.output.display()),
    })
}

fn create_folder(file: &Path) -> Result<(), Failure> {
    match file.parent() {
        Some(folder) => Ok(std::fs::create_dir_all(folder)?),
        None => Ok(()),
    }
}

fn measure_overlap(options: &Options) -> Result<Report, Failure> {
    let (domain, devices) = (options.domain(), options.devices as usize);
    let fleet = options.open()?;
    let (steps, rounds) = (options.steps as usize, options.rounds as usize);
    let found = overlap::measure((&fleet.group(), fleet.devices()), domain, steps, rounds)?;
    let Overlap {
        median,
        fast,
        mostly_hidden,
    } = found;
    let header = ["", "median µs/step", "fastest tenth µs/step"];
    let mut table = Table::new(header, 1..3);
    for (program, [median, fast]) in [
        ("launches and exchange", [median.steps, fast.steps]),
        ("launches alone", [median.launches, fast.launches]),
        ("exchange alone", [median.exchange, fast.exchange]),
        (
            "wait for halos after the interior",
            [median.wait, fast.wait],
        ),
    ] {
        table.row([
            program.to_owned(),
            format!("{median:.1}"),
            format!("{fast:.1}"),
        ]);
    }
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    for (text, hidden) in [
        (
            "hidden, by the times of the programs",
            Times::hidden as fn(&Times) -> f64,
        ),
        ("hidden, by the timeline", Times::hidden_by_timeline),
    ] {
        table.row([
            text.to_owned(),
            percent(hidden(&median)),
            percent(hidden(&fast)),
        ]);
    }
    let text = format!(
        "{}\n80 % of the exchange or more is hidden in {} of the steps, by the timeline\n\
         {devices} devices, {} x {} cells, {rounds} samples of {steps} steps each",
        table.text(),
        percent(mostly_hidden),
        domain.rows,
        domain.columns,
    );
    let times = |times: Times| {
        json!({
            "us_per_step": times.steps, "us_per_step_launches": times.launches,
            "us_per_step_exchange": times.exchange, "us_per_step_wait": times.wait,
            "hidden": times.hidden(), "hidden_by_timeline": times.hidden_by_timeline(),
        })
    };
    Ok(Report {
        json: json!({
            "program": "reaction", "mode": "overlap", "devices": devices, "rows": domain.rows,
            "columns": domain.columns, "steps": steps, "rounds": rounds, "median": times(median),
            "fastest_tenth": times(fast), "mostly_hidden": mostly_hidden,
        }),
        text,
    })
}

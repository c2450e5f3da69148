//! Reaction and diffusion over several devices of this process: strips of rows, and halos that travel while the
//! interior is computed.
//!
//! ```sh
//! cargo run --release -p millstream-cluster --example reaction -- --devices 4 --size 512 --steps 1000
//! ```
//! Writes a picture to `out/reaction-cluster.png`. `--overlap` and `--scaling` measure instead.

use millstream_cluster_programs::{idle, reaction};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use millstream::sim::Sim;
use millstream::{Cpu, Device, DeviceOptions, OpenError};
use millstream_cluster::Fleet;
use millstream_harness::{Table, median};
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
    #[arg(long, conflicts_with = "scaling")]
    overlap: bool,
    /// Measures 1, 2 and 4 devices: one domain for all (strong), and one strip for each (weak).
    #[arg(long)]
    scaling: bool,
    /// The samples of each program that `--overlap` and `--scaling` take the median of.
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
    let report = match (options.overlap, options.scaling) {
        (true, _) => measure_overlap(&options),
        (_, true) => measure_scaling(&options),
        _ => simulate(&options),
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
    fn open(&self, devices: usize) -> Result<Fleet, Failure> {
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
        let devices = (0..devices)
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
    let fleet = options.open(devices)?;
    let mut reaction = Reaction::new(&fleet.group(), domain)?;
    reaction.mark().wait()?;
    let start = Instant::now();
    run(&mut reaction, steps, options.json)?;
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

/// The parts of a run that the progress bar counts.
const PARTS: usize = 200;

/// Submits all steps, and waits for their end. The bar is shown on a terminal.
fn run(reaction: &mut Reaction, steps: usize, is_quiet: bool) -> Result<(), Failure> {
    let bar = match is_quiet || !std::io::stderr().is_terminal() {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(steps as u64),
    };
    let style = ProgressStyle::with_template("{msg} {wide_bar:.cyan/240} {pos}/{len} {eta:>4}")?;
    bar.set_style(style);
    bar.set_message("simulating");
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut marks = Vec::new();
    let part = steps.div_ceil(PARTS);
    for start in (0..steps).step_by(part) {
        let steps = part.min(steps - start);
        reaction.submit(Tasks::Step, steps)?;
        marks.push((steps, reaction.mark()));
    }
    // All steps are submitted: from here on this thread only watches.
    for (steps, mark) in marks {
        mark.wait()?;
        bar.inc(steps as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

fn create_folder(file: &Path) -> Result<(), Failure> {
    match file.parent() {
        Some(folder) => Ok(std::fs::create_dir_all(folder)?),
        None => Ok(()),
    }
}

fn measure_overlap(options: &Options) -> Result<Report, Failure> {
    let (domain, devices) = (options.domain(), options.devices as usize);
    let fleet = options.open(devices)?;
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

/// A row of `--scaling`.
struct Run {
    kind: &'static str,
    fleet: Fleet,
    domain: Domain,
    reaction: Reaction,
    /// Of a step.
    seconds: Vec<f64>,
}

/// The devices of each row of `--scaling`.
const SCALES: [usize; 3] = [1, 2, 4];

fn measure_scaling(options: &Options) -> Result<Report, Failure> {
    let steps = options.steps as usize;
    let mut runs = Vec::new();
    for devices in SCALES {
        let strong = options.domain();
        // As many rows for each device as one of four has of the strong domain.
        let weak = Domain {
            rows: strong.rows / 4 * devices,
            ..strong
        };
        for (kind, domain) in [("strong", strong), ("weak", weak)] {
            let fleet = options.open(devices)?;
            let reaction = Reaction::new(&fleet.group(), domain)?;
            runs.push(Run {
                kind,
                fleet,
                domain,
                reaction,
                seconds: Vec::new(),
            });
        }
    }
    for round in 0..=options.rounds {
        for Run {
            reaction, seconds, ..
        } in &mut runs
        {
            reaction.mark().wait()?;
            let start = Instant::now();
            reaction.submit(Tasks::Step, steps)?;
            reaction.mark().wait()?;
            if round > 0 {
                seconds.push(start.elapsed().as_secs_f64() / steps as f64);
            }
        }
    }
    let cores = std::thread::available_parallelism()?.get();
    let header = [
        "scaling", "devices", "cells", "µs/step", "Mcells/s", "speedup",
    ];
    let mut table = Table::new(header, 1..6);
    let mut rows = Vec::new();
    for kind in ["strong", "weak"] {
        let mut base = None;
        for run in runs.iter().filter(|run| run.kind == kind) {
            let (devices, domain) = (run.fleet.devices().len(), run.domain);
            let seconds = median(&run.seconds);
            let cells_per_s = domain.cells() as f64 / seconds;
            let speedup = cells_per_s / *base.get_or_insert(cells_per_s);
            table.row([
                kind.to_owned(),
                devices.to_string(),
                format!("{} x {}", domain.rows, domain.columns),
                format!("{:.1}", seconds * 1e6),
                format!("{:.0}", cells_per_s / 1e6),
                format!("{speedup:.2}"),
            ]);
            rows.push(json!({
                "scaling": kind, "devices": devices, "rows": domain.rows, "columns": domain.columns,
                "us_per_step": seconds * 1e6, "cells_per_s": cells_per_s, "speedup": speedup,
            }));
        }
    }
    Ok(Report {
        json: json!({
            "program": "reaction", "mode": "scaling", "cores": cores, "threads": options.threads,
            "steps": steps, "rounds": options.rounds, "runs": rows,
        }),
        text: format!(
            "{}\n{cores} cores: more devices than cores share them. Median of {}, {} thread(s) for each device's launch. \
             Speedup: cells/s beside one device.",
            table.text(),
            options.rounds,
            options.threads,
        ),
    })
}

//! Where do the programs of `cluster/programs` stop to scale, and why? Runs them with up to 4,096 simulated ranks.
//!
//! ```sh
//! cargo run --release -p millstream-cluster-sim --example scaling -- --plot out/scaling.svg
//! ```
//! A run takes the time that the machine's figures say; no data moves. For the reason, each run is repeated on machines
//! that differ in one point: without latency, with links of any bandwidth, without contention, without the time of
//! threads. The point that makes the largest difference is what holds the run
//! back, unless its kernels take more.

mod machines;
mod plot;
mod runs;

use millstream_cluster_programs::{digits, reaction};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use millstream_harness::Table;
use serde_json::json;

use machines::Figures;
use runs::{Point, Program, Scaling};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs reaction and digits with many simulated ranks, and says where scaling ends and why.
#[derive(Parser)]
struct Options {
    /// The programs to run.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "reaction,digits"
    )]
    programs: Vec<Program>,
    /// How the work grows: not at all, or with the ranks.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "strong,weak")]
    scaling: Vec<Scaling>,
    /// The numbers of ranks. The first is what the others are compared with.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256,1024,4096",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ranks: Vec<u32>,
    /// Rows and columns of the domain of `reaction`; with weak scaling each rank has a part of it as large as one of 64
    /// ranks has of the whole.
    #[arg(long, default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    size: u32,
    /// Images of a step of `digits`; with weak scaling each rank has a 64th of them.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    batch: u32,
    /// Steps of each run.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    steps: u32,
    #[command(flatten)]
    figures: Figures,
    /// Draw the efficiencies.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print only one JSON object.
    #[arg(long)]
    json: bool,
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

/// A program with one kind of scaling.
struct Series {
    program: Program,
    scaling: Scaling,
    points: Vec<Point>,
}

fn run(options: &Options) -> Result<(), Failure> {
    let pairs = options.programs.iter().flat_map(|program| {
        let scalings = options.scaling.iter();
        scalings.map(move |scaling| (*program, *scaling))
    });
    let mut all = Vec::new();
    for (program, scaling) in pairs {
        let mut points: Vec<Point> = Vec::new();
        for ranks in &options.ranks {
            eprintln!("{program}, {scaling} scaling, {ranks} ranks");
            let work = options.work(program, scaling, *ranks)?;
            let steps = options.steps as usize;
            points.push(Point::measure(
                &work,
                *ranks as usize,
                steps,
                &options.figures,
            )?);
        }
        all.push(Series {
            program,
            scaling,
            points,
        });
    }
    if let Some(file) = &options.plot {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, plot::draw(&all, &options.figures))?;
    }
    match options.json {
        true => println!("{:#}", json(&all, &options.figures)),
        false => println!("{}", text(&all, &options.figures)),
    }
    Ok(())
}

impl Options {
    /// Returns the work of a run.
    fn work(&self, program: Program, scaling: Scaling, ranks: u32) -> Result<runs::Work, Failure> {
        let all = match program {
            Program::Reaction => self.size,
            Program::Digits => self.batch,
        };
        let parts = match scaling {
            Scaling::Strong => all,
            Scaling::Weak => (all / 64).max(1).saturating_mul(ranks),
        };
        let (what, option) = match program {
            Program::Reaction => ("rows", "size"),
            Program::Digits => ("images", "batch"),
        };
        if parts < ranks {
            let text = format!(
                "{ranks} ranks need at least as many {what}, got {parts}; pass a larger `--{option}` or fewer `--ranks`"
            );
            return Err(text.into());
        }
        let parts = parts as usize;
        Ok(match program {
            Program::Reaction => runs::Work::Reaction {
                rows: parts,
                columns: self.size as usize,
            },
            Program::Digits => runs::Work::Digits { batch: parts },
        })
    }
}

impl Series {
    fn name(&self) -> String {
        format!("{}, {} scaling", self.program, self.scaling)
    }

    /// Returns the speed of each rank beside that of the first run's ranks.
    fn efficiency(&self, point: &Point) -> f64 {
        let first = &self.points[0];
        let each = |point: &Point| point.work / point.step_ns / point.ranks as f64;
        each(point) / each(first)
    }
}

fn text(all: &[Series], figures: &Figures) -> String {
    let mut text = String::new();
    for series in all.iter().filter(|series| !series.points.is_empty()) {
        let header = [
            "ranks",
            "µs/step",
            "compute µs",
            "efficiency",
            "messages/step",
            "most of it",
        ];
        let mut table = Table::new(header, 0..5);
        for point in &series.points {
            table.row([
                point.ranks.to_string(),
                format!("{:.1}", point.step_ns / 1e3),
                format!("{:.1}", point.compute_ns / 1e3),
                format!("{:.0} %", 100.0 * series.efficiency(point)),
                format!("{:.0}", point.messages),
                point.reason(),
            ]);
        }
        text += &format!("{}\n{}\n{}\n\n", series.name(), table.text(), end(series));
    }
    text + &figures.describe()
}

/// Says where scaling ends.
fn end(series: &Series) -> String {
    let ends = series
        .points
        .iter()
        .find(|point| series.efficiency(point) < 0.5);
    match ends {
        Some(point) => format!(
            "Scaling ends before {} ranks: less than half of each rank's speed is left.\n{}",
            point.ranks,
            point.explain(&series.points[0])
        ),
        None => {
            "Scaling does not end here: each rank keeps more than half of its speed.".to_owned()
        }
    }
}

fn json(all: &[Series], figures: &Figures) -> serde_json::Value {
    let series = all.iter().map(|series| {
        let points = series.points.iter().map(|point| {
            json!({
                "ranks": point.ranks, "ns_per_step": point.step_ns, "compute_ns_per_step": point.compute_ns,
                "efficiency": series.efficiency(point), "messages_per_step": point.messages,
                "bytes_per_step": point.bytes, "ns_per_step_without": point.without(),
            })
        });
        json!({
            "program": series.program.to_string(), "scaling": series.scaling.to_string(),
            "points": points.collect::<Vec<_>>(),
        })
    });
    json!({ "machine": figures.describe(), "series": series.collect::<Vec<_>>() })
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reaction => "reaction",
            Self::Digits => "digits",
        })
    }
}

impl std::fmt::Display for Scaling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Strong => "strong",
            Self::Weak => "weak",
        })
    }
}

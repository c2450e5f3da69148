//! `soak`: runs random programs from many threads on one device until its time is up, checks every answer, and reports
//! growth and leaks. The exit code is 1 if a rule is violated.
//!
//! | module | contents |
//! | --- | --- |
//! | `run` | one soak from end to end |
//! | `worker` | a thread that opens clients, runs one random program of the testkit with each, and drops them |
//! | `equal` | threads of equal clients, which measure fairness |
//! | `watch` | samples memory and rate each second, and updates the progress bar |
//! | `verdict` | a pure function from figures to violations |
//! | `report` | the report as data and as text |
//! | `system` | figures of this process from the operating system |

mod equal;
#[path = "../../../../../cli/src/doctor/gpu_sources.rs"]
mod gpu_sources;
mod report;
mod run;
mod system;
mod verdict;
mod watch;
mod worker;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use millstream_swarm::minutes;
use serde::Serialize;

/// Runs a mixed load, checks every answer, and reports growth and leaks.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// How long to run, in minutes; Ctrl-C ends the run earlier and prints the report.
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// Runs N clients on each thread instead of running for a time.
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// The device.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// The number of threads with mixed load; four more threads run equal clients.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Seeds the random choices of the threads.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Prints a JSON object, with a sample for each second, instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Backend {
    /// The processor.
    Cpu,
    /// The first GPU of the Vulkan loader; without the tasks that panic or count their runs, which are Rust.
    Vulkan,
    /// The simulator; it fails calls and tasks at random, and is lost and reopened.
    Sim,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = match run::run(&arguments) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match arguments.json {
        true => println!("{}", serde_json::json!(report)),
        false => print!("{report}"),
    }
    match report.violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

//! millstream and cubecl side by side, on one machine, in one run.
//!
//! Both run over a device that does nothing, so that only the runtime is measured. Each sample runs
//! in its own process (`millstream-peers sample ...`, started by the run). So no state of one side
//! remains while the other is measured, a sample that hangs or dies costs one cell, and pinning,
//! allocation counts and callgrind affect one sample only. Rounds alternate between the sides, so
//! that the machine's drift affects both.
//!
//! - [`table`]: the rows, and their targets.
//! - [`probe`]: the measurements behind the rows, by name and side.
//! - [`run`]: the parent process: starts samples, alternates, computes medians.
//! - [`measures`]: the measurements, written once for both sides over [`contender::Contender`].
//! - [`ours`], [`peer`], [`reference`](mod@reference): the sides.
//! - [`instruments`]: processor time, callgrind.

mod contender;
mod instruments;
mod measures;
mod noop;
mod ours;
mod peer;
mod probe;
mod reference;
mod run;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: millstream_heap_count::Counting = millstream_heap_count::Counting;

/// Measures millstream and cubecl side by side, and prints a table.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Also write all samples to this file, for a table of `benches/RESULTS.md`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only the rows whose name contains this text.
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Take shorter samples and fewer rounds; do not quote the figures.
    #[arg(long)]
    quick: bool,
    /// Number of rounds per side; the figures are medians of the rounds.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// List the rows and the probes behind them.
    List,
    /// Take one sample in this process and print its figures as JSON; a run starts this command.
    Sample(probe::SampleArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::List) => {
            for row in table::rows() {
                println!("{:<28} {} [{}]", row.probe, row.measure, row.unit);
            }
            ExitCode::SUCCESS
        }
        Some(Command::Sample(sample)) => probe::sample(&sample),
        None => run::run(&run::Options {
            only: arguments.only.unwrap_or_default(),
            json: arguments.json,
            quick: arguments.quick,
            rounds: arguments.rounds,
        }),
    }
}

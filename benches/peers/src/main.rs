//! millstream and cubecl side by side, on one machine, in one run.
//!
//! Both run over a device that does nothing, so that only the runtime is measured. Every sample is
//! taken in a process of its own (`millstream-peers sample ...`, started by the run): nothing of
//! one side lives on while the other is measured, a sample that hangs or dies costs one cell, and
//! pinning, allocation counts and callgrind need no care. Rounds alternate between the sides, so
//! that the machine's drift hits both.
//!
//! - [`table`]: the rows, their targets, and how they are printed.
//! - [`probe`]: the measurements behind the rows, by name and side.
//! - [`run`]: the parent: starts samples, alternates, takes medians.
//! - [`measures`]: what is measured, written once for both sides over [`contender::Contender`].
//! - [`ours`], [`peer`], [`reference`](mod@reference): the sides.
//! - [`instruments`]: allocations, processor time, affinity, callgrind.

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

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: instruments::allocations::Counting = instruments::allocations::Counting;

/// millstream and cubecl side by side: a table, or one JSON object a row.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Prints one JSON object a row in place of the table.
    #[arg(long)]
    json: bool,
    /// Takes only the rows whose name contains this.
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Shorter samples and fewer rounds: for looking, not for quoting.
    #[arg(long)]
    quick: bool,
    /// Rounds a side, over which the median is taken.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the rows and the probes behind them.
    List,
    /// Takes one sample in this process and prints its figures as JSON (what a run starts).
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

//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  every row came out; whether targets were reached is in the table
  1  some rows did not come out, or results could not be read or written
  2  bad usage
  3  there is no GPU to measure";

/// millstream on a GPU beside raw calls of its driver, in one run.
#[derive(Debug, Parser)]
#[command(name = "millstream-gpu-bench", version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Writes every figure with its spread to this file, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Measures only the groups whose name contains this.
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) only: Option<String>,

    /// Few calls and one round: to see that all rows come out, not to quote.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Rounds, over which medians are taken.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes the figures of a run into the section "On a GPU" of benches/RESULTS.md.
    Import(Import),
}

/// Options of `import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder that holds `bench.json`, as the bundle's `run` leaves it; or such a file.
    pub(crate) results: PathBuf,

    /// The page with the section's markers.
    #[arg(long, value_name = "FILE", default_value = "benches/RESULTS.md")]
    pub(crate) into: PathBuf,

    /// Takes figures of the fake driver, which mean nothing: to try this command.
    #[arg(long)]
    pub(crate) allow_fake: bool,
}

//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  all rows were measured; the table shows whether targets were reached
  1  some rows could not be measured, or results could not be read or written
  2  usage error
  3  there is no GPU to measure";

/// Compares millstream on a GPU with direct driver calls, in one run.
#[derive(Debug, Parser)]
#[command(name = "millstream-gpu-bench", version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Also writes all figures, with their spread, to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Measures only the groups whose name contains this text.
    #[arg(long, value_name = "SUBSTRING")]
    pub(crate) only: Option<String>,

    /// Measures one round of few calls: to check that all rows work, not to quote.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measures the first GPU of Vulkan instead of CUDA's.
    #[arg(long)]
    pub(crate) vulkan: bool,

    /// The number of rounds; figures are medians over them.
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
    /// The results folder of the bundle's `run`, which contains `bench.json`, or such a file.
    pub(crate) results: PathBuf,

    /// The page that contains the section's markers.
    #[arg(long, value_name = "FILE", default_value = "benches/RESULTS.md")]
    pub(crate) into: PathBuf,

    /// Accepts figures of the fake driver, which are meaningless: to try this command.
    #[arg(long)]
    pub(crate) allow_fake: bool,
}

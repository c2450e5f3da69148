//! The commands, their options, the ranges of their values and the help text.
//!
//! Parsing opens no device and touches no file. Every number has a range, so the commands
//! validate nothing again.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::device::DeviceName;

/// Run, measure and inspect millstream, a runtime that lets many threads share one device.
#[derive(Debug, Parser)]
#[command(
    name = "millstream",
    version,
    arg_required_else_help = true,
    after_help = "\
Exit codes:
  0  success
  1  a result was wrong, a self-test or the device failed, or `doctor` found no device besides the simulator
  2  usage error: an unknown option, or a file or folder that cannot be used
  3  success, but `demo` skipped some files of its input folder

Examples:
  millstream demo
  millstream doctor
  millstream help timeline"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print only one JSON object on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Convert photographs to drawings from many threads on one device, and check every result.
    #[command(after_help = "\
Examples:
  millstream demo
  millstream demo --backend cuda
  millstream demo --threads 64 --queues 2 --strategy sequential
  millstream demo --input ~/Pictures/holiday --output out/holiday --repeat 1
  millstream demo --profile
  millstream demo --timeline out/demo.json && millstream timeline out/demo.json
  millstream demo --json | jq .run.photos_per_second")]
    Demo(DemoArgs),
    /// Summarize a saved timeline: how busy the queues were, their longest gaps, and the times of tasks.
    #[command(after_help = "\
Examples:
  millstream demo --timeline out/demo.json && millstream timeline out/demo.json
  millstream timeline out/demo.json --picture out/demo.svg
  millstream timeline out/demo.json --json | jq .queues[].busy
  https://ui.perfetto.dev shows the same file")]
    Timeline(TimelineArgs),
    /// Measure launches, waits, copies and recordings on this machine; takes some seconds.
    #[command(after_help = "\
Examples:
  millstream bench
  millstream bench --device cuda:0 --json > before.json
  millstream bench --compare before.json --picture change.svg
  millstream bench --quick --json | jq '.rows[] | {name, median, unit}'")]
    Bench(BenchArgs),
    /// List the devices that can be opened here, test them, and explain why others cannot be opened.
    #[command(after_help = "\
Examples:
  millstream doctor
  millstream doctor --quick --json | jq '.backends[] | select(.ready) | .backend'")]
    Doctor(DoctorArgs),
}

/// Options of `millstream demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Run the kernels on this device: cpu, cuda (the first NVIDIA GPU), cuda:N, vulkan (the first GPU of the Vulkan
    /// loader), vulkan:N, or sim (a simulator that checks every access).
    #[arg(
        long,
        visible_alias = "device",
        value_name = "DEVICE",
        default_value = "cpu"
    )]
    pub(crate) backend: DeviceName,

    /// Start N worker threads, each with its own stream.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) threads: u64,

    /// Open the device with N queues; streams on different queues run in parallel.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) queues: u64,

    /// Choose how streams that share a queue take turns.
    #[arg(long, value_enum, default_value_t = Order::Interleave)]
    pub(crate) strategy: Order,

    /// Read JPEG and PNG photographs from this folder (not recursive; names that begin with a dot
    /// are ignored) [default: cli/assets/photos of the repository]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) input: Option<PathBuf>,

    /// Write the results to this folder; it is created if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = "out/demo")]
    pub(crate) output: PathBuf,

    /// Write the timeline to this file, for `millstream timeline` and Perfetto.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) timeline: Option<PathBuf>,

    /// Report how long each kernel ran, by the device's clock.
    #[arg(long)]
    pub(crate) profile: bool,

    /// Convert each photograph N times.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) repeat: u64,
}

/// How streams that share a queue take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// One task of each stream in turn.
    Interleave,
    /// One batch of each stream in turn.
    Sequential,
}

/// Options of `millstream timeline`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TimelineArgs {
    /// The timeline that `millstream demo --timeline FILE` or `millstream::timeline::write` wrote.
    #[arg(value_name = "FILE.json")]
    pub(crate) file: PathBuf,

    /// Also draw the queues and streams as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
}

/// Options of `millstream bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// Measure this device: cpu, cuda (the first NVIDIA GPU), cuda:N, vulkan (the first GPU of the Vulkan loader),
    /// vulkan:N, or sim (figures of a simulator).
    #[arg(
        long,
        visible_alias = "backend",
        value_name = "DEVICE",
        default_value = "cpu"
    )]
    pub(crate) device: DeviceName,

    /// Launch from up to N threads at once [default: twice the number of cores, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(crate) threads: Option<u64>,

    /// Take fewer and shorter samples; do not publish these figures.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Compare with the --json output of an earlier run: print ratios, and whether they exceed the noise.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) compare: Option<PathBuf>,

    /// Also draw launch rates by thread count, and the changes, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
}

/// Options of `millstream doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Skip the self-test, which runs some thousand steps on each device and takes about a second.
    #[arg(long)]
    pub(crate) quick: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn demo_without_options_uses_the_documented_defaults() {
        let Command::Demo(args) = parse("millstream demo").unwrap().command else {
            panic!("expected the demo");
        };
        assert_eq!((args.threads, args.queues, args.repeat), (8, 4, 4));
        assert_eq!(args.output, PathBuf::from("out/demo"));
        assert!(args.input.is_none());
    }

    #[test]
    fn invalid_values_and_conflicting_options_are_usage_errors() {
        for line in [
            "millstream demo --threads 0",
            "millstream demo --threads 100000",
            "millstream demo --queues 0",
            "millstream demo --repeat 0",
            "millstream demo --backend abacus",
            "millstream timeline",
            "millstream bench --device cuda:-1",
            "millstream bench --threads 0",
            "millstream bench --compare",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    /// Every line that begins with the program's name parses.
    #[test]
    fn every_help_ends_with_examples_that_parse() {
        let cli = Cli::command();
        let subcommands = cli.get_subcommands().cloned().collect::<Vec<_>>();
        assert_eq!(subcommands.len(), 4);
        for mut command in [cli].into_iter().chain(subcommands) {
            let help = command.render_long_help().to_string();
            let (_, examples) = help
                .rsplit_once("\nExamples:\n")
                .unwrap_or_else(|| panic!("`{}` has no examples:\n{help}", command.get_name()));
            for line in examples.lines() {
                for part in line
                    .split(" && ")
                    .filter_map(|part| part.trim().strip_prefix("millstream "))
                {
                    let arguments = part.split(['|', '>']).next().unwrap_or(part);
                    if let Err(error) = parse(&format!("millstream {arguments}")) {
                        // `millstream help COMMAND` is an "error" with exit code 0.
                        assert_eq!(error.exit_code(), 0, "{part}: {error}");
                    }
                }
            }
        }
    }
}

//! The commands, their options, the ranges of their values and the help text.
//!
//! Parsing opens no device and touches no file. Every number has a range, so the commands
//! validate nothing again.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::help::{
    BENCH_EXAMPLES, BENCH_EXIT_CODES, COMPLETIONS_EXAMPLES, DEMO_EXAMPLES, DEMO_EXIT_CODES,
    DOCTOR_EXAMPLES, DOCTOR_EXIT_CODES, EXAMPLES, EXIT_CODES, TIMELINE_EXAMPLES,
    TIMELINE_EXIT_CODES, after_help,
};

/// More worker threads than this show nothing new about one device.
const MAX_THREADS: u64 = 256;
/// The most queues that one device can have.
const MAX_QUEUES: u64 = 16;
/// Bounds the list of measured latencies.
const MAX_REPEAT: u64 = 10_000;

/// Run, measure and inspect millstream, a runtime that lets many threads share one device.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, after_help = after_help(EXAMPLES, EXIT_CODES), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Convert photographs to drawings from many threads on one device, and check every result.
    #[command(after_help = after_help(DEMO_EXAMPLES, DEMO_EXIT_CODES))]
    Demo(DemoArgs),
    /// Summarize a saved timeline: how busy the queues were, their longest gaps, and the times of tasks.
    #[command(after_help = after_help(TIMELINE_EXAMPLES, TIMELINE_EXIT_CODES))]
    Timeline(TimelineArgs),
    /// Measure launches, waits, copies, recordings and graphs on this machine; takes some seconds.
    #[command(after_help = after_help(BENCH_EXAMPLES, BENCH_EXIT_CODES))]
    Bench(BenchArgs),
    /// List the devices that can be opened here, test them, and explain why others cannot be opened.
    #[command(after_help = after_help(DOCTOR_EXAMPLES, DOCTOR_EXIT_CODES))]
    Doctor(DoctorArgs),
    /// Print a shell completion script.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
}

/// Options of `millstream demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Run the kernels on this device.
    #[arg(long, value_enum, default_value_t = DemoBackend::Cpu)]
    pub(crate) backend: DemoBackend,

    /// Start N worker threads, each with its own stream.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub(crate) threads: u64,

    /// Open the device with N queues; streams on different queues run in parallel.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=MAX_QUEUES))]
    pub(crate) queues: u64,

    /// Choose how streams that share a queue take turns.
    #[arg(long, value_enum, default_value_t = Order::Interleave)]
    pub(crate) strategy: Order,

    /// Read JPEG and PNG photographs from this folder (not recursive; names that begin with a dot
    /// are ignored) [default: assets/photos of the repository]
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
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=MAX_REPEAT))]
    pub(crate) repeat: u64,

    /// Print only one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
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

    /// Print only one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// Measure this device: cpu, cuda (the first NVIDIA GPU), cuda:N, vulkan (the first GPU of the Vulkan loader),
    /// vulkan:N, or sim (figures of a simulator).
    #[arg(long, visible_alias = "backend", value_name = "DEVICE", default_value = "cpu", value_parser = bench_device)]
    pub(crate) device: BenchDevice,

    /// Launch from up to N threads at once [default: twice the number of cores, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
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

    /// Print only one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A device that `millstream bench` can measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchDevice {
    /// The processor.
    Cpu,
    /// The NVIDIA GPU with this ordinal.
    Cuda(usize),
    /// The GPU with this ordinal of the Vulkan loader.
    Vulkan(usize),
    /// The simulator.
    Sim,
}

/// Options of `millstream doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Skip the self-test, which runs some thousand steps on each device and takes about a second.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print only one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream completions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that the script is for.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// A device that can run the demo's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DemoBackend {
    /// The processor; each queue runs tasks on a team of threads.
    Cpu,
    /// The first NVIDIA GPU, through CUDA.
    Cuda,
    /// The first GPU of the Vulkan loader; `millstream doctor` lists all.
    Vulkan,
    /// The simulator; runs tasks in any order that their waits permit and checks every access.
    Sim,
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

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interleave => "interleave",
            Self::Sequential => "sequential",
        })
    }
}

fn bench_device(given: &str) -> Result<BenchDevice, String> {
    let (kind, ordinal) = match given.split_once(':') {
        Some((kind, ordinal)) => (kind, ordinal.parse().map(Some).map_err(|_| ())),
        None => (given, Ok(None)),
    };
    match (kind, ordinal) {
        ("cpu", Ok(None)) => Ok(BenchDevice::Cpu),
        ("sim", Ok(None)) => Ok(BenchDevice::Sim),
        ("cuda", Ok(ordinal)) => Ok(BenchDevice::Cuda(ordinal.unwrap_or_default())),
        ("vulkan", Ok(ordinal)) => Ok(BenchDevice::Vulkan(ordinal.unwrap_or_default())),
        _ => Err("expected cpu, cuda, cuda:N, vulkan, vulkan:N or sim".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn demo(line: &str) -> DemoArgs {
        match parse(line).unwrap().command {
            Command::Demo(args) => args,
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn demo_without_options_uses_the_documented_defaults() {
        let args = demo("millstream demo");
        assert_eq!((args.threads, args.queues, args.repeat), (8, 4, 4));
        assert_eq!(args.strategy, Order::Interleave);
        assert_eq!(args.output, PathBuf::from("out/demo"));
        assert!(args.input.is_none() && !args.json);
    }

    #[test]
    fn every_demo_option_is_parsed() {
        let args = demo(
            "millstream demo --backend cpu --threads 3 --queues 2 --strategy sequential \
             --input a --output b --repeat 9 --json",
        );
        assert_eq!((args.threads, args.queues, args.repeat), (3, 2, 9));
        assert_eq!(args.strategy, Order::Sequential);
        assert_eq!(args.input, Some(PathBuf::from("a")));
        assert_eq!(args.output, PathBuf::from("b"));
        assert!(args.json);
    }

    #[test]
    fn bench_device_is_parsed_by_name_or_by_ordinal() {
        let device = |line: &str| match parse(line).unwrap().command {
            Command::Bench(args) => args.device,
            other => panic!("parsed as {other:?}"),
        };
        assert_eq!(device("millstream bench"), BenchDevice::Cpu);
        assert_eq!(device("millstream bench --backend sim"), BenchDevice::Sim);
        assert_eq!(
            device("millstream bench --device cuda"),
            BenchDevice::Cuda(0)
        );
        assert_eq!(
            device("millstream bench --device cuda:3"),
            BenchDevice::Cuda(3)
        );
        assert_eq!(
            device("millstream bench --device vulkan"),
            BenchDevice::Vulkan(0)
        );
        assert_eq!(
            device("millstream bench --device vulkan:1"),
            BenchDevice::Vulkan(1)
        );
        for wrong in ["cpu:0", "sim:1", "cuda:", "vulkan:x", "vulkan:-1"] {
            let line = format!("millstream bench --device {wrong}");
            assert!(parse(&line).is_err(), "{line}");
        }
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
            "millstream bench --device abacus",
            "millstream bench --device cuda:",
            "millstream bench --device cuda:-1",
            "millstream bench --threads 0",
            "millstream bench --compare",
            "millstream completions",
            "millstream completions abacus",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}

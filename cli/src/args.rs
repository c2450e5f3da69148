//! What can be typed: the commands, their options, their limits and the help text.
//!
//! Pure data: nothing here opens a device or touches a file. Every number has a range, so that
//! what reaches the commands is usable as it is.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::help::{
    BENCH_EXAMPLES, BENCH_EXIT_CODES, COMPLETIONS_EXAMPLES, DEMO_EXAMPLES, DEMO_EXIT_CODES,
    DOCTOR_EXAMPLES, DOCTOR_EXIT_CODES, DRAW_EXAMPLES, DRAW_EXIT_CODES, EXAMPLES, EXIT_CODES,
    SOAK_EXAMPLES, SOAK_EXIT_CODES, TIMELINE_EXAMPLES, TIMELINE_EXIT_CODES, TOP_EXAMPLES,
    TOP_EXIT_CODES, after_help,
};

/// Where frames are published and read, unless an option names another file.
pub(crate) const METRICS_FILE: &str = "out/metrics.json";

/// More workers than this tell nothing new about one device.
const MAX_THREADS: u64 = 256;
/// What a device has at most.
const MAX_QUEUES: u64 = 16;
/// A week: longer than anybody waits for a soak.
const MAX_MINUTES: f64 = 7.0 * 24.0 * 60.0;
/// Keeps the list of measured latencies small.
const MAX_REPEAT: u64 = 10_000;

/// Many threads, one device.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, after_help = after_help(EXAMPLES, EXIT_CODES), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Let many threads develop photographs on one device, and check every result.
    #[command(after_help = after_help(DEMO_EXAMPLES, DEMO_EXIT_CODES))]
    Demo(DemoArgs),
    /// Run mixed load for a given time, check every answer, and tell what grew or was left.
    #[command(after_help = after_help(SOAK_EXAMPLES, SOAK_EXIT_CODES))]
    Soak(SoakArgs),
    /// Show what a soak or a demo that runs with `--publish` is doing: queues, memory, latencies, clients.
    #[command(after_help = after_help(TOP_EXAMPLES, TOP_EXIT_CODES))]
    Top(TopArgs),
    /// Draw a schedule, as `Schedule::dot` writes it, as SVG; Graphviz is not needed.
    #[command(after_help = after_help(DRAW_EXAMPLES, DRAW_EXIT_CODES))]
    Draw(DrawArgs),
    /// Sum up a saved timeline: how busy queues were, where they waited, what took long.
    #[command(after_help = after_help(TIMELINE_EXAMPLES, TIMELINE_EXIT_CODES))]
    Timeline(TimelineArgs),
    /// Measure what launches, waits, copies, recordings and graphs cost on this machine, in seconds.
    #[command(after_help = after_help(BENCH_EXAMPLES, BENCH_EXIT_CODES))]
    Bench(BenchArgs),
    /// Show which devices can be opened here, whether they do what they are told, and why others cannot.
    #[command(after_help = after_help(DOCTOR_EXAMPLES, DOCTOR_EXIT_CODES))]
    Doctor(DoctorArgs),
    /// Print what makes a shell complete these commands and their options.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
}

/// Options of `millstream demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// The device that runs the kernels.
    #[arg(long, value_enum, default_value_t = DemoBackend::Cpu)]
    pub(crate) backend: DemoBackend,

    /// Worker threads, each with a stream of its own.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub(crate) threads: u64,

    /// Queues of the device: how many streams can run side by side.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=MAX_QUEUES))]
    pub(crate) queues: u64,

    /// How streams that share a queue take turns.
    #[arg(long, value_enum, default_value_t = Order::Interleave)]
    pub(crate) strategy: Order,

    /// Folder of JPEG and PNG photographs (not searched recursively; names that begin with a dot
    /// are left alone) [default: assets/photos of the repository]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) input: Option<PathBuf>,

    /// Folder for the results; made if it is missing.
    #[arg(long, value_name = "FOLDER", default_value = "out/demo")]
    pub(crate) output: PathBuf,

    /// File for the timeline as data, which `millstream timeline` and Perfetto read.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) timeline: Option<PathBuf>,

    /// Tell what each kernel took, by the device's clock.
    #[arg(long)]
    pub(crate) profile: bool,

    /// File for what the device is doing, twice a second, which `millstream top` shows [without a name: out/metrics.json]
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = METRICS_FILE)]
    pub(crate) publish: Option<PathBuf>,

    /// How often each photograph is developed.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=MAX_REPEAT))]
    pub(crate) repeat: u64,

    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream soak`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SoakArgs {
    /// How long, in minutes; Ctrl-C ends it earlier, with its report.
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = minutes)]
    pub(crate) minutes: f64,

    /// Ends after so many clients of each thread instead.
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: Option<u64>,

    /// The device that is soaked.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    pub(crate) backend: Backend,

    /// Threads with mixed load; four more have equal clients.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub(crate) threads: u64,

    /// What the threads choose by.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Whether the simulator fails calls and tasks, and is lost and opened again now and then [default: on, with
    /// `--backend sim`]
    #[arg(long, value_enum, conflicts_with = "scale")]
    pub(crate) faults: Option<Switch>,

    /// File for what the device is doing, twice a second, which `millstream top` shows [without a name: out/metrics.json]
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = METRICS_FILE, conflicts_with = "scale")]
    pub(crate) publish: Option<PathBuf>,

    /// Opens, uses and drops 10,000 clients with 100,000 streams, some times over, instead.
    #[arg(long, conflicts_with_all = ["minutes", "rounds"])]
    pub(crate) scale: bool,

    /// Print one JSON object on standard output, with a sample for each second, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

impl SoakArgs {
    /// Does the device fail now and then? Only the simulator does.
    pub(crate) fn has_faults(&self) -> bool {
        self.backend == Backend::Sim && self.faults != Some(Switch::Off)
    }

    pub(crate) fn seconds(&self) -> u64 {
        (self.minutes * 60.0).ceil() as u64
    }
}

/// Options of `millstream top`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArgs {
    /// The file that a soak or a demo publishes to [default: out/metrics.json]
    #[arg(value_name = "FILE.json")]
    pub(crate) file: Option<PathBuf>,

    /// Print one frame as text; no terminal is needed.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print one frame as one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream draw`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DrawArgs {
    /// The schedule, in Graphviz's language.
    #[arg(value_name = "FILE.dot")]
    pub(crate) file: PathBuf,

    /// Where the drawing goes [default: beside the file, with the ending .svg]
    #[arg(long, short, value_name = "FILE.svg")]
    pub(crate) output: Option<PathBuf>,

    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream timeline`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TimelineArgs {
    /// The timeline, as `millstream demo --timeline FILE` or `millstream::timeline::write` wrote it.
    #[arg(value_name = "FILE.json")]
    pub(crate) file: PathBuf,

    /// Draws it as well: lanes of queues and streams, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,

    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// The device that is measured: cpu, cuda (the first NVIDIA GPU), cuda:N, or sim, whose figures are of a simulator.
    #[arg(long, visible_alias = "backend", value_name = "DEVICE", default_value = "cpu", value_parser = bench_device)]
    pub(crate) device: BenchDevice,

    /// Threads that launch together at most [default: twice the processor's, up to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub(crate) threads: Option<u64>,

    /// Few samples of little work: for looking, and not for quoting.
    #[arg(long)]
    pub(crate) quick: bool,

    /// What an earlier run printed with --json: tells the ratio of each figure, and whether it is more than noise.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) compare: Option<PathBuf>,

    /// Draws it as well: launches over threads, and what has changed, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,

    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A device that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchDevice {
    /// The processor.
    Cpu,
    /// The NVIDIA GPU of this number.
    Cuda(usize),
    /// The simulator.
    Sim,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

/// Options of `millstream doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Leaves the self-test out: some thousand steps on each device, about a second.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print one JSON object on standard output, and nothing else there.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `millstream completions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// A kind of device that has the demo's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DemoBackend {
    /// The processor: queues and teams of threads.
    Cpu,
    /// The first NVIDIA GPU, by CUDA.
    Cuda,
    /// The simulator: any order that waits permit, and a checker of every access.
    Sim,
}

/// A kind of device that can be soaked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backend {
    /// The processor: queues and teams of threads.
    Cpu,
    /// The simulator: any order that waits permit, and a checker of every access.
    Sim,
}

/// The strategy's name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// One task from each stream in turn.
    Interleave,
    /// Stream after stream.
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
    let cuda = |ordinal: &str| ordinal.parse().map(BenchDevice::Cuda).ok();
    let device = match given {
        "cpu" => Some(BenchDevice::Cpu),
        "sim" => Some(BenchDevice::Sim),
        "cuda" => Some(BenchDevice::Cuda(0)),
        _ => given.strip_prefix("cuda:").and_then(cuda),
    };
    device.ok_or_else(|| "it must be cpu, cuda, cuda:N or sim".to_owned())
}

fn minutes(given: &str) -> Result<f64, String> {
    match given.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MAX_MINUTES => Ok(minutes),
        Ok(_) => Err(format!("it must be more than 0 and at most {MAX_MINUTES}")),
        Err(error) => Err(error.to_string()),
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
    fn plain_demo_takes_the_documented_defaults() {
        let args = demo("millstream demo");
        assert_eq!((args.threads, args.queues, args.repeat), (8, 4, 4));
        assert_eq!(args.strategy, Order::Interleave);
        assert_eq!(args.output, PathBuf::from("out/demo"));
        assert!(args.input.is_none() && !args.json);
    }

    #[test]
    fn every_option_is_heard() {
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
    fn a_device_is_named_as_in_other_commands_or_by_its_number() {
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
    }

    #[test]
    fn zero_and_boundless_counts_are_bad_usage() {
        for line in [
            "millstream demo --threads 0",
            "millstream demo --threads 100000",
            "millstream demo --queues 0",
            "millstream demo --repeat 0",
            "millstream demo --backend abacus",
            "millstream soak --minutes 0",
            "millstream soak --minutes NaN",
            "millstream soak --minutes 1 --rounds 1",
            "millstream soak --rounds 0",
            "millstream soak --scale --backend sim --faults on",
            "millstream soak --scale --publish",
            "millstream top a.json b.json",
            "millstream draw",
            "millstream draw a.dot b.dot",
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

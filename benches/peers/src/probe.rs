//! The measurements by name: the function that takes a sample of each side, and its setting.
//!
//! A probe yields several figures at once; a row of the [`table`](crate::table) shows one of them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::measures::{Effort, Figures, answer, buffers, instructions, launch, upkeep};
use crate::ours::{self, Ours};
use crate::peer::{self, Peer};
use crate::reference;

/// Takes one sample.
type Measure = fn(Effort) -> Figures;

/// The side that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Side {
    /// cubecl.
    Peer,
    /// millstream.
    Ours,
    /// The standard library.
    Reference,
}

impl Side {
    /// All sides, in the order of a record.
    pub(crate) const ALL: [Self; 3] = [Self::Ours, Self::Peer, Self::Reference];

    /// Returns the side's name on the command line and in reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Ours => "ours",
            Self::Reference => "reference",
        }
    }
}

/// The setting in which a sample is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The system schedules the threads.
    Free,
    /// All threads run on one core.
    OneCore,
    /// Allocations are counted, and the times have no meaning.
    Counted,
    /// Likewise, and the figures are exact, so that one round suffices.
    Exact,
    /// Under callgrind, twice; the figure is `instructions`, the difference per launch. An exact count.
    Callgrind,
}

/// A measurement and the sides that it has.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    measures: BTreeMap<Side, Measure>,
}

impl Probe {
    /// Returns `true` if this side can be measured.
    pub(crate) fn has(&self, side: Side) -> bool {
        self.measures.contains_key(&side)
    }

    /// Returns `true` if one round suffices.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.setting, Setting::Exact | Setting::Callgrind)
    }
}

/// `[function; N]` is the same function over both [`Contender`](crate::contender::Contender)s.
macro_rules! probes {
    ($($name:literal $setting:ident:
        $([$($part:ident)::+ $(; $number:literal)?])? $($side:ident $measure:expr),*;)*) => {
        vec![$(Probe {
            name: $name,
            setting: Setting::$setting,
            measures: BTreeMap::from([
                $((Side::Peer, $($part)::+::<Peer $(, $number)?> as Measure),
                (Side::Ours, $($part)::+::<Ours $(, $number)?> as Measure),)?
                $((Side::$side, $measure as Measure)),*
            ]),
        }),*]
    };
}

/// Returns every measurement.
pub(crate) fn probes() -> Vec<Probe> {
    use ours::server;
    use peer::streams;
    probes! {
        "launch-bare" Free: [launch::bare] Reference reference::message;
        "launch-scalars" Free: [launch::three_and_scalars];
        "allocations-bare" Counted: [launch::bare];
        "allocations-scalars" Counted: [launch::three_and_scalars];
        "instructions-bare" Callgrind: [instructions::bare];
        "instructions-scalars" Callgrind: [instructions::three_and_scalars];
        "replay" Free: Ours ours::replay::bare;
        "replay-three" Free: Ours ours::replay::three;
        "threads-2" Free: [launch::many; 2] Reference reference::many::<2>;
        "threads-4" Free: [launch::many; 4] Reference reference::many::<4>;
        "threads-8" Free: [launch::many; 8] Reference reference::many::<8>;
        "one-core-1" OneCore: [launch::bare] Reference reference::message;
        "one-core-4" OneCore: [launch::many; 4] Reference reference::many::<4>;
        "sync-busy" Free: [answer::sync_busy];
        "read-busy" Free: [answer::read_busy];
        "sync-idle" Free: [answer::sync_idle] Reference reference::round_trip_idle;
        "start-parked" Free: [answer::start_parked] Reference reference::one_wake;
        "start-awake" Free: [answer::start_awake];
        "allocate-0" Free: [buffers::allocate_use_drop; 0];
        "allocate-100" Free: [buffers::allocate_use_drop; 100];
        "allocations-buffer" Counted: [buffers::allocate_use_drop; 100];
        "allocate-1000" Free: [buffers::allocate_use_drop; 1000];
        "allocate-10000" Free: [buffers::allocate_use_drop; 10_000];
        "bytes-buffer" Exact: [buffers::bytes_per_buffer];
        "bytes-stream" Exact: Ours |_| ours::memory::bytes_per_stream();
        "bytes-task" Exact: Ours |_| ours::memory::bytes_per_task();
        "hazards-own-3" Free: Peer streams::hazards::<3, 0>, Ours server::hazards::<3, 0>;
        "hazards-other-1" Free: Peer streams::hazards::<0, 1>, Ours server::hazards::<0, 1>;
        "hazards-other-3" Free: Peer streams::hazards::<0, 3>, Ours server::hazards::<0, 3>;
        "interleave-1" Free: Peer streams::scheduler_per_task::<1>, Ours server::scheduler_per_task::<1>;
        "interleave-8" Free: Peer streams::scheduler_per_task::<8>, Ours server::scheduler_per_task::<8>;
        "interleave-64" Free: Peer streams::scheduler_per_task::<64>, Ours server::scheduler_per_task::<64>;
        "idle" Free: [upkeep::idle];
        "thousand" Free: [upkeep::thousand_a_second];
    }
}

/// The arguments of the process that takes one sample.
#[derive(Args)]
pub(crate) struct SampleArguments {
    /// The side to measure.
    side: Side,
    /// The name of the probe.
    probe: String,
    /// Take a tenth of the samples.
    #[arg(long)]
    quick: bool,
    /// Run the longer batches of a sample under callgrind.
    #[arg(long)]
    long_batches: bool,
}

/// Takes one sample in this process and prints its figures as a JSON object.
pub(crate) fn sample(arguments: &SampleArguments) -> ExitCode {
    match figures(arguments) {
        Ok(json) => {
            println!("{json}");
            // Ends the threads that a measurement left behind, stuck ones included.
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn figures(arguments: &SampleArguments) -> Result<String, String> {
    let (name, side) = (&arguments.probe, arguments.side);
    let mut probes = probes().into_iter();
    let probe = probes.find(|probe| probe.name == name);
    let probe =
        probe.ok_or_else(|| format!("no probe is named `{name}`; `list` prints all probes"))?;
    let measure = probe.measures.get(&side);
    let measure = measure.ok_or_else(|| format!("probe `{name}` has no side `{}`", side.word()))?;
    if !matches!(probe.setting, Setting::Counted | Setting::Exact) {
        millstream_heap_count::stop();
    }
    let figures = measure(Effort {
        quick: arguments.quick,
        long_batches: arguments.long_batches,
    });
    let figures: BTreeMap<&str, f64> = figures.into_iter().collect();
    serde_json::to_string(&figures).map_err(|error| error.to_string())
}

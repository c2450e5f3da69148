//! The measurements by name: the function that takes a sample of each side, and its setting.
//!
//! A probe yields several figures at once; a row of the [`table`](crate::table) shows one of them.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::instruments::processor;
use crate::measures::{Effort, Figures, answer, buffers, instructions, launch, upkeep};
use crate::ours::{self, Ours};
use crate::peer::{self, Peer};
use crate::reference;

/// The time limit of a sample. A sample that takes longer is stuck, and an alarm ends it.
const SAMPLE_LIMIT: Duration = Duration::from_secs(60);

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
    /// The figures are exact counts, for which one round suffices.
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

macro_rules! probes {
    ($($name:literal $setting:ident: $($side:ident $measure:expr),+;)*) => {
        vec![$(Probe {
            name: $name,
            setting: Setting::$setting,
            measures: BTreeMap::from([$((Side::$side, $measure as Measure)),+]),
        }),*]
    };
}

/// Returns every measurement.
pub(crate) fn probes() -> Vec<Probe> {
    use ours::server;
    use peer::streams;
    probes! {
        "launch-bare" Free: Peer launch::bare::<Peer>, Ours launch::bare::<Ours>, Reference reference::message;
        "launch-three" Free: Peer launch::three::<Peer>, Ours launch::three::<Ours>;
        "launch-scalars" Free: Peer launch::three_and_scalars::<Peer>, Ours launch::three_and_scalars::<Ours>;
        "instructions-bare" Callgrind: Peer instructions::bare::<Peer>, Ours instructions::bare::<Ours>;
        "instructions-scalars" Callgrind:
            Peer instructions::three_and_scalars::<Peer>, Ours instructions::three_and_scalars::<Ours>;
        "replay" Free: Ours ours::replay::bare;
        "replay-three" Free: Ours ours::replay::three;
        "threads-2" Free: Peer launch::many::<Peer, 2>, Ours launch::many::<Ours, 2>, Reference reference::many::<2>;
        "threads-4" Free: Peer launch::many::<Peer, 4>, Ours launch::many::<Ours, 4>, Reference reference::many::<4>;
        "threads-8" Free: Peer launch::many::<Peer, 8>, Ours launch::many::<Ours, 8>, Reference reference::many::<8>;
        "one-core-1" OneCore: Peer launch::bare::<Peer>, Ours launch::bare::<Ours>, Reference reference::message;
        "one-core-4" OneCore: Peer launch::many::<Peer, 4>, Ours launch::many::<Ours, 4>, Reference reference::many::<4>;
        "sync-busy" Free: Peer answer::sync_busy::<Peer>, Ours answer::sync_busy::<Ours>;
        "read-busy" Free: Peer answer::read_busy::<Peer>, Ours answer::read_busy::<Ours>;
        "sync-idle" Free:
            Peer answer::sync_idle::<Peer>, Ours answer::sync_idle::<Ours>, Reference reference::round_trip_idle;
        "start-parked" Free:
            Peer answer::start_parked::<Peer>, Ours answer::start_parked::<Ours>, Reference reference::one_wake;
        "start-awake" Free: Peer answer::start_awake::<Peer>, Ours answer::start_awake::<Ours>;
        "allocate-0" Free: Peer buffers::allocate_use_drop::<Peer, 0>, Ours buffers::allocate_use_drop::<Ours, 0>;
        "allocate-100" Free: Peer buffers::allocate_use_drop::<Peer, 100>, Ours buffers::allocate_use_drop::<Ours, 100>;
        "allocate-1000" Free:
            Peer buffers::allocate_use_drop::<Peer, 1000>, Ours buffers::allocate_use_drop::<Ours, 1000>;
        "allocate-10000" Free:
            Peer buffers::allocate_use_drop::<Peer, 10_000>, Ours buffers::allocate_use_drop::<Ours, 10_000>;
        "bytes-buffer" Exact: Peer buffers::bytes_per_buffer::<Peer>, Ours buffers::bytes_per_buffer::<Ours>;
        "bytes-stream" Exact: Ours |_| ours::memory::bytes_per_stream();
        "bytes-task" Exact: Ours |_| ours::memory::bytes_per_task();
        "hazards-own-3" Free: Peer streams::hazards::<3, 0>, Ours server::hazards::<3, 0>;
        "hazards-other-1" Free: Peer streams::hazards::<0, 1>, Ours server::hazards::<0, 1>;
        "hazards-other-3" Free: Peer streams::hazards::<0, 3>, Ours server::hazards::<0, 3>;
        "interleave-1" Free: Peer streams::scheduler_per_task::<1>, Ours server::scheduler_per_task::<1>;
        "interleave-8" Free: Peer streams::scheduler_per_task::<8>, Ours server::scheduler_per_task::<8>;
        "interleave-64" Free: Peer streams::scheduler_per_task::<64>, Ours server::scheduler_per_task::<64>;
        "idle" Free: Peer upkeep::idle::<Peer>, Ours upkeep::idle::<Ours>;
        "thousand" Free: Peer upkeep::thousand_a_second::<Peer>, Ours upkeep::thousand_a_second::<Ours>;
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
    processor::end_after(SAMPLE_LIMIT);
    if probe.setting == Setting::OneCore {
        let pinned = processor::pin_to_one_core();
        pinned.map_err(|error| format!("cannot pin this process to one core: {error}"))?;
    }
    let figures = measure(Effort {
        quick: arguments.quick,
        long_batches: arguments.long_batches,
    });
    let figures: BTreeMap<&str, f64> = figures.into_iter().collect();
    serde_json::to_string(&figures).map_err(|error| error.to_string())
}

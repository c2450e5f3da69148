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
    /// All sides, in the order of a round.
    pub(crate) const ALL: [Self; 3] = [Self::Peer, Self::Ours, Self::Reference];

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
    /// Under callgrind, twice; the figure is `instructions`, the difference per launch.
    Callgrind,
}

/// A measurement and the sides that it has.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) setting: Setting,
    /// Whether the figures are exact counts, for which one round suffices.
    pub(crate) exact: bool,
    measures: BTreeMap<Side, Measure>,
}

impl Probe {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            setting: Setting::Free,
            exact: false,
            measures: BTreeMap::new(),
        }
    }

    fn on_one_core(self) -> Self {
        Self {
            setting: Setting::OneCore,
            ..self
        }
    }

    fn under_callgrind(self) -> Self {
        Self {
            setting: Setting::Callgrind,
            exact: true,
            ..self
        }
    }

    fn exact(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }

    fn side(mut self, side: Side, measure: Measure) -> Self {
        self.measures.insert(side, measure);
        self
    }

    fn peer(self, measure: Measure) -> Self {
        self.side(Side::Peer, measure)
    }

    fn ours(self, measure: Measure) -> Self {
        self.side(Side::Ours, measure)
    }

    fn reference(self, measure: Measure) -> Self {
        self.side(Side::Reference, measure)
    }

    /// Returns `true` if this side can be measured.
    pub(crate) fn has(&self, side: Side) -> bool {
        self.measures.contains_key(&side)
    }
}

/// Returns every measurement.
pub(crate) fn probes() -> Vec<Probe> {
    [launches(), answers(), memory(), streams(), upkeep()]
        .into_iter()
        .flatten()
        .collect()
}

fn launches() -> Vec<Probe> {
    vec![
        Probe::new("launch-bare")
            .peer(launch::bare::<Peer>)
            .ours(launch::bare::<Ours>)
            .reference(reference::message),
        Probe::new("launch-three")
            .peer(launch::three::<Peer>)
            .ours(launch::three::<Ours>),
        Probe::new("launch-scalars")
            .peer(launch::three_and_scalars::<Peer>)
            .ours(launch::three_and_scalars::<Ours>),
        Probe::new("instructions-bare")
            .under_callgrind()
            .peer(instructions::bare::<Peer>)
            .ours(instructions::bare::<Ours>),
        Probe::new("instructions-scalars")
            .under_callgrind()
            .peer(instructions::three_and_scalars::<Peer>)
            .ours(instructions::three_and_scalars::<Ours>),
        Probe::new("replay").ours(ours::replay::bare),
        Probe::new("replay-three").ours(ours::replay::three),
        Probe::new("threads-2")
            .peer(launch::many::<Peer, 2>)
            .ours(launch::many::<Ours, 2>)
            .reference(reference::many::<2>),
        Probe::new("threads-4")
            .peer(launch::many::<Peer, 4>)
            .ours(launch::many::<Ours, 4>)
            .reference(reference::many::<4>),
        Probe::new("threads-8")
            .peer(launch::many::<Peer, 8>)
            .ours(launch::many::<Ours, 8>)
            .reference(reference::many::<8>),
        Probe::new("one-core-1")
            .on_one_core()
            .peer(launch::bare::<Peer>)
            .ours(launch::bare::<Ours>)
            .reference(reference::message),
        Probe::new("one-core-4")
            .on_one_core()
            .peer(launch::many::<Peer, 4>)
            .ours(launch::many::<Ours, 4>)
            .reference(reference::many::<4>),
    ]
}

fn answers() -> Vec<Probe> {
    vec![
        Probe::new("sync-busy")
            .peer(answer::sync_busy::<Peer>)
            .ours(answer::sync_busy::<Ours>),
        Probe::new("read-busy")
            .peer(answer::read_busy::<Peer>)
            .ours(answer::read_busy::<Ours>),
        Probe::new("sync-idle")
            .peer(answer::sync_idle::<Peer>)
            .ours(answer::sync_idle::<Ours>)
            .reference(reference::round_trip_idle),
        Probe::new("start-parked")
            .peer(answer::start_parked::<Peer>)
            .ours(answer::start_parked::<Ours>)
            .reference(reference::one_wake),
        Probe::new("start-awake")
            .peer(answer::start_awake::<Peer>)
            .ours(answer::start_awake::<Ours>),
    ]
}

fn memory() -> Vec<Probe> {
    vec![
        Probe::new("allocate-0")
            .peer(buffers::allocate_use_drop::<Peer, 0>)
            .ours(buffers::allocate_use_drop::<Ours, 0>),
        Probe::new("allocate-100")
            .peer(buffers::allocate_use_drop::<Peer, 100>)
            .ours(buffers::allocate_use_drop::<Ours, 100>),
        Probe::new("allocate-1000")
            .peer(buffers::allocate_use_drop::<Peer, 1000>)
            .ours(buffers::allocate_use_drop::<Ours, 1000>),
        Probe::new("allocate-10000")
            .peer(buffers::allocate_use_drop::<Peer, 10_000>)
            .ours(buffers::allocate_use_drop::<Ours, 10_000>),
        Probe::new("bytes-buffer")
            .exact()
            .peer(buffers::bytes_per_buffer::<Peer>)
            .ours(buffers::bytes_per_buffer::<Ours>),
        Probe::new("bytes-stream")
            .exact()
            .ours(|_| ours::memory::bytes_per_stream()),
        Probe::new("bytes-task")
            .exact()
            .ours(|_| ours::memory::bytes_per_task()),
    ]
}

fn streams() -> Vec<Probe> {
    use ours::server;
    use peer::streams::{hazards, scheduler_per_task};
    vec![
        Probe::new("hazards-own-3")
            .peer(hazards::<3, 0>)
            .ours(server::hazards::<3, 0>),
        Probe::new("hazards-other-1")
            .peer(hazards::<0, 1>)
            .ours(server::hazards::<0, 1>),
        Probe::new("hazards-other-3")
            .peer(hazards::<0, 3>)
            .ours(server::hazards::<0, 3>),
        Probe::new("interleave-1")
            .peer(scheduler_per_task::<1>)
            .ours(server::scheduler_per_task::<1>),
        Probe::new("interleave-8")
            .peer(scheduler_per_task::<8>)
            .ours(server::scheduler_per_task::<8>),
        Probe::new("interleave-64")
            .peer(scheduler_per_task::<64>)
            .ours(server::scheduler_per_task::<64>),
    ]
}

fn upkeep() -> Vec<Probe> {
    vec![
        Probe::new("idle")
            .peer(upkeep::idle::<Peer>)
            .ours(upkeep::idle::<Ours>),
        Probe::new("thousand")
            .peer(upkeep::thousand_a_second::<Peer>)
            .ours(upkeep::thousand_a_second::<Ours>),
    ]
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
    let probe = probes()
        .into_iter()
        .find(|probe| probe.name == arguments.probe);
    let Some(probe) = probe else {
        eprintln!(
            "no probe is named `{}`; `list` prints all probes",
            arguments.probe
        );
        return ExitCode::FAILURE;
    };
    let Some(measure) = probe.measures.get(&arguments.side) else {
        eprintln!(
            "probe `{}` has no side `{}`",
            probe.name,
            arguments.side.word()
        );
        return ExitCode::FAILURE;
    };
    processor::end_after(SAMPLE_LIMIT);
    if probe.setting == Setting::OneCore
        && let Err(error) = processor::pin_to_one_core()
    {
        eprintln!("cannot pin this process to one core: {error}");
        return ExitCode::FAILURE;
    }
    let effort = Effort {
        quick: arguments.quick,
        long_batches: arguments.long_batches,
    };
    let figures: BTreeMap<&str, f64> = measure(effort).into_iter().collect();
    match serde_json::to_string(&figures) {
        Ok(json) => {
            println!("{json}");
            // Ends the threads that a measurement left behind, stuck ones included.
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("cannot write the figures as JSON: {error}");
            ExitCode::FAILURE
        }
    }
}

//! Runs of the programs, and what holds them back.

use std::sync::Arc;

use clap::ValueEnum;
use millstream::DeviceOptions;
use millstream::sim::{Checks, Sim};
use millstream_cluster_sim::{Link, Machine, SimCluster, Usage};

use crate::Failure;
use crate::digits::Training;
use crate::digits::model::{Images, rate};
use crate::machines::Figures;
use crate::reaction::{Domain, Reaction, Tasks};

/// The programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Program {
    Reaction,
    Digits,
}

/// How the work grows with the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Scaling {
    Strong,
    Weak,
}

/// What is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Reaction { rows: usize, columns: usize },
    Digits { batch: usize },
}

/// A change of a machine.
type Change = fn(&mut Machine);

/// The points in which another machine could differ.
const POINTS: [(&str, Change); 4] = [
    ("latency", |machine| {
        for link in links(machine) {
            link.latency_ns = 0;
        }
    }),
    ("bandwidth", |machine| {
        for link in links(machine) {
            link.bytes_per_us = u64::MAX;
        }
    }),
    ("contention", |machine| machine.contention = false),
    ("threads", |machine| {
        (machine.message_ns, machine.wake_ns) = (0, 0);
    }),
];

fn links(machine: &mut Machine) -> [&mut Link; 3] {
    [&mut machine.memory, &mut machine.port, &mut machine.uplink]
}

/// A run, and the same on other machines.
pub(crate) struct Point {
    pub(crate) ranks: usize,
    /// Cells or images of a step.
    pub(crate) work: f64,
    /// Nanoseconds of a step.
    pub(crate) step_ns: f64,
    /// Nanoseconds of a step if messages took no time.
    pub(crate) compute_ns: f64,
    pub(crate) messages: f64,
    pub(crate) bytes: f64,
    /// Nanoseconds of a step on a machine without one of the [`POINTS`]. Not measured if its kernels take nearly all of
    /// it.
    others_ns: Option<[f64; POINTS.len()]>,
}

impl Point {
    /// Runs a program on the machine and on its variants.
    pub(crate) fn measure(
        work: &Work,
        ranks: usize,
        steps: usize,
        figures: &Figures,
    ) -> Result<Self, Failure> {
        let mut running = Running::new(work, ranks, figures)?;
        let mut run = |changes: &[Change]| {
            let mut machine = figures.machine();
            changes.iter().for_each(|change| change(&mut machine));
            running.time(steps, &machine)
        };
        let (step_ns, usage) = run(&[])?;
        let (compute_ns, _) = run(&POINTS.map(|(_, change)| change))?;
        let mut others_ns = None;
        if compute_ns < NEARLY_ALL * step_ns {
            let mut all = [0.0; POINTS.len()];
            for (ns, (_, change)) in all.iter_mut().zip(POINTS) {
                *ns = run(&[change])?.0;
            }
            others_ns = Some(all);
        }
        Ok(Self {
            ranks,
            work: work.size(),
            step_ns,
            compute_ns,
            messages: usage.messages as f64 / steps as f64,
            bytes: usage.bytes as f64 / steps as f64,
            others_ns,
        })
    }

    /// Returns how long a step takes without each point.
    pub(crate) fn without(&self) -> serde_json::Value {
        let pairs = POINTS.iter().zip(self.others_ns.into_iter().flatten());
        pairs
            .map(|((name, _), ns)| ((*name).to_owned(), ns.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// Returns the point that makes the largest difference, and the share of a step that is not left without it.
    fn worst(&self) -> Option<(&'static str, f64)> {
        let pairs = POINTS.iter().zip(self.others_ns?);
        let gains = pairs.map(|((name, _), ns)| (*name, 1.0 - ns / self.step_ns));
        gains.max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Returns what takes most of a step: the kernels, or a point by the difference that it makes.
    pub(crate) fn reason(&self) -> String {
        let kernels = ("kernels", self.compute_ns / self.step_ns);
        let (name, share) = match self.worst() {
            Some(worst) if worst.1 > kernels.1 => worst,
            _ => kernels,
        };
        format!("{name} ({:.0} %)", 100.0 * share)
    }

    /// Returns what holds the run back, in a sentence. `first` is the run that it is compared with.
    pub(crate) fn explain(&self, first: &Self) -> String {
        let each = first.compute_ns * first.ranks as f64 / self.ranks as f64;
        let divided = each * self.work / first.work;
        let mut text = format!(
            "A step takes {:.1} us there, {:.1} us of it for kernels; divided among the ranks, the kernels of {} would take \
             {:.1} us.",
            self.step_ns / 1e3,
            self.compute_ns / 1e3,
            first.ranks,
            divided / 1e3
        );
        if let Some((name, share)) = self.worst() {
            text += &format!(
                " Without {name} a step would be {:.0} % shorter.",
                100.0 * share
            );
        }
        text
    }
}

/// The share of a step that its kernels take if nothing else holds it back.
const NEARLY_ALL: f64 = 0.95;

impl Work {
    /// Returns the number of cells or images of a step.
    fn size(self) -> f64 {
        match self {
            Self::Reaction { rows, columns } => rows as f64 * columns as f64,
            Self::Digits { batch } => batch as f64,
        }
    }
}

/// A program on all ranks.
struct Running {
    cluster: SimCluster,
    ranks: Ranks,
}

/// The ranks' parts of a program.
enum Ranks {
    Reaction(Vec<Reaction>),
    Digits {
        all: Vec<Training>,
        /// The images of a step.
        batch: Vec<usize>,
    },
}

impl Running {
    fn new(work: &Work, ranks: usize, figures: &Figures) -> Result<Self, Failure> {
        let columns = match work {
            Work::Reaction { columns, .. } => *columns,
            Work::Digits { .. } => 0,
        };
        let cost = figures.cost(columns);
        let device = |rank: usize| {
            Sim::seed(rank as u64)
                .queues(1)
                .checks(Checks::Off)
                .cost(cost.clone())
                .memory_bytes(1 << 40)
                .without_data()
        };
        let machine = figures.machine();
        let cluster = SimCluster::open(ranks, &machine, &DeviceOptions::default(), device)?;
        let ranks = match *work {
            Work::Reaction { rows, columns } => {
                let groups = cluster.group()?.into_iter();
                let part = |group| Reaction::unfilled(&group, Domain { rows, columns });
                let all = groups.map(part).collect::<Result<_, _>>();
                Ranks::Reaction(all.map_err(|error| error.to_string())?)
            }
            Work::Digits { batch } => {
                let (images, _) = Images::load();
                let batch: Vec<usize> = (0..batch).map(|image| image % images.len()).collect();
                // Each rank has one image to guess; they are not guessed here.
                let (pixels, digits) = images.select(&batch[..ranks]);
                let (images, tests) = (Arc::new(images), Images { pixels, digits });
                let groups = cluster.group()?.into_iter().zip(cluster.group()?);
                let part = |(first, last)| {
                    Training::new([first, last], batch.len(), images.clone(), &tests)
                };
                let all = groups.map(part).collect::<Result<_, _>>()?;
                Ranks::Digits { all, batch }
            }
        };
        Ok(Self { cluster, ranks })
    }

    /// Runs some steps. Returns the nanoseconds of one, from the start of all ranks to the end of the last, and what the
    /// messages of all used.
    fn time(&mut self, steps: usize, machine: &Machine) -> Result<(f64, Usage), Failure> {
        self.cluster.set_machine(machine);
        let start_ns = self.cluster.settle()?;
        let before = self.cluster.usage();
        match &mut self.ranks {
            Ranks::Reaction(all) => {
                for part in all {
                    let submitted = part.submit(Tasks::Step, steps);
                    submitted.map_err(|error| error.to_string())?;
                }
            }
            Ranks::Digits { all, batch } => {
                for part in all {
                    for _ in 0..steps {
                        drop(part.step(batch, rate(0))?);
                    }
                }
            }
        }
        let end_ns = self.cluster.settle()?;
        let mut usage = self.cluster.usage();
        usage.messages -= before.messages;
        usage.bytes -= before.bytes;
        Ok(((end_ns - start_ns) as f64 / steps as f64, usage))
    }
}

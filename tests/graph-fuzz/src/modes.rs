//! The modes of running a case.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use millstream::OpenError;
use millstream::graph::{GraphCache, GraphTuner, Parts};
use millstream::tune::{Effort, Tuner};
use serde::Serialize;

use crate::case::{Case, CaseError};
use crate::failing::each_input_fails;
use crate::rig::{Rig, upload};
use crate::trial::{Bound, Failure, RunResult, Trial, TrialSchedule, text_of};

/// A mode of running a case: a device, and what runs there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// The name.
    pub name: &'static str,
    on: On,
    way: Way,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Cpu,
    /// The simulator, which checks its rules.
    Sim,
    /// A GPU of CUDA: the fake driver, which checks its rules, or a real one.
    Cuda,
    /// The first GPU of Vulkan, with buffers as descriptors, which the validation layer checks.
    Descriptors,
    /// The same, with buffers as addresses.
    Addresses,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Each run several times, with these buffers bound.
    Plain(Bound),
    /// With every row of at least three elements split.
    Parts,
    /// With tuned blockings.
    Tuned,
    /// With each input poisoned in turn.
    Failing,
    /// Several threads run one compiled schedule at the same time.
    Threads,
}

const PLAIN: Way = Way::Plain(Bound::Inputs);
const SHORT: Way = Way::Plain(Bound::Short);

impl Mode {
    const fn new(name: &'static str, on: On, way: Way) -> Self {
        Self { name, on, way }
    }

    /// All modes that need no GPU.
    pub const WITHOUT_GPU: [Mode; 11] = [
        Mode::new("cpu", On::Cpu, PLAIN),
        Mode::new("sim", On::Sim, PLAIN),
        Mode::new("bound", On::Cpu, Way::Plain(Bound::All)),
        Mode::new("short", On::Cpu, SHORT),
        Mode::new("short-sim", On::Sim, SHORT),
        Mode::new("parts", On::Cpu, Way::Parts),
        Mode::new("parts-sim", On::Sim, Way::Parts),
        Mode::new("tuned", On::Cpu, Way::Tuned),
        Mode::new("failing", On::Cpu, Way::Failing),
        Mode::new("failing-sim", On::Sim, Way::Failing),
        Mode::new("threads", On::Cpu, Way::Threads),
    ];

    /// The modes that need a device of Vulkan.
    pub const OF_VULKAN: [Mode; 6] = [
        Mode::new("vulkan", On::Descriptors, PLAIN),
        Mode::new("short-vulkan", On::Addresses, SHORT),
        Mode::new("parts-vulkan", On::Descriptors, Way::Parts),
        Mode::new("failing-vulkan", On::Descriptors, Way::Failing),
        Mode::new("tuned-vulkan", On::Addresses, Way::Tuned),
        Mode::new("threads-vulkan", On::Descriptors, Way::Threads),
    ];

    /// The modes that need NVRTC and a GPU or the fake driver.
    pub const OF_GPU: [Mode; 4] = [
        Mode::new("cuda", On::Cuda, PLAIN),
        Mode::new("short-cuda", On::Cuda, SHORT),
        Mode::new("parts-cuda", On::Cuda, Way::Parts),
        Mode::new("failing-cuda", On::Cuda, Way::Failing),
    ];

    /// Returns the mode of this name.
    ///
    /// # Errors
    /// There is no such mode.
    pub fn of(word: &str) -> Result<Self, CaseError> {
        let all = Mode::WITHOUT_GPU.into_iter().chain(Mode::OF_GPU);
        let mut all = all.chain(Mode::OF_VULKAN);
        let mode = all.find(|mode| mode.name == word);
        mode.ok_or_else(|| CaseError(format!("unknown mode `{word}`")))
    }
}

/// A difference or failure of a case in a mode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The name of the mode.
    pub mode: &'static str,
    /// The description.
    pub what: String,
}

/// Runs cases on devices, one after the other. After a finding on a device the next case opens another one.
#[derive(Default)]
pub struct Runner {
    /// The devices, by [`On`].
    rigs: [Option<Rig>; 5],
}

impl Runner {
    /// Runs a case in these modes, or in those that the case names. Panics of the library are caught and reported as
    /// findings.
    ///
    /// # Errors
    /// An invalid case.
    pub fn run(&mut self, case: &Case, modes: &[Mode]) -> Result<Vec<Finding>, CaseError> {
        let own = case.modes.iter().map(|word| Mode::of(word));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let modes = if own.is_empty() { modes } else { &own };
        let mut found = Vec::new();
        for mode in modes {
            let ran = catch_unwind(AssertUnwindSafe(|| self.run_in(case, *mode)));
            let what = match ran {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(what))) => what,
                Ok(Err(error)) => return Err(error),
                Err(panic) => format!("a panic: {}", message_of(&*panic)),
            };
            let name = mode.name;
            found.push(Finding { mode: name, what });
            self.rigs[mode.on as usize] = None;
        }
        Ok(found)
    }

    /// Returns the findings of some cases in these modes, one line for each.
    ///
    /// # Errors
    /// An invalid case.
    pub fn findings(
        cases: impl Iterator<Item = Case>,
        modes: &[Mode],
    ) -> Result<Vec<String>, CaseError> {
        let mut runner = Runner::default();
        let mut lines = Vec::new();
        for case in cases {
            for Finding { mode, what } in runner.run(&case, modes)? {
                lines.push(format!("{} [{mode}] {what}", case.name));
            }
        }
        Ok(lines)
    }

    fn run_in(&mut self, case: &Case, mode: Mode) -> Result<Result<(), Failure>, CaseError> {
        let trial = Trial::new(case)?;
        let refused = trial.built.nodes.iter().find_map(|node| node.error());
        if let Some(error) = refused {
            return Ok(Err(format!("a node is refused: {error}")));
        }
        let rig = match self.rig(mode.on) {
            Ok(rig) => rig,
            Err(error) => return Ok(Err(format!("the device cannot be opened: {error}"))),
        };
        let ran = match mode.way {
            Way::Plain(bound) => plain(&trial, rig, Parts::default(), bound),
            Way::Parts => plain(&trial, rig, small_parts(), Bound::Inputs),
            Way::Tuned => tuned(&trial, rig),
            Way::Failing => each_input_fails(&trial, rig),
            Way::Threads => by_threads(&trial, rig),
        };
        Ok(match (ran, rig.violation()) {
            (Err(what), _) => Err(what),
            (Ok(()), Some(violation)) => Err(violation),
            (Ok(()), None) => Ok(()),
        })
    }

    fn rig(&mut self, on: On) -> Result<&Rig, OpenError> {
        let rig = &mut self.rigs[on as usize];
        let opened = match rig.take() {
            Some(opened) => opened,
            None => match on {
                On::Cpu => Rig::cpu()?,
                On::Sim => Rig::sim()?,
                On::Cuda => Rig::gpu()?,
                On::Descriptors => Rig::vulkan(true)?,
                On::Addresses => Rig::vulkan(false)?,
            },
        };
        Ok(rig.insert(opened))
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "no message".to_owned(),
    }
}

/// Splits rows of at least three elements.
fn small_parts() -> Parts {
    Parts::default().of_rows_beyond(2).of_at_least(1).at_most(7)
}

fn plain(trial: &Trial<'_>, rig: &Rig, parts: Parts, bound: Bound) -> Result<(), Failure> {
    let schedule = trial.schedule(rig, parts, &GraphCache::default(), bound)?;
    run_from(&schedule, rig, 0)
}

/// Runs each run several times on one stream, starting with this one.
fn run_from(schedule: &TrialSchedule<'_>, rig: &Rig, first: usize) -> Result<(), Failure> {
    let trial = schedule.trial;
    let stream = rig.device.new_client().new_stream();
    let runs = trial.case.runs.len();
    for _ in 0..ROUNDS {
        for run in (0..runs).map(|run| (first + run) % runs) {
            let handles = upload(&stream, &trial.memory).map_err(text_of)?;
            if let RunResult::Done(outputs, handles) = schedule.submit(run, handles, &stream)? {
                trial.compare(&stream, &outputs, &handles, run)?;
            }
        }
    }
    Ok(())
}

/// The number of threads that run one compiled schedule, each on its own stream.
const THREADS: usize = 3;

/// How often each thread makes every run.
const ROUNDS: usize = 2;

fn by_threads(trial: &Trial<'_>, rig: &Rig) -> Result<(), Failure> {
    let cache = GraphCache::default();
    let schedule = &trial.schedule(rig, Parts::default(), &cache, Bound::Inputs)?;
    std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|first| scope.spawn(move || run_from(schedule, rig, first)));
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

fn tuned(trial: &Trial<'_>, rig: &Rig) -> Result<(), Failure> {
    let effort = Effort::default()
        .samples(3)
        .budget(Duration::from_micros(1));
    let tuner = GraphTuner::with(Tuner::with_effort(effort));
    let cache = GraphCache::default().tuned_by(tuner);
    let schedule = trial.schedule(rig, Parts::default(), &cache, Bound::Inputs)?;
    run_from(&schedule, rig, 0)
}

//! The ways in which a case is run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use millstream::OpenError;
use millstream::graph::{CompiledSchedule, GraphCache, GraphTuner, Parts, Schedule};
use millstream::tune::{Effort, Tuner};
use serde::Serialize;

use crate::case::{Case, CaseError};
use crate::failing::{each_input_fails, each_input_fails_held};
use crate::held::{ROUNDS, held};
use crate::rig::{Rig, upload};
use crate::trial::{Bound, Held, Ran, Trial, Wrong, told};

/// A way in which a case is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// On the CPU.
    Cpu,
    /// On the simulator, which looks for rules that are broken.
    Sim,
    /// On the CPU, with buffers bound for what comes out, and something else in them before.
    Bound,
    /// On the CPU, with buffers bound that have no byte more than the lengths of the run need.
    Short,
    /// The same on the simulator.
    ShortSim,
    /// With rows cut in parts, however short they are.
    Parts,
    /// With what does not change made once.
    Held,
    /// With programs cut up as a tuner finds.
    Tuned,
    /// On the CPU, each input in turn being of failed data.
    Failing,
    /// The same on the simulator.
    FailingSim,
    /// On the CPU, where inputs are held.
    FailingHeld,
    /// On the CPU, one compiled schedule run by several threads at once.
    Threads,
    /// On a GPU: the fake driver, which looks for rules that are broken, or a real one.
    Cuda,
    /// On the GPU, with buffers bound that have no byte more than the lengths of the run need.
    ShortCuda,
    /// On the GPU, each input in turn being of failed data.
    FailingCuda,
}

impl Mode {
    /// All that need no GPU.
    pub const WITHOUT_GPU: [Mode; 12] = [
        Mode::Cpu,
        Mode::Sim,
        Mode::Bound,
        Mode::Short,
        Mode::ShortSim,
        Mode::Parts,
        Mode::Held,
        Mode::Tuned,
        Mode::Failing,
        Mode::FailingSim,
        Mode::FailingHeld,
        Mode::Threads,
    ];

    /// Those that need a GPU, or the fake driver in its place, and NVRTC.
    pub const OF_GPU: [Mode; 3] = [Mode::Cuda, Mode::ShortCuda, Mode::FailingCuda];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Cpu => "cpu",
            Mode::Sim => "sim",
            Mode::Bound => "bound",
            Mode::Short => "short",
            Mode::ShortSim => "short-sim",
            Mode::ShortCuda => "short-cuda",
            Mode::Parts => "parts",
            Mode::Held => "held",
            Mode::Tuned => "tuned",
            Mode::Failing => "failing",
            Mode::FailingSim => "failing-sim",
            Mode::FailingHeld => "failing-held",
            Mode::Threads => "threads",
            Mode::Cuda => "cuda",
            Mode::FailingCuda => "failing-cuda",
        }
    }

    /// The mode of a word.
    ///
    /// # Errors
    /// A word that no mode has.
    pub fn of(word: &str) -> Result<Self, CaseError> {
        let all = Mode::WITHOUT_GPU.into_iter().chain(Mode::OF_GPU);
        let mode = { all }.find(|mode| mode.name() == word);
        mode.ok_or_else(|| CaseError::Mode(word.to_owned()))
    }
}

/// What is wrong with a case in a mode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The word of the mode.
    pub mode: &'static str,
    /// What is wrong.
    pub what: String,
}

/// Devices that cases are run on, one after the other. What is found wrong on one is the last that is run there: another is opened.
#[derive(Default)]
pub struct Bench {
    cpu: Option<Rig>,
    sim: Option<Rig>,
    gpu: Option<Rig>,
}

impl Bench {
    /// Runs a case in these modes, or those of the case if it names some. Panics of the library are caught, and are findings.
    ///
    /// # Errors
    /// A case that is none.
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
            let mode_name = mode.name();
            found.push(Finding {
                mode: mode_name,
                what,
            });
            *self.rig_of(*mode) = None;
        }
        Ok(found)
    }

    fn rig_of(&mut self, mode: Mode) -> &mut Option<Rig> {
        match mode {
            Mode::Sim | Mode::ShortSim | Mode::FailingSim => &mut self.sim,
            Mode::Cuda | Mode::ShortCuda | Mode::FailingCuda => &mut self.gpu,
            _ => &mut self.cpu,
        }
    }

    fn run_in(&mut self, case: &Case, mode: Mode) -> Result<Result<(), Wrong>, CaseError> {
        let trial = Trial::new(case)?;
        let refused = trial.built.nodes.iter().find_map(|node| node.error());
        if let Some(error) = refused {
            return Ok(Err(format!("a node is refused: {error}")));
        }
        let rig = match self.rig(mode) {
            Ok(rig) => rig,
            Err(error) => return Ok(Err(format!("the device was not opened: {error}"))),
        };
        let ran = match mode {
            Mode::Cpu | Mode::Sim | Mode::Cuda => plain(&trial, rig, None, Bound::Inputs),
            Mode::Bound => plain(&trial, rig, None, Bound::All),
            Mode::Short | Mode::ShortSim | Mode::ShortCuda => {
                plain(&trial, rig, None, Bound::Short)
            }
            Mode::Parts => plain(&trial, rig, Some(small_parts()), Bound::Inputs),
            Mode::Held => held(&trial, rig),
            Mode::FailingHeld => each_input_fails_held(&trial, rig),
            Mode::Tuned => tuned(&trial, rig),
            Mode::Failing | Mode::FailingSim | Mode::FailingCuda => each_input_fails(&trial, rig),
            Mode::Threads => by_threads(&trial, rig),
        };
        Ok(match (ran, rig.violation()) {
            (Err(what), _) => Err(what),
            (Ok(()), Some(violation)) => Err(violation),
            (Ok(()), None) => Ok(()),
        })
    }

    fn rig(&mut self, mode: Mode) -> Result<&Rig, OpenError> {
        let rig = self.rig_of(mode);
        if rig.is_none() {
            *rig = Some(match mode {
                Mode::Sim | Mode::ShortSim | Mode::FailingSim => Rig::sim()?,
                Mode::Cuda | Mode::ShortCuda | Mode::FailingCuda => Rig::gpu()?,
                _ => Rig::cpu()?,
            });
        }
        match rig {
            Some(rig) => Ok(rig),
            None => unreachable!("it was opened just now"),
        }
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "without words".to_owned(),
    }
}

/// Rows of three elements are long.
fn small_parts() -> Parts {
    Parts::default().of_rows_beyond(2).of_at_least(1).at_most(7)
}

fn plain(trial: &Trial<'_>, rig: &Rig, parts: Option<Parts>, bound: Bound) -> Result<(), Wrong> {
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = match parts {
        None => Schedule::create(&roots),
        Some(parts) => Schedule::create_in_parts(&roots, parts),
    };
    let schedule = schedule.map_err(|error| format!("create: {error}"))?;
    for item in schedule.items() {
        if let Some(program) = item.program() {
            let checked = program.check();
            checked.map_err(|error| format!("a program is wrong: {error:?}"))?;
        }
    }
    let client = rig.device.new_client();
    let compiled = schedule.compile(&client);
    let compiled = compiled.map_err(|error| format!("compile: {error}"))?;
    run_all(trial, rig, &compiled, bound)
}

fn run_all(
    trial: &Trial<'_>,
    rig: &Rig,
    compiled: &CompiledSchedule,
    bound: Bound,
) -> Result<(), Wrong> {
    trial.forget(bound);
    run_from(trial, rig, compiled, 0)
}

/// Each run a few times on a stream, beginning with this one.
fn run_from(
    trial: &Trial<'_>,
    rig: &Rig,
    compiled: &CompiledSchedule,
    first: usize,
) -> Result<(), Wrong> {
    let stream = rig.device.new_client().new_stream();
    let runs = trial.case.runs.len();
    for _ in 0..ROUNDS {
        for run in (0..runs).map(|run| (first + run) % runs) {
            let handles = upload(&stream, &trial.memory).map_err(told)?;
            let held = Held::default();
            let ran = trial.submit(|| compiled.run(), run, handles, &stream, &held)?;
            if let Ran::Done(outputs, handles) = ran {
                trial.compare(&stream, &outputs, &handles, run)?;
            }
        }
    }
    Ok(())
}

/// Threads that run one compiled schedule, each on a stream of its own.
const THREADS: usize = 3;

fn by_threads(trial: &Trial<'_>, rig: &Rig) -> Result<(), Wrong> {
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = Schedule::create(&roots).map_err(|error| format!("create: {error}"))?;
    let compiled = schedule.compile(&rig.device.new_client());
    let compiled = &compiled.map_err(|error| format!("compile: {error}"))?;
    trial.forget(Bound::Inputs);
    std::thread::scope(|scope| {
        let threads =
            (0..THREADS).map(|first| scope.spawn(move || run_from(trial, rig, compiled, first)));
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

fn tuned(trial: &Trial<'_>, rig: &Rig) -> Result<(), Wrong> {
    let effort = Effort::default()
        .samples(3)
        .budget(Duration::from_micros(1));
    let tuner = GraphTuner::with(Tuner::with_effort(effort));
    let cache = GraphCache::default().tuned_by(tuner);
    let client = rig.device.new_client();
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = Schedule::create(&roots).map_err(|error| format!("create: {error}"))?;
    let compiled = schedule.compile_with_cache(&client, &cache);
    let compiled = compiled.map_err(|error| format!("compile: {error}"))?;
    run_all(trial, rig, &compiled, Bound::Inputs)
}

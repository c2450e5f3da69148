//! The modes of running a case.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use millstream::OpenError;
use millstream::graph::{CompiledSchedule, GraphCache, GraphTuner, Parts, Schedule};
use millstream::tune::{Effort, Tuner};
use serde::Serialize;

use crate::case::{Case, CaseError};
use crate::failing::each_input_fails;
use crate::rig::{Rig, upload};
use crate::trial::{Bound, Failure, RunResult, Trial, text_of};

/// A mode of running a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// On the CPU.
    Cpu,
    /// On the simulator, which checks its rules.
    Sim,
    /// On the CPU, with bound output buffers that contain other data before.
    Bound,
    /// On the CPU, with bound buffers without a byte more than the lengths of the run need.
    Short,
    /// As `Short`, on the simulator.
    ShortSim,
    /// With every row of at least three elements split.
    Parts,
    /// With tuned blockings.
    Tuned,
    /// On the CPU, with each input poisoned in turn.
    Failing,
    /// As `Failing`, on the simulator.
    FailingSim,
    /// On the CPU, with several threads that run one compiled schedule at the same time.
    Threads,
    /// On a GPU: the fake driver, which checks its rules, or a real one.
    Cuda,
    /// On the GPU, with bound buffers without a byte more than the lengths of the run need.
    ShortCuda,
    /// On the GPU, with each input poisoned in turn.
    FailingCuda,
    /// On the first GPU of Vulkan, with buffers as descriptors, which the validation layer checks.
    Vulkan,
    /// On Vulkan, with buffers as addresses, and bound buffers without a byte more than the lengths of the run need.
    ShortVulkan,
    /// On Vulkan, with each input poisoned in turn.
    FailingVulkan,
    /// On Vulkan, with buffers as addresses, and with tuned blockings.
    TunedVulkan,
    /// On Vulkan, with several threads that run one compiled schedule at the same time.
    ThreadsVulkan,
}

impl Mode {
    /// All modes that need no GPU.
    pub const WITHOUT_GPU: [Mode; 10] = [
        Mode::Cpu,
        Mode::Sim,
        Mode::Bound,
        Mode::Short,
        Mode::ShortSim,
        Mode::Parts,
        Mode::Tuned,
        Mode::Failing,
        Mode::FailingSim,
        Mode::Threads,
    ];

    /// The modes that need a device of Vulkan.
    pub const OF_VULKAN: [Mode; 5] = [
        Mode::Vulkan,
        Mode::ShortVulkan,
        Mode::FailingVulkan,
        Mode::TunedVulkan,
        Mode::ThreadsVulkan,
    ];

    /// The modes that need NVRTC and a GPU or the fake driver.
    pub const OF_GPU: [Mode; 3] = [Mode::Cuda, Mode::ShortCuda, Mode::FailingCuda];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Cpu => "cpu",
            Mode::Sim => "sim",
            Mode::Bound => "bound",
            Mode::Short => "short",
            Mode::ShortSim => "short-sim",
            Mode::ShortCuda => "short-cuda",
            Mode::Parts => "parts",
            Mode::Tuned => "tuned",
            Mode::Failing => "failing",
            Mode::FailingSim => "failing-sim",
            Mode::Threads => "threads",
            Mode::Cuda => "cuda",
            Mode::FailingCuda => "failing-cuda",
            Mode::Vulkan => "vulkan",
            Mode::ShortVulkan => "short-vulkan",
            Mode::FailingVulkan => "failing-vulkan",
            Mode::TunedVulkan => "tuned-vulkan",
            Mode::ThreadsVulkan => "threads-vulkan",
        }
    }

    /// Returns the mode of this name.
    ///
    /// # Errors
    /// [`CaseError::Mode`] if there is no such mode.
    pub fn of(word: &str) -> Result<Self, CaseError> {
        let all = Mode::WITHOUT_GPU.into_iter().chain(Mode::OF_GPU);
        let all = all.chain(Mode::OF_VULKAN);
        let mode = { all }.find(|mode| mode.name() == word);
        mode.ok_or_else(|| CaseError::Mode(word.to_owned()))
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
    cpu: Option<Rig>,
    sim: Option<Rig>,
    gpu: Option<Rig>,
    vulkan: [Option<Rig>; 2],
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
            let mode_name = mode.name();
            found.push(Finding {
                mode: mode_name,
                what,
            });
            *self.rig_of(*mode) = None;
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

    fn rig_of(&mut self, mode: Mode) -> &mut Option<Rig> {
        match mode {
            Mode::Sim | Mode::ShortSim | Mode::FailingSim => &mut self.sim,
            Mode::Cuda | Mode::ShortCuda | Mode::FailingCuda => &mut self.gpu,
            Mode::Vulkan | Mode::FailingVulkan | Mode::ThreadsVulkan => &mut self.vulkan[0],
            Mode::ShortVulkan | Mode::TunedVulkan => &mut self.vulkan[1],
            _ => &mut self.cpu,
        }
    }

    fn run_in(&mut self, case: &Case, mode: Mode) -> Result<Result<(), Failure>, CaseError> {
        let trial = Trial::new(case)?;
        let refused = trial.built.nodes.iter().find_map(|node| node.error());
        if let Some(error) = refused {
            return Ok(Err(format!("a node is refused: {error}")));
        }
        let rig = match self.rig(mode) {
            Ok(rig) => rig,
            Err(error) => return Ok(Err(format!("the device cannot be opened: {error}"))),
        };
        let ran = match mode {
            Mode::Cpu | Mode::Sim | Mode::Cuda | Mode::Vulkan => {
                plain(&trial, rig, None, Bound::Inputs)
            }
            Mode::Bound => plain(&trial, rig, None, Bound::All),
            Mode::Short | Mode::ShortSim | Mode::ShortCuda | Mode::ShortVulkan => {
                plain(&trial, rig, None, Bound::Short)
            }
            Mode::Parts => plain(&trial, rig, Some(small_parts()), Bound::Inputs),
            Mode::Tuned | Mode::TunedVulkan => tuned(&trial, rig),
            Mode::Failing | Mode::FailingSim | Mode::FailingCuda | Mode::FailingVulkan => {
                each_input_fails(&trial, rig)
            }
            Mode::Threads | Mode::ThreadsVulkan => by_threads(&trial, rig),
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
                Mode::Vulkan | Mode::FailingVulkan | Mode::ThreadsVulkan => Rig::vulkan(true)?,
                Mode::ShortVulkan | Mode::TunedVulkan => Rig::vulkan(false)?,
                _ => Rig::cpu()?,
            });
        }
        match rig {
            Some(rig) => Ok(rig),
            None => unreachable!("the device was opened above"),
        }
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

fn plain(trial: &Trial<'_>, rig: &Rig, parts: Option<Parts>, bound: Bound) -> Result<(), Failure> {
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = match parts {
        None => Schedule::create(&roots),
        Some(parts) => Schedule::create_split(&roots, parts),
    };
    let schedule = schedule.map_err(|error| format!("create: {error}"))?;
    for item in schedule.items() {
        if let Some(program) = item.program() {
            let checked = program.check();
            checked.map_err(|error| format!("invalid program: {error:?}"))?;
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
) -> Result<(), Failure> {
    trial.start_schedule(bound);
    run_from(trial, rig, compiled, 0)
}

/// Runs each run several times on one stream, starting with this one.
fn run_from(
    trial: &Trial<'_>,
    rig: &Rig,
    compiled: &CompiledSchedule,
    first: usize,
) -> Result<(), Failure> {
    let stream = rig.device.new_client().new_stream();
    let runs = trial.case.runs.len();
    for _ in 0..ROUNDS {
        for run in (0..runs).map(|run| (first + run) % runs) {
            let handles = upload(&stream, &trial.memory).map_err(text_of)?;
            let ran = trial.submit(|| compiled.run(), run, handles, &stream)?;
            if let RunResult::Done(outputs, handles) = ran {
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
    let roots: Vec<_> = trial.built.roots.iter().collect();
    let schedule = Schedule::create(&roots).map_err(|error| format!("create: {error}"))?;
    let compiled = schedule.compile(&rig.device.new_client());
    let compiled = &compiled.map_err(|error| format!("compile: {error}"))?;
    trial.start_schedule(Bound::Inputs);
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

fn tuned(trial: &Trial<'_>, rig: &Rig) -> Result<(), Failure> {
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

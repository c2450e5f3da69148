//! A case: run it, and make a failing one small.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use millstream::{ComputeClient, Device, Error, Health, Priority};

use crate::relic::Relic;
use crate::setting::{Fault, Setting};
use millstream_testkit::{Dice, End, Excuses, Ground, Kernels, Program};

/// Steps of a fresh case.
const STEPS: u32 = 120;

/// The most that a client may have before others go first: some buffers.
const SOFT_LIMIT_MAX: usize = 8 << 10;

/// One program on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Chooses the device and what every step does.
    pub seed: u64,
    /// The steps that are made, in order.
    pub steps: Vec<u32>,
    /// A fault in place of those that the seed chooses.
    pub fault: Option<Fault>,
}

/// What became of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It computed what it must, and broke no rule.
    Right(Figures),
    /// What was wrong, as a sentence.
    Wrong(String),
}

/// What a case did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Tasks that ran on the device.
    pub tasks: u64,
    /// Waits between queues.
    pub waits: u64,
    /// Those that were of no use.
    pub needless_waits: u64,
    /// Faults that were injected.
    pub faults: u64,
}

impl Figures {
    /// These and those.
    pub fn and(self, other: Figures) -> Figures {
        Figures {
            tasks: self.tasks + other.tasks,
            waits: self.waits + other.waits,
            needless_waits: self.needless_waits + other.needless_waits,
            faults: self.faults + other.faults,
        }
    }
}

impl Case {
    /// The case of a seed, whole.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            steps: (0..STEPS).collect(),
            fault: None,
        }
    }

    /// The case of a seed, with one fault and no other.
    pub fn with_fault(seed: u64, fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::new(seed)
        }
    }

    /// Runs it on the calling thread. Panics of the runtime are caught, and wrong.
    pub fn run(&self) -> Verdict {
        let setting = Setting::new(self.seed, self.fault);
        let findings = setting.sim.findings();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run_in(setting)));
        if let Some(violation) = findings.violations().first() {
            let more = findings.violations_seen() - 1;
            return Verdict::Wrong(format!("{violation} (and {more} more)"));
        }
        match outcome {
            Ok(Ok(())) => {
                let figures = findings.figures();
                Verdict::Right(Figures {
                    tasks: figures.tasks,
                    waits: figures.waits.issued,
                    needless_waits: figures.waits.implied + figures.waits.passed,
                    faults: figures.faults,
                })
            }
            Ok(Err(what)) => Verdict::Wrong(what),
            Err(panic) => Verdict::Wrong(format!("a panic: {}", message_of(&*panic))),
        }
    }

    fn run_in(&self, setting: Setting) -> Result<(), String> {
        let (device, driver) = Device::open_driven(setting.sim, setting.options)
            .map_err(|error| format!("the device was not opened: {error}"))?;
        let relic = self.run_on(&device, &setting.ground)?;
        if let (Some(relic), Health::Lost { .. }) = (&relic, device.health()) {
            self.run_again(&device, relic)?;
        }
        drop((relic, device));
        let report = driver.close();
        match (report.drained, report.slices_held, report.tasks_left) {
            (true, 0, 0) => Ok(()),
            _ if setting.ground.excuses.has(Excuses::LOST) => Ok(()),
            _ => Err(format!("teardown left something behind (I10): {report:?}")),
        }
    }

    /// The program, on a device. What it leaves to be looked at when the device is another, if it came so far.
    fn run_on(&self, device: &Device, ground: &Ground) -> Result<Option<Relic>, String> {
        let dice = &mut Dice::new(self.seed, u64::MAX);
        let clients = clients(device, self.seed);
        let kernels = match Kernels::native(&clients[0]) {
            Ok(kernels) => kernels,
            // A kernel that does not compile any more says why.
            Err(Error::DeviceLost { .. } | Error::Kernel(_))
                if ground.excuses.has(Excuses::LOST) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(format!("a call was refused: {error}")),
        };
        let made = Program::new(ground.clone(), clients, kernels, dice);
        let Some(mut program) = unless_lost(ground, made)? else {
            return Ok(None);
        };
        let mut is_lost = false;
        for step in &self.steps {
            let dice = &mut Dice::new(self.seed, u64::from(*step));
            let done = match is_lost {
                // All that is left is to hear all answers.
                true => program.settle_one(dice),
                false => program.step(dice),
            };
            is_lost |= unless_lost(ground, done)?.is_none();
        }
        let relic = Relic::of(&program);
        let last = &mut Dice::new(self.seed, u64::from(u32::MAX));
        unless_lost(ground, program.finish(last))?;
        Ok(relic)
    }

    /// The whole program once more, on a lost device that is opened again: nothing fails but what it makes fail
    /// itself, and what was made before says that it is old.
    fn run_again(&self, device: &Device, relic: &Relic) -> Result<(), String> {
        device
            .reopen()
            .map_err(|error| format!("the device was not reopened: {error}"))?;
        relic.is_old(device)?;
        let ground = Setting::ground(Excuses::NONE);
        self.run_on(device, &ground)?;
        relic.is_old(device)
    }

    /// The smallest case that it finds from here, within `time`, that is wrong as well, whatever about.
    pub fn shrunk(&self, time: Duration) -> Case {
        let begin = Instant::now();
        let mut smallest = self.clone();
        let mut chunk = smallest.steps.len() / 2;
        while chunk > 0 {
            let mut start = 0;
            while start < smallest.steps.len() && begin.elapsed() < time {
                let end = (start + chunk).min(smallest.steps.len());
                let mut fewer = smallest.clone();
                fewer.steps.drain(start..end);
                match fewer.run() {
                    Verdict::Wrong(_) => smallest = fewer,
                    Verdict::Right(_) => start = end,
                }
            }
            chunk /= 2;
        }
        smallest
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(u32::to_string).collect();
        write!(f, "--seed {} --steps {}", self.seed, steps.join(","))?;
        match self.fault {
            None => Ok(()),
            Some(fault) => write!(f, " (with {fault:?})"),
        }
    }
}

/// The clients of a case: some with another priority, weight or soft limit.
fn clients(device: &Device, seed: u64) -> Vec<ComputeClient> {
    let dice = &mut Dice::new(seed, u64::MAX - 1);
    let client = |dice: &mut Dice| {
        let priorities = [Priority::Low, Priority::Normal, Priority::High];
        let mut builder = device.client_builder().priority(dice.one_of(&priorities));
        if dice.one_in(2) {
            builder = builder.soft_limit(dice.below(SOFT_LIMIT_MAX) as u64);
        }
        builder.weight(1 + dice.below(3) as u32).build()
    };
    (0..1 + dice.below(3)).map(|_| client(dice)).collect()
}

/// What came of it, or nothing where the device is lost and may be.
fn unless_lost<T>(ground: &Ground, done: Result<T, End>) -> Result<Option<T>, String> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(End::Lost) => Ok(None),
        Err(end) => Err(ground.tally.reason(end)),
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "without words".to_owned(),
    }
}

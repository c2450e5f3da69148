//! A case: run it, and make a failing one small.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use millstream::sim::Call;
use millstream::{Device, Error, Health};

use crate::dice::Dice;
use crate::program::{Found, Program, Relic};
use crate::setting::{Setting, Sureness};

/// Steps of a fresh case.
const STEPS: u32 = 120;

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

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The call of a kind with this number, counted from 1, fails.
    Nth(Call, u64),
    /// From the call of any kind with this number on the device is lost.
    LostFrom(u64),
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

    fn run_in(&self, setting: Setting) -> Found {
        let (device, driver) = Device::open_driven(setting.sim, setting.options)
            .map_err(|error| format!("the device was not opened: {error}"))?;
        let program = Program::new(&device, self.seed, setting.sureness);
        let mut program = match program {
            Ok(program) => program,
            // A kernel that does not compile any more says why.
            Err(Error::DeviceLost { .. } | Error::Kernel(_))
                if setting.sureness == Sureness::Lost =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("a call was refused: {error}")),
        };
        for step in &self.steps {
            program.step(&mut Dice::new(self.seed, u64::from(*step)))?;
        }
        let last = &mut Dice::new(self.seed, u64::from(u32::MAX));
        let relic = program.relic();
        program.finish(&device, last)?;
        if matches!(device.health(), Health::Lost { .. }) {
            self.run_again(&device, &relic)?;
        }
        drop((relic, device));
        let report = driver.close();
        match (report.drained, report.slices_held, report.tasks_left) {
            (true, 0, 0) => Ok(()),
            _ if setting.sureness == Sureness::Lost => Ok(()),
            _ => Err(format!("teardown left something behind (I10): {report:?}")),
        }
    }

    /// The whole program once more, on a lost device that is opened again: nothing fails but what it makes fail
    /// itself, and what was made before says that it is old.
    fn run_again(&self, device: &Device, relic: &Relic) -> Found {
        device
            .reopen()
            .map_err(|error| format!("the device was not reopened: {error}"))?;
        let mut program = Program::new(device, self.seed, Sureness::Sound)
            .map_err(|error| format!("a call was refused after reopening: {error}"))?;
        for step in &self.steps {
            relic.is_old(device)?;
            program.step(&mut Dice::new(self.seed, u64::from(*step)))?;
        }
        program.finish(device, &mut Dice::new(self.seed, u64::from(u32::MAX)))
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

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "without words".to_owned(),
    }
}

//! A case of the swarm: how it runs, and how a failing case is reduced.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use millstream::backend::Open;
use millstream::{ComputeClient, Device, Error, Health, Priority};

use serde::Serialize;

use crate::old_objects::OldObjects;
use crate::setting::{Fault, Setting};
use millstream_testkit::{AllowedFailures, Dice, End, Kernels, Program, ProgramConfig};

/// The number of steps of a new case.
const STEPS: u32 = 120;

/// The maximum soft limit of a client in bytes: some buffers.
const SOFT_LIMIT_MAX: usize = 8 << 10;

/// One program on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Determines the device and the effect of each step.
    pub seed: u64,
    /// The numbers of the steps to run, in order.
    pub steps: Vec<u32>,
    /// A fault in place of those of the seed.
    pub fault: Option<Fault>,
}

/// The result of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All results were right, and no rule was broken.
    Right(Figures),
    /// A message about the first violation.
    Wrong(String),
}

/// The figures of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// The number of tasks that ran on the device.
    pub tasks: u64,
    /// The number of waits between queues.
    pub waits: u64,
    /// The number of waits that a clock implied or whose point had passed.
    pub needless_waits: u64,
    /// The number of injected faults.
    pub faults: u64,
}

impl Figures {
    /// Returns the sums of both.
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
    /// Returns the case of a seed with all steps.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            steps: (0..STEPS).collect(),
            fault: None,
        }
    }

    /// Returns the case of a seed with a single fault.
    pub fn with_fault(seed: u64, fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::new(seed)
        }
    }

    /// Runs the case on the calling thread. A panic of the runtime is caught and is a violation.
    pub fn run(&self) -> Verdict {
        self.run_in(Setting::new(self.seed, self.fault))
    }

    /// Runs the case on a device with threads, whose tasks complete at any moment. So no two runs are equal.
    pub fn run_on_threads(&self) -> Verdict {
        let mut setting = Setting::new(self.seed, self.fault);
        setting.config.is_driven = false;
        self.run_in(setting)
    }

    fn run_in(&self, setting: Setting) -> Verdict {
        let findings = setting.sim.findings();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run_and_close(setting)));
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
            Err(panic) => Verdict::Wrong(format!("panicked: {}", message_of(&*panic))),
        }
    }

    /// Runs the program of the case on the device of another backend, driven and with the options of the case, but
    /// without its faults and its limit of memory. `backend` gets the number of queues.
    ///
    /// # Errors
    /// A message about the first violation.
    pub fn run_on_backend<O: Open>(
        &self,
        backend: impl FnOnce(usize) -> O,
        kernels: impl Fn(&ComputeClient) -> Result<Kernels, Error>,
    ) -> Result<(), String> {
        let setting = Setting::new(self.seed, None);
        let (device, driver) = Device::open_driven(backend(setting.queues), setting.options)
            .map_err(|error| format!("the device cannot be opened: {error}"))?;
        let config = Setting::config(AllowedFailures::NONE);
        self.run_on(&device, &config, kernels)?;
        drop(device);
        let report = driver.close();
        match (report.drained, report.slices_held, report.tasks_left) {
            (true, 0, 0) => Ok(()),
            _ => Err(format!("the close left something behind (I10): {report:?}")),
        }
    }

    fn run_and_close(&self, setting: Setting) -> Result<(), String> {
        let opened = match setting.config.is_driven {
            true => Device::open_driven(setting.sim, setting.options)
                .map(|(device, driver)| (device, Some(driver))),
            false => Device::open_with(setting.sim, setting.options).map(|device| (device, None)),
        };
        let (device, driver) =
            opened.map_err(|error| format!("the device cannot be opened: {error}"))?;
        let old = self.run_on(&device, &setting.config, Kernels::native)?;
        if let (Some(old), Health::Lost { .. }) = (&old, device.health()) {
            self.run_again(&device, old)?;
        }
        drop(old);
        let report = match driver {
            Some(driver) => {
                drop(device);
                driver.close()
            }
            None => device.close(setting.config.patience),
        };
        match (report.drained, report.slices_held, report.tasks_left) {
            (true, 0, 0) => Ok(()),
            _ if setting.config.allowed.has(AllowedFailures::LOST) => Ok(()),
            _ => Err(format!("the close left something behind (I10): {report:?}")),
        }
    }

    /// Runs the program on a device. Returns objects of this epoch, if the program has made some.
    fn run_on(
        &self,
        device: &Device,
        config: &ProgramConfig,
        kernels: impl Fn(&ComputeClient) -> Result<Kernels, Error>,
    ) -> Result<Option<OldObjects>, String> {
        let dice = &mut Dice::new(self.seed, u64::MAX);
        let clients = clients(device, self.seed);
        let kernels = match kernels(&clients[0]) {
            Ok(kernels) => kernels,
            // The device may be lost before the kernels are compiled.
            Err(Error::DeviceLost { .. } | Error::Kernel(_))
                if config.allowed.has(AllowedFailures::LOST) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(format!("preparing the kernels failed: {error}")),
        };
        let made = Program::new(config.clone(), clients, kernels, dice);
        let Some(mut program) = unless_lost(config, made)? else {
            return Ok(None);
        };
        let mut is_lost = false;
        for step in &self.steps {
            let dice = &mut Dice::new(self.seed, u64::from(*step));
            let done = match is_lost {
                // After the loss the program only receives its pending answers.
                true => program.receive_one(dice),
                false => program.step(dice),
            };
            is_lost |= unless_lost(config, done)?.is_none();
        }
        let old = OldObjects::of(&program);
        let last = &mut Dice::new(self.seed, u64::from(u32::MAX));
        unless_lost(config, program.finish(last))?;
        Ok(old)
    }

    /// Reopens a lost device and runs the whole program again. Only failures that the program causes itself may occur,
    /// and objects of the lost epoch must return `DeviceLost`.
    fn run_again(&self, device: &Device, old: &OldObjects) -> Result<(), String> {
        device
            .reopen()
            .map_err(|error| format!("the device cannot be reopened: {error}"))?;
        old.check_lost(device)?;
        let config = Setting::config(AllowedFailures::NONE);
        self.run_on(device, &config, Kernels::native)?;
        old.check_lost(device)
    }

    /// Reduces a failing case: removes steps, within `time`, as long as the rest still fails, for whatever reason.
    pub fn shrunk(&self, time: Duration) -> Case {
        let start_time = Instant::now();
        let mut smallest = self.clone();
        let mut chunk = smallest.steps.len() / 2;
        while chunk > 0 {
            let mut start = 0;
            while start < smallest.steps.len() && start_time.elapsed() < time {
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

/// Creates the clients of a case, with random priorities, weights and soft limits.
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

/// Returns the value, or `None` if the device is lost and the config accepts that.
fn unless_lost<T>(config: &ProgramConfig, done: Result<T, End>) -> Result<Option<T>, String> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(End::Lost) => Ok(None),
        Err(end) => Err(config.tally.reason(end)),
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "a payload that is no text".to_owned(),
    }
}

//! Random programs of the testkit, on the devices of the suite.

use std::sync::Arc;

use millstream::{ComputeClient, Stream};
use millstream_testkit::{Dice, End, Kernels, Program, ProgramConfig, Tally};

use crate::subject::Mode;
use crate::support::*;

/// The number of steps of a program.
pub const STEPS: usize = 250;
/// The number of elements of each buffer of a program.
pub const ELEMENTS: usize = 96;

/// Prepares all kernels of a program.
pub fn kernels(on: impl Into<On>, client: &ComputeClient) -> Kernels {
    let boom = boom(on, client);
    let kernel = boom.kernel().cloned();
    infallible_kernels(client).that_fail(kernel, move |stream, values| boom.launch(stream, values))
}

/// Prepares the kernels that never fail.
pub fn infallible_kernels(client: &ComputeClient) -> Kernels {
    let prepared = Kernels::prepared(|kernel| prepare(client, kernel));
    prepared.unwrap()
}

/// Returns what a program may do on this device.
pub(crate) fn config(on: On) -> ProgramConfig {
    ProgramConfig {
        is_driven: on.mode() == Mode::Driven,
        patience: PATIENCE,
        part_alignment: on.abilities().view_alignment.div_ceil(size_of::<u32>()),
        ..ProgramConfig::small(ELEMENTS)
    }
}

/// A random program that is running. A refused call or a wrong answer ends it with a message.
pub struct RandomProgram {
    program: Program,
    /// Chooses the steps.
    pub dice: Dice,
    tally: Arc<Tally>,
    is_plain: bool,
}

impl RandomProgram {
    /// Creates the program of this seed.
    pub fn new(on: impl Into<On>, client: &ComputeClient, seed: u64) -> Self {
        let on = on.into();
        Self::with_config(on, client, seed, config(on))
    }

    /// Creates the program of this seed without reads of unwritten memory, so that its data is the same on every
    /// device.
    pub fn that_defines_all(on: impl Into<On>, client: &ComputeClient, seed: u64) -> Self {
        let on = on.into();
        let config = ProgramConfig {
            may_be_undefined: false,
            ..config(on)
        };
        Self::with_config(on, client, seed, config)
    }

    fn with_config(on: On, client: &ComputeClient, seed: u64, config: ProgramConfig) -> Self {
        let mut dice = Dice::new(seed, 0);
        let tally = config.tally.clone();
        let made = Program::new(config, vec![client.clone()], kernels(on, client), &mut dice);
        Self {
            program: or_message(&tally, made).unwrap(),
            dice,
            tally,
            is_plain: false,
        }
    }

    /// Restricts the program to steps whose tasks neither fail nor are withdrawn.
    #[must_use]
    pub fn that_never_fails(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// Runs all steps, and checks the data that is left.
    ///
    /// # Errors
    /// A message about the first violation.
    pub fn run(mut self) -> Result<(), String> {
        (0..STEPS).try_for_each(|_| self.step())?;
        self.finish()
    }

    /// Runs one step.
    ///
    /// # Errors
    /// A message about the first violation.
    pub fn step(&mut self) -> Result<(), String> {
        let done = match self.is_plain {
            true => self.program.plain_step(&mut self.dice),
            false => self.program.step(&mut self.dice),
        };
        or_message(&self.tally, done)
    }

    /// Returns one of the program's streams.
    pub fn stream(&mut self) -> Stream {
        self.program.stream(&mut self.dice)
    }

    /// Returns the counters and violations.
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// Reads and checks the data that is left.
    ///
    /// # Errors
    /// A message about the first violation.
    pub fn finish(mut self) -> Result<(), String> {
        let done = self.program.finish(&mut self.dice);
        or_message(&self.tally, done)
    }
}

/// Turns an early end of a program into a message about its reason.
pub(crate) fn or_message<T>(tally: &Tally, done: Result<T, End>) -> Result<T, String> {
    done.map_err(|end| tally.reason(end))
}

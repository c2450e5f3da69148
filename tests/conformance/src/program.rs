//! Random programs of the testkit, on the devices of the suite.

use std::sync::Arc;

use millstream::{ComputeClient, Stream};
use millstream_testkit::{Dice, End, Ground, Kernels, Program, Tally};

use crate::subject::Way;
use crate::support::*;

/// Steps of a program.
pub const STEPS: usize = 250;
/// Elements of each buffer of a program.
pub const ELEMENTS: usize = 96;

/// The kernels of a program.
pub fn kernels(on: impl Into<On>, client: &ComputeClient) -> Kernels {
    let boom = boom(on, client);
    let kernel = boom.kernel().cloned();
    sound_kernels(client).that_fail(kernel, move |stream, values| boom.launch(stream, values))
}

/// Those that never fail.
pub fn sound_kernels(client: &ComputeClient) -> Kernels {
    let prepared = Kernels::prepared(|kernel| prepare(client, kernel));
    prepared.unwrap()
}

/// What a program may do on this device.
pub(crate) fn ground(on: On) -> Ground {
    Ground {
        is_driven: on.way() == Way::Driven,
        patience: PATIENCE,
        ..Ground::small(ELEMENTS)
    }
}

/// A random program under way. What is wrong with its first call, or an answer, ends it with a sentence.
pub struct RandomProgram {
    program: Program,
    /// What chooses its steps.
    pub dice: Dice,
    tally: Arc<Tally>,
    is_plain: bool,
}

impl RandomProgram {
    /// The program of this seed.
    pub fn new(on: impl Into<On>, client: &ComputeClient, seed: u64) -> Self {
        let on = on.into();
        Self::on_ground(on, client, seed, ground(on))
    }

    /// The program of this seed in which no memory is read before it is written, so that its data is the same on every device.
    pub fn that_defines_all(on: impl Into<On>, client: &ComputeClient, seed: u64) -> Self {
        let on = on.into();
        let ground = Ground {
            may_be_undefined: false,
            ..ground(on)
        };
        Self::on_ground(on, client, seed, ground)
    }

    fn on_ground(on: On, client: &ComputeClient, seed: u64, ground: Ground) -> Self {
        let mut dice = Dice::new(seed, 0);
        let tally = ground.tally.clone();
        let made = Program::new(ground, vec![client.clone()], kernels(on, client), &mut dice);
        Self {
            program: or_reason(&tally, made).unwrap(),
            dice,
            tally,
            is_plain: false,
        }
    }

    /// The same program, of which no task fails or is withdrawn.
    #[must_use]
    pub fn that_never_fails(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// Runs all of it.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run(mut self) -> Result<(), String> {
        (0..STEPS).try_for_each(|_| self.step())?;
        self.finish()
    }

    /// One step.
    ///
    /// # Errors
    /// What was wrong.
    pub fn step(&mut self) -> Result<(), String> {
        let done = match self.is_plain {
            true => self.program.plain_step(&mut self.dice),
            false => self.program.step(&mut self.dice),
        };
        or_reason(&self.tally, done)
    }

    /// One of its streams.
    pub fn stream(&mut self) -> Stream {
        self.program.stream(&mut self.dice)
    }

    /// Where what is wrong is noted.
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// Checks what is left to be read.
    ///
    /// # Errors
    /// What was wrong.
    pub fn finish(mut self) -> Result<(), String> {
        let done = self.program.finish(&mut self.dice);
        or_reason(&self.tally, done)
    }
}

/// What was done, or why the program ended early.
pub(crate) fn or_reason<T>(tally: &Tally, done: Result<T, End>) -> Result<T, String> {
    done.map_err(|end| tally.reason(end))
}

//! Steps with cancellation tokens, deadlines, and calls that do not wait.

use std::time::{Duration, Instant};

use millstream::{CancelToken, CubeCount, Error, Stream};

use crate::contents::{AllowedFailures, Contents};
use crate::dice::Dice;
use crate::kernels::Kernels;
use crate::program::{Program, Stepped};
use crate::tally::Count;

/// The latest deadline that may pass, in microseconds from now.
const SOON_US: usize = 2_000;
/// A deadline that never passes.
const FAR: Duration = Duration::from_secs(3_600);
/// The maximum number of consecutive calls that do not wait.
const CALLS_MAX: usize = 20;
/// The maximum number of tasks under one token or deadline.
const TASKS_MAX: usize = 3;

impl Program {
    /// Launches under a cancelled token: the task never runs.
    pub(crate) fn launch_cancelled(&mut self, dice: &mut Dice) -> Stepped {
        let (part, token) = (self.part(dice)?, CancelToken::new());
        token.cancel();
        let stream = self.stream(dice).with_cancel(&token);
        let arguments = Kernels::sets(&part.view, 1);
        let launched = stream.launch(&self.kernels.set, Self::cubes(dice), arguments);
        launched.map_err(|error| self.refused("set", error))?;
        let contents = self.contents(&part).failed(AllowedFailures::CANCELLED);
        self.set_contents(&part, &contents);
        self.tokens.push(token);
        Ok(())
    }

    /// Submits tasks under a token, and may cancel it before they run.
    pub(crate) fn cancel(&mut self, dice: &mut Dice) -> Stepped {
        let token = CancelToken::new();
        let stream = self.stream(dice).with_cancel(&token);
        self.submit_withdrawable(dice, &stream, AllowedFailures::CANCELLED)?;
        if dice.one_in(2) {
            token.cancel();
        }
        self.tokens.push(token);
        Ok(())
    }

    /// Submits tasks under a deadline.
    pub(crate) fn deadline(&mut self, dice: &mut Dice) -> Stepped {
        let soon = match self.config.is_driven {
            // All runs must be equal, so no deadline may pass.
            true => FAR,
            false => Duration::from_micros(dice.log_uniform(SOON_US) as u64),
        };
        let stream = self.stream(dice).with_deadline(Instant::now() + soon);
        self.submit_withdrawable(dice, &stream, AllowedFailures::DEADLINE)
    }

    /// Submits tasks that may be withdrawn for this reason.
    fn submit_withdrawable(
        &mut self,
        dice: &mut Dice,
        stream: &Stream,
        excuse: AllowedFailures,
    ) -> Stepped {
        for _ in 0..1 + dice.below(TASKS_MAX) {
            if self.buffers.is_empty() {
                return Ok(());
            }
            let pattern = Self::pattern(dice);
            match dice.below(3) {
                0 => {
                    let part = self.part(dice)?;
                    let filled = stream.fill(&part.view, pattern.base);
                    filled.map_err(|error| self.refused("fill", error))?;
                    self.set_overwritten(&part, pattern.flat(), excuse);
                }
                1 => {
                    let len = self.size(dice);
                    let made = stream.create(&pattern.elements(len));
                    let contents = Contents::defined(len, pattern, excuse);
                    self.add_buffer(dice, made, contents, excuse)?;
                }
                _ => {
                    let part = self.part(dice)?;
                    let cubes = CubeCount::d1(2);
                    let added = crate::add(stream, &self.kernels, &part.view, pattern.base, cubes);
                    added.map_err(|error| self.refused("add", error))?;
                    self.set_added(&part, pattern.base, excuse);
                }
            }
        }
        Ok(())
    }

    /// Makes calls through `nowait`.
    pub(crate) fn call_nowait(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice).nowait();
        let (part, pattern) = (self.part(dice)?, Self::pattern(dice));
        for _ in 0..1 + dice.below(CALLS_MAX) {
            match stream.fill(&part.view, pattern.base) {
                Ok(()) => self.set_overwritten(&part, pattern.flat(), AllowedFailures::NONE),
                Err(Error::Busy { .. }) => self.tally().increment(Count::Busy),
                Err(error) => return Err(self.refused("fill", error)),
            }
        }
        let len = self.size(dice);
        match stream.create(&pattern.elements(len)) {
            Err(Error::Busy { .. }) => {
                self.tally().increment(Count::Busy);
                Ok(())
            }
            made => {
                let contents = Contents::defined(len, pattern, AllowedFailures::NONE);
                self.add_buffer(dice, made, contents, AllowedFailures::NONE)
            }
        }
    }
}

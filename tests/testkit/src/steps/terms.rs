//! Steps with cancel tokens, deadlines, and calls that do not wait.

use std::time::{Duration, Instant};

use millstream::{CancelToken, CubeCount, Error, Stream};

use crate::contents::{Contents, Excuses};
use crate::dice::Dice;
use crate::kernels::Kernels;
use crate::program::{Program, Stepped};
use crate::tally::Count;

/// The latest of the deadlines that may pass, in microseconds from now.
const SOON_US: usize = 2_000;
/// A deadline that no task misses.
const LATE: Duration = Duration::from_secs(3_600);
/// Most calls in a row that do not wait.
const CALLS_MAX: usize = 20;
/// Most tasks under one token or deadline.
const TASKS_MAX: usize = 3;

impl Program {
    /// A task under a token that is cancelled before: it never runs.
    pub(crate) fn cancelled(&mut self, dice: &mut Dice) -> Stepped {
        let (part, token) = (self.part(dice)?, CancelToken::new());
        token.cancel();
        let stream = self.stream(dice).with_cancel(&token);
        let arguments = Kernels::sets(&part.view, 1);
        let launched = stream.launch(&self.kernels.set, Self::cubes(dice), arguments);
        launched.map_err(|error| self.refused("set", error))?;
        let contents = self.contents(&part).failed(Excuses::CANCELLED);
        self.leaves(&part, &contents);
        self.tokens.push(token);
        Ok(())
    }

    /// Tasks that may be withdrawn before they run.
    pub(crate) fn cancel(&mut self, dice: &mut Dice) -> Stepped {
        let token = CancelToken::new();
        let stream = self.stream(dice).with_cancel(&token);
        self.under_terms(dice, &stream, Excuses::CANCELLED)?;
        if dice.one_in(2) {
            token.cancel();
        }
        self.tokens.push(token);
        Ok(())
    }

    pub(crate) fn deadline(&mut self, dice: &mut Dice) -> Stepped {
        let soon = match self.ground.is_driven {
            // Runs must be equal, so no deadline may pass.
            true => LATE,
            false => Duration::from_micros(dice.log_uniform(SOON_US) as u64),
        };
        let stream = self.stream(dice).with_deadline(Instant::now() + soon);
        self.under_terms(dice, &stream, Excuses::DEADLINE)
    }

    fn under_terms(&mut self, dice: &mut Dice, stream: &Stream, excuse: Excuses) -> Stepped {
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
                    self.defines(&part, pattern.flat(), excuse);
                }
                1 => {
                    let len = self.size(dice);
                    let made = stream.create(&pattern.elements(len));
                    let contents = Contents::defined(len, pattern, excuse);
                    self.keep(dice, made, contents, excuse)?;
                }
                _ => {
                    let part = self.part(dice)?;
                    let cubes = CubeCount::d1(2);
                    let added = crate::add(stream, &self.kernels, &part.view, pattern.base, cubes);
                    added.map_err(|error| self.refused("add", error))?;
                    self.adds(&part, pattern.base, excuse);
                }
            }
        }
        Ok(())
    }

    /// Calls through `nowait`.
    pub(crate) fn without_waiting(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice).nowait();
        let (part, pattern) = (self.part(dice)?, Self::pattern(dice));
        for _ in 0..1 + dice.below(CALLS_MAX) {
            match stream.fill(&part.view, pattern.base) {
                Ok(()) => self.defines(&part, pattern.flat(), Excuses::NONE),
                Err(Error::Busy { .. }) => self.tally().one(Count::Busy),
                Err(error) => return Err(self.refused("fill", error)),
            }
        }
        let len = self.size(dice);
        match stream.create(&pattern.elements(len)) {
            Err(Error::Busy { .. }) => {
                self.tally().one(Count::Busy);
                Ok(())
            }
            made => {
                let contents = Contents::defined(len, pattern, Excuses::NONE);
                self.keep(dice, made, contents, Excuses::NONE)
            }
        }
    }
}

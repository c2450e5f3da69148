//! The kinds of steps, and the weight of each.

mod cancellation;
mod changing;
mod defining;
mod order;
mod outside;
mod reading;

use crate::dice::Dice;
use crate::program::{Program, Stepped};

/// The weight of a kind of step, and the step.
type Step = (usize, fn(&mut Program, &mut Dice) -> Stepped);

/// Steps whose tasks neither fail nor are withdrawn.
const PLAIN: &[Step] = &[
    (8, Program::create),
    (3, Program::drop_buffer),
    (6, Program::set),
    (4, Program::fill),
    (4, Program::write),
    (14, Program::add),
    (14, Program::mix),
    (7, Program::copy),
    (3, Program::copy_to_fresh),
    (6, Program::replay),
    (7, Program::read_later),
    (5, Program::receive_one),
    (4, Program::read_now),
    (2, Program::read_many),
    (2, Program::sequence),
    (4, Program::point),
    (3, Program::flush),
    (3, Program::sync_stream),
    (1, Program::sync_client),
    (3, Program::replace_stream),
];

/// Steps whose tasks fail, are withdrawn or refused, or run on the host.
const DISRUPTIVE: &[Step] = &[
    (2, Program::boom),
    (2, Program::launch_cancelled),
    (3, Program::cancel),
    (2, Program::deadline),
    (3, Program::call_nowait),
    (6, Program::tick),
    (2, Program::read_on_host),
    (2, Program::drop_after),
    (1, Program::query_device),
    (2, Program::count_on_device),
    (8, Program::outside),
];

impl Program {
    /// Runs one step.
    ///
    /// # Errors
    /// Why the program ends early. The tally has the violation.
    pub fn step(&mut self, dice: &mut Dice) -> Stepped {
        self.step_of(dice, &[PLAIN, DISRUPTIVE])
    }

    /// Runs one step whose tasks neither fail nor are withdrawn.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn plain_step(&mut self, dice: &mut Dice) -> Stepped {
        self.step_of(dice, &[PLAIN])
    }

    fn step_of(&mut self, dice: &mut Dice, kinds: &[&[Step]]) -> Stepped {
        if self.buffers.is_empty() {
            return self.create(dice);
        }
        let all = || kinds.iter().copied().flatten();
        let mut chosen = dice.below(all().map(|(weight, _)| weight).sum());
        for (weight, step) in all() {
            if chosen < *weight {
                return step(self, dice);
            }
            chosen -= weight;
        }
        Ok(())
    }
}

//! Chance: the same seed, the same numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(crate) struct Dice(SplitMix64);

impl Dice {
    /// Numbers that belong to `seed` and to what they are for.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let seed = seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03);
        let mut dice = Self(SplitMix64::from_seed(seed.to_le_bytes()));
        dice.next();
        dice
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `below`, which is not 0.
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        (self.next() % below as u64) as usize
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len())]
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
}

//! Pseudo-random choices from a seed, by `SplitMix64`.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A generator of choices.
#[derive(Debug)]
pub struct Dice(SplitMix64);

impl Dice {
    /// Creates the generator of a seed for one purpose: a step, a thread, the device. Equal arguments give equal
    /// choices.
    pub fn new(seed: u64, purpose: u64) -> Self {
        // The state is a choice of another generator: generators whose states differ by a multiple of the step of
        // `SplitMix64` make the same choices, shifted.
        let mixed = SplitMix64::from_seed(seed.to_le_bytes()).next_u64();
        let state = mixed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self(SplitMix64::from_seed(state.to_le_bytes()))
    }

    /// Returns a random 64-bit number.
    pub fn wide(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random 32-bit number.
    pub fn number(&mut self) -> u32 {
        self.wide() as u32
    }

    /// Returns a number in `0..end`, or 0 if that range is empty.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 => 0,
            end => (self.wide() % end as u64) as usize,
        }
    }

    /// Returns `true` with a probability of one in `many`.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Returns one of the choices. There must be at least one.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns a number from 1 to `most`. All powers of two are equally likely, so small numbers are frequent and large
    /// ones occur.
    pub fn log_uniform(&mut self, most: usize) -> usize {
        let bits = self.below(most.max(1).ilog2() as usize + 1);
        ((1_usize << bits) + self.below(1 << bits)).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_choices_within_the_range() {
        let (mut first, mut second) = (Dice::new(7, 3), Dice::new(7, 3));
        for _ in 0..1_000 {
            assert_eq!(first.wide(), second.wide());
            let size = first.log_uniform(1000);
            second.log_uniform(1000);
            assert!((1..=1000).contains(&size), "{size}");
        }
        assert_ne!(Dice::new(7, 3).wide(), Dice::new(7, 4).wide());
    }

    #[test]
    fn choices_of_neighbouring_seeds_are_not_the_same_ones_shifted() {
        let choices = |seed| {
            let mut dice = Dice::new(seed, 0);
            [(); 100].map(|()| dice.wide())
        };
        let first = choices(7);
        assert!(!choices(8).iter().any(|choice| first.contains(choice)));
    }
}

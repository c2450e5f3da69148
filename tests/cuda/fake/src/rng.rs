//! The pseudorandom choices of a seed.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded generator.
pub(crate) struct SeededRng(SplitMix64);

impl Default for SeededRng {
    fn default() -> Self {
        Self::new(0)
    }
}

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::from_seed(seed.to_le_bytes()))
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }
}

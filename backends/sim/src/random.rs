//! Random numbers from a seed, by splitmix64: small, the same on every platform, and good enough to choose orders.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A sequence of numbers that depends only on its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::from_seed(seed.to_le_bytes()))
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// Returns `true` with probability `share` (0 never, 1 always).
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        // A double holds a fraction of 53 bits exactly.
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction < share
    }
}

/// Iterates over the numbers below `count`, each once, in an order that `seed` chooses: `first + i * step`, where
/// `step` and `count` are coprime. Needs no memory, whatever the count.
pub(crate) fn shuffled(count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    let first = random.below(count);
    let step = match count {
        0 | 1 => 0,
        // Found soon: below any count, many numbers are coprime to it.
        _ => std::iter::repeat_with(|| random.below(count))
            .find(|step| coprime(*step, count))
            .unwrap_or(1),
    };
    let mut at = first;
    (0..count).map(move |_| {
        let this = at;
        at = ((u128::from(at) + u128::from(step)) % u128::from(count)) as u64;
        this
    })
}

fn coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn shuffle_visits_each_number_once_in_an_order_of_the_seed() {
        for count in 0..70 {
            let all: BTreeSet<u64> = shuffled(count, count * 31).collect();
            assert_eq!(all, (0..count).collect(), "{count} numbers");
            assert_eq!(shuffled(count, 9).count() as u64, count);
        }
        let order = |seed| shuffled(64, seed).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert!((2..10).any(|seed| order(seed) != order(1)));
    }

    /// Seeds are written down, so their choices must not change. These are the first numbers published by Sebastiano
    /// Vigna.
    #[test]
    fn seed_gives_the_published_sequence() {
        let mut random = Random::new(1_234_567);
        let numbers = std::array::from_fn(|_| random.next());
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(numbers, known);
    }

    #[test]
    fn chance_is_never_at_0_and_always_at_1() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2000..3000).contains(&hits), "{hits} of 10000");
    }
}

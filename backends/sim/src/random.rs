//! Chance from a seed: splitmix64. Small, the same everywhere, good enough to choose orders with.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A sequence of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::from_seed(seed.to_le_bytes()))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, or 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// True with the probability `share` (0 never, 1 always).
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        // 53 bits make a fraction that a double holds exactly.
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        fraction < share
    }
}

/// Numbers below `count` in an order that `seed` chooses, each once: `first + i * step`, with a step that
/// shares no factor with `count`. It needs no memory, however many there are.
pub(crate) fn shuffled(count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    let first = random.below(count);
    let step = match count {
        0 | 1 => 0,
        // Found soon: of the numbers below any count, a good part share no factor with it.
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
    fn a_shuffle_visits_each_number_once_in_the_order_of_its_seed() {
        for count in 0..70 {
            let all: BTreeSet<u64> = shuffled(count, count * 31).collect();
            assert_eq!(all, (0..count).collect(), "{count} numbers");
            assert_eq!(shuffled(count, 9).count() as u64, count);
        }
        let order = |seed| shuffled(64, seed).collect::<Vec<_>>();
        assert_eq!(order(1), order(1));
        assert!((2..10).any(|seed| order(seed) != order(1)));
    }

    /// Seeds are written down: what they choose must not change. Sebastiano Vigna's own first numbers.
    #[test]
    fn a_seed_chooses_the_same_in_every_version() {
        let mut random = Random::new(1_234_567);
        let numbers = std::array::from_fn(|_| random.next());
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(numbers, known);
    }

    #[test]
    fn chance_keeps_its_ends() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2000..3000).contains(&hits), "{hits} of 10000");
    }
}

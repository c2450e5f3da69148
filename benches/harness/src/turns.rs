//! The order in which alternatives are sampled: in rounds, each in the reverse order of the round before. So no
//! alternative always follows the same other one, and a steady drift of the machine cancels over two rounds.

use std::ops::RangeInclusive;

/// The warm-up round: [`take_turns`] discards its samples.
const WARM_UP: usize = 0;

/// One sample to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The round; 0 is the warm-up round.
    pub round: usize,
    /// The index of the alternative.
    pub index: usize,
}

/// Takes one sample of an alternative, in any unit.
pub type Sampler<'a, E> = &'a mut dyn FnMut() -> Result<f64, E>;

/// Takes samples in rounds: `0..=rounds` with a warm-up round, `1..=rounds` without. Returns the samples of each
/// alternative without those of round 0.
///
/// # Errors
///
/// The first error of `sample`, which ends all sampling.
pub fn take_turns<S, E>(
    alternatives: usize,
    rounds: RangeInclusive<usize>,
    mut sample: impl FnMut(Turn) -> Result<S, E>,
) -> Result<Vec<Vec<S>>, E> {
    let mut samples: Vec<_> = (0..alternatives).map(|_| Vec::new()).collect();
    for round in rounds {
        for place in 0..alternatives {
            let index = match round % 2 {
                0 => place,
                _ => alternatives - 1 - place,
            };
            let sample = sample(Turn { round, index })?;
            if round != WARM_UP {
                samples[index].push(sample);
            }
        }
    }
    Ok(samples)
}

/// Samples alternatives in turn, after one warm-up round, and returns the samples of each.
///
/// Zero `rounds` count as one.
///
/// # Errors
///
/// The first error of a sampler, which ends all sampling.
pub fn alternate<const N: usize, E>(
    rounds: usize,
    samplers: [Sampler<'_, E>; N],
) -> Result<[Vec<f64>; N], E> {
    let samples = take_turns(N, 0..=rounds.max(1), |turn| samplers[turn.index]())?;
    Ok(samples.try_into().expect("each alternative has samples"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn alternatives_take_turns_and_the_warm_up_round_is_discarded() {
        let order = RefCell::new(String::new());
        let sample = |name: char| {
            order.borrow_mut().push(name);
            Ok::<_, ()>(order.borrow().len() as f64)
        };
        let [a, b] = alternate(2, [&mut || sample('a'), &mut || sample('b')]).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        assert_eq!((a, b), (vec![4.0, 5.0], vec![3.0, 6.0]));
    }

    #[test]
    fn error_ends_all_sampling() {
        let mut taken = Vec::new();
        let end = take_turns(2, 1..=9, |turn| {
            taken.push(turn.index);
            match taken.len() {
                3 => Err(turn),
                _ => Ok(()),
            }
        });
        assert_eq!(end, Err(Turn { round: 2, index: 0 }));
        assert_eq!(taken, [1, 0, 0]);
    }

    #[test]
    fn zero_rounds_count_as_one() {
        let [samples] = alternate::<1, ()>(0, [&mut || Ok(7.0)]).unwrap();
        assert_eq!(samples, [7.0]);
    }
}

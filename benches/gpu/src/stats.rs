//! Figures: the median of some samples and their spread, taken in turn.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// What the samples of one side came to.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) samples: usize,
}

impl Figure {
    /// Of no samples: none.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: *sorted.get(sorted.len() / 2)?,
            least: *sorted.first()?,
            most: *sorted.last()?,
            samples: sorted.len(),
        })
    }

    /// The same in another unit.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            least: self.least * factor,
            most: self.most * factor,
            ..self
        }
    }
}

/// One side of a comparison: takes a sample.
pub(crate) type Side<'a> = &'a mut dyn FnMut() -> Result<f64, BenchError>;

/// Takes `rounds` samples of each side, in turn; every other round the other way round, so that none is always the one after
/// the same. One sample each before that is thrown away.
pub(crate) fn alternate<const N: usize>(
    rounds: usize,
    sides: [Side<'_>; N],
) -> Result<[Figure; N], BenchError> {
    let mut samples = [const { Vec::new() }; N];
    for round in 0..=rounds {
        for place in 0..N {
            let side = if round % 2 == 0 { place } else { N - 1 - place };
            let sample = sides[side]()?;
            if round > 0 {
                samples[side].push(sample);
            }
        }
    }
    let none = Figure {
        median: f64::NAN,
        least: f64::NAN,
        most: f64::NAN,
        samples: 0,
    };
    Ok(samples.map(|samples| Figure::of(&samples).unwrap_or(none)))
}

/// Nanoseconds of each of `count` since then.
pub(crate) fn ns_each(begun: Instant, count: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_and_the_spread_reaches_both_ends() {
        let figure = Figure::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((figure.median, figure.least, figure.most), (2.0, 1.0, 3.0));
        assert_eq!(Figure::of(&[]), None);
    }

    #[test]
    fn sides_take_turns_and_the_first_round_does_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let sample = |name: char| {
            order.borrow_mut().push(name);
            Ok(order.borrow().len() as f64)
        };
        let [a, b] = alternate(2, [&mut || sample('a'), &mut || sample('b')]).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
        assert_eq!((a.samples, a.least, a.most), (2, 4.0, 5.0));
        assert_eq!((b.least, b.most), (3.0, 6.0));
    }
}

//! Figures: the median and the spread of samples.
//!
//! Every quantile is one of the samples, so that quantiles of counts are counts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digits;

/// Order statistics of samples, in their unit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The middle sample; of two middle samples, the greater.
    pub median: f64,
    /// The lower quartile: a quarter of the samples are at most this.
    pub lower_quartile: f64,
    /// The upper quartile: a quarter of the samples are at least this.
    pub upper_quartile: f64,
    /// The least sample.
    pub min: f64,
    /// The greatest sample.
    pub max: f64,
    /// The number of samples.
    pub samples: usize,
}

impl Summary {
    /// Returns the summary of the samples, or `None` if there are none.
    ///
    /// If a quartile lies between two samples, it is the one that is further from the median, so that a few samples do
    /// not look more certain than they are.
    ///
    /// ```
    /// let summary = millstream_harness::Summary::of(&[5.0, 1.0, 3.0]).expect("there are samples");
    /// assert_eq!((summary.min, summary.median, summary.max), (1.0, 3.0, 5.0));
    /// ```
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        let last = sorted.len().checked_sub(1)?;
        Some(Self {
            median: sorted[last.div_ceil(2)],
            lower_quartile: sorted[last / 4],
            upper_quartile: sorted[(3 * last).div_ceil(4)],
            min: sorted[0],
            max: sorted[last],
            samples: sorted.len(),
        })
    }

    /// Converts the summary to another unit.
    ///
    /// `unit` must be monotone: it keeps the order of all samples, or reverses it, as from times to rates.
    pub fn map(self, unit: impl Fn(f64) -> f64) -> Self {
        let ends = |low, high| {
            let (low, high) = (unit(low), unit(high));
            (f64::min(low, high), f64::max(low, high))
        };
        let (min, max) = ends(self.min, self.max);
        let (lower_quartile, upper_quartile) = ends(self.lower_quartile, self.upper_quartile);
        Self {
            median: unit(self.median),
            lower_quartile,
            upper_quartile,
            min,
            max,
            ..self
        }
    }
}

/// Writes the median, and in brackets the least and the greatest sample: `8.12 (8.00 to 9.10)`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, min, max] = [self.median, self.min, self.max].map(digits);
        f.pad(&format!("{median} ({min} to {max})"))
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the value below which `share` (0 to 1) of the values lie, by the nearest rank; NaN if there are no values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let last = values.len().saturating_sub(1);
    let rank = (last as f64 * share).round() as usize;
    sorted(values).get(rank).copied().unwrap_or(f64::NAN)
}

/// Returns the middle value; of two middle values, the greater. NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let summary = Summary::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((summary.median, summary.min, summary.max), (3.0, 1.0, 5.0));
        assert_eq!((summary.lower_quartile, summary.upper_quartile), (2.0, 4.0));
        assert_eq!(format!("{summary:>20}"), " 3.00 (1.00 to 5.00)");
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn quartile_between_two_samples_is_the_one_further_from_the_median() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((summary.lower_quartile, summary.upper_quartile), (1.0, 4.0));
        assert_eq!(summary.median, 3.0);
    }

    #[test]
    fn reversing_unit_swaps_the_least_and_the_most() {
        let ns = Summary::of(&[1.0, 2.0, 4.0, 8.0, 10.0]).unwrap();
        let rate = ns.map(|ns| 8.0 / ns);
        assert_eq!((rate.min, rate.median, rate.max), (0.8, 2.0, 8.0));
        assert_eq!((rate.lower_quartile, rate.upper_quartile), (1.0, 4.0));
        assert_eq!(ns.map(|ns| ns * 2.0).max, 20.0);
    }

    #[test]
    fn quantiles_of_0_and_1_are_the_extreme_values() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 1.0), 4.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}

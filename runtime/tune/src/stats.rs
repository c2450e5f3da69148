//! Robust figures of few samples.

use serde::{Deserialize, Serialize};

/// What was measured of a candidate. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// How often.
    pub samples: u32,
    /// The mean.
    pub mean: f64,
    /// The median, by which candidates are compared: one interrupted sample does not move it.
    pub median: f64,
    /// The variance, in square nanoseconds.
    pub variance: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Of samples in ascending order, at least one.
    pub(crate) fn of(sorted: &[u64]) -> Self {
        let count = sorted.len() as f64;
        let mean = sorted.iter().map(|time| *time as f64).sum::<f64>() / count;
        let squares = sorted.iter().map(|time| (*time as f64 - mean).powi(2));
        Self {
            samples: sorted.len() as u32,
            mean,
            median: median(sorted),
            variance: squares.sum::<f64>() / (count - 1.0).max(1.0),
            min: sorted[0] as f64,
            max: sorted[sorted.len() - 1] as f64,
        }
    }
}

/// The median of samples in ascending order, at least one.
pub(crate) fn median(sorted: &[u64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle] as f64,
        _ => (sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0,
    }
}

/// An interval that has the true median with this confidence, whatever the times are distributed like: between the samples of two ranks, as
/// each sample is as likely above it as below (the sign test; W. J. Conover, Practical Nonparametric Statistics, 3.2). None, where there are
/// too few samples for that.
pub(crate) fn median_interval(sorted: &[u64], confidence: f64) -> Option<(f64, f64)> {
    let count = sorted.len();
    let each = (1.0 - confidence) / 2.0;
    // How likely it is that at most `rank` of them are below the median.
    let mut probability = 0.5_f64.powi(count as i32);
    let mut below = probability;
    let mut rank = 0;
    if below > each {
        return None;
    }
    loop {
        probability *= (count - rank) as f64 / (rank + 1) as f64;
        if below + probability > each || rank + 1 >= count / 2 {
            return Some((sorted[rank] as f64, sorted[count - 1 - rank] as f64));
        }
        below += probability;
        rank += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_that_of_its_samples() {
        let summary = Summary::of(&[1, 2, 4, 9]);
        assert_eq!(
            (summary.samples, summary.mean, summary.median),
            (4, 4.0, 3.0)
        );
        assert_eq!((summary.min, summary.max), (1.0, 9.0));
        assert!((summary.variance - 38.0 / 3.0).abs() < 1e-12);
        let one = Summary::of(&[7]);
        assert_eq!((one.median, one.variance), (7.0, 0.0));
    }

    /// The ranks of the tables: 6 samples are needed for 95 %, and of 10 it is the second and the ninth.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let samples: Vec<u64> = (1..=25).collect();
        assert_eq!(median_interval(&samples[..5], 0.95), None);
        assert_eq!(median_interval(&samples[..6], 0.95), Some((1.0, 6.0)));
        assert_eq!(median_interval(&samples[..10], 0.95), Some((2.0, 9.0)));
        assert_eq!(median_interval(&samples, 0.95), Some((8.0, 18.0)));
        assert_eq!(median_interval(&[], 0.95), None);
        assert_eq!(median_interval(&samples[..1], 0.95), None);
    }
}

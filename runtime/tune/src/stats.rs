//! Robust statistics of few samples.

use serde::{Deserialize, Serialize};

/// Statistics of the samples of a candidate. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The number of samples.
    pub samples: u32,
    /// The mean.
    pub mean: f64,
    /// The median, by which candidates are compared: a single interrupted sample does not move it.
    pub median: f64,
    /// The variance, in square nanoseconds.
    pub variance: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Summary {
    /// Computes the statistics of at least one sample, in ascending order.
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

/// Returns the median of at least one sample, in ascending order.
pub(crate) fn median(sorted: &[u64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle] as f64,
        _ => (sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0,
    }
}

/// Returns an interval that contains the true median with this confidence, for any distribution of times. Its ends
/// are the samples of two ranks, since each sample is as likely above the median as below (the sign test; W. J.
/// Conover, Practical Nonparametric Statistics, 3.2). Returns `None` if there are too few samples.
pub(crate) fn median_interval(sorted: &[u64], confidence: f64) -> Option<(f64, f64)> {
    let count = sorted.len();
    let each = (1.0 - confidence) / 2.0;
    // The probability that at most `rank` samples are below the median.
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
    fn summary_has_the_statistics_of_its_samples() {
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

    /// The ranks are those of published tables: 95 % need 6 samples; for 10 samples they are the second and the ninth.
    #[test]
    fn median_interval_has_the_ranks_of_the_sign_test() {
        let samples: Vec<u64> = (1..=25).collect();
        assert_eq!(median_interval(&samples[..5], 0.95), None);
        assert_eq!(median_interval(&samples[..6], 0.95), Some((1.0, 6.0)));
        assert_eq!(median_interval(&samples[..10], 0.95), Some((2.0, 9.0)));
        assert_eq!(median_interval(&samples, 0.95), Some((8.0, 18.0)));
        assert_eq!(median_interval(&[], 0.95), None);
        assert_eq!(median_interval(&samples[..1], 0.95), None);
    }
}

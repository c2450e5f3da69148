//! Histograms with fixed buckets: the values from one power of two to the next are split into eight buckets, so a
//! quantile is at most 6.25 % off. All histograms have the same buckets, so sums and differences of histograms are
//! histograms.
//!
//! Recording does not allocate.

use std::fmt;
use std::ops::Range;

/// The binary logarithm of [`SPLIT`].
const SPLIT_BITS: u32 = 3;
/// The number of buckets per power of two. Each value below it has a bucket of its own.
const SPLIT: usize = 1 << SPLIT_BITS;

/// The number of buckets: those of the values below [`SPLIT`], then `SPLIT` for each further power of two.
const BUCKETS: usize = SPLIT * (64 - SPLIT_BITS as usize + 1);

/// Returns the bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    if value < SPLIT as u64 {
        return value as usize;
    }
    let power = u64::BITS - 1 - value.leading_zeros();
    let within = (value >> (power - SPLIT_BITS)) as usize & (SPLIT - 1);
    SPLIT * (power - SPLIT_BITS + 1) as usize + within
}

/// Returns the least value of a bucket, and the width of the bucket.
fn bounds(bucket: usize) -> (u64, u64) {
    let (group, within) = (bucket / SPLIT, (bucket % SPLIT) as u64);
    match group {
        0 => (within, 1),
        _ => ((SPLIT as u64 + within) << (group - 1), 1 << (group - 1)),
    }
}

/// A histogram: the number of recorded values in each bucket, their sum, and the greatest of them.
///
/// ```
/// use millstream_protocol::metrics::Histogram;
/// let mut waits = Histogram::new();
/// (1..=1000).for_each(|wait| waits.record(wait));
/// assert_eq!((waits.count(), waits.greatest()), (1000, 1000));
/// assert!((950..=1000).contains(&waits.quantile(0.99)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u64,
    greatest: u64,
}

impl Histogram {
    /// Creates an empty histogram. It allocates four kilobytes; no other method allocates.
    pub fn new() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            count: 0,
            sum: 0,
            greatest: 0,
        }
    }

    /// Records a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.greatest = self.greatest.max(value);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *own += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Returns a histogram of the values that were recorded since `earlier`, an older state of this histogram. Its
    /// greatest value is that of all values, because the buckets do not tell which value is newer.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        for (own, less) in later.counts.iter_mut().zip(earlier.counts.iter()) {
            *own = own.saturating_sub(*less);
        }
        later.count = later.counts.iter().sum();
        later.sum = self.sum.saturating_sub(earlier.sum);
        later
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values, saturated at `u64::MAX`.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the mean; 0 if the histogram is empty.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// Returns the greatest value; 0 if the histogram is empty.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Returns the value that a fraction `part` of all values does not exceed: 0.5 gives the median, and 0.99 a
    /// value that one value in a hundred exceeds. The result is the middle of its bucket, but not more than the
    /// greatest value; 0 if the histogram is empty. `part` is clamped to the range from 0 to 1.
    pub fn quantile(&self, part: f64) -> u64 {
        let part = if part >= 0.0 { part.min(1.0) } else { 0.0 };
        // A quantile of 0 is the least value, which has rank 1.
        let rank = ((part * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (value, count) in self.buckets_at_middle() {
            seen += count;
            if seen >= rank {
                return value.min(self.greatest);
            }
        }
        self.greatest
    }

    /// Returns the nonempty buckets in ascending order: the range of values, and the number of values.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> {
        let filled = self.counts.iter().enumerate();
        let filled = filled.filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| {
            let (least, width) = bounds(index);
            // Saturating: the last bucket would end at 2^64.
            (least..least.saturating_add(width), *count)
        })
    }

    /// Returns the nonempty buckets with the middle value of each.
    pub fn buckets_at_middle(&self) -> impl Iterator<Item = (u64, u64)> {
        let middle = |values: Range<u64>| values.start + (values.end - values.start - 1) / 2;
        self.buckets()
            .map(move |(values, count)| (middle(values), count))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    /// Formats the statistics, not the five hundred buckets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("mean", &self.mean())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("greatest", &self.greatest)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of all magnitudes with equal probability, since the bounds of buckets depend on powers of two.
    fn value() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
    }

    fn histogram_of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    #[test]
    fn every_value_has_one_bucket_and_buckets_are_adjacent() {
        let mut next = 0_u64;
        for index in 0..BUCKETS {
            let (least, width) = bounds(index);
            assert_eq!(least, next, "bucket {index}");
            assert_eq!((bucket(least), bucket(least + (width - 1))), (index, index));
            next = least.wrapping_add(width);
        }
        assert_eq!(next, 0, "the last bucket ends with the greatest value");
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn empty_histogram_returns_zeros() {
        let nothing = Histogram::new();
        assert_eq!((nothing.count(), nothing.quantile(0.99)), (0, 0));
        assert_eq!((nothing.mean(), nothing.buckets().count()), (0.0, 0));
    }

    proptest! {
        /// Compares each quantile with the sorted list of all values.
        #[test]
        fn quantile_is_off_by_at_most_a_sixteenth(
            values in prop::collection::vec(value(), 1..300),
            part in 0.0..=1.0_f64,
        ) {
            let histogram = histogram_of(&values);
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = ((part * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let expected = sorted[rank - 1];
            let actual = histogram.quantile(part);
            prop_assert!(actual.abs_diff(expected) <= expected / 16, "expected {}, got {}", expected, actual);
            prop_assert_eq!(histogram.greatest(), sorted[sorted.len() - 1]);
            let sum = sorted.iter().fold(0_u64, |sum, value| sum.saturating_add(*value));
            prop_assert_eq!((histogram.count(), histogram.sum()), (sorted.len() as u64, sum));
        }

        #[test]
        fn since_returns_what_was_merged_into_the_earlier_histogram(
            first in prop::collection::vec(value(), 0..50),
            second in prop::collection::vec(0..1_u64 << 40, 0..50),
        ) {
            let (earlier, more) = (histogram_of(&first), histogram_of(&second));
            let mut all = earlier.clone();
            all.merge(&more);
            let both = histogram_of(&[first.clone(), second].concat());
            prop_assert_eq!(&all, &both);
            let later = all.since(&earlier);
            prop_assert_eq!(&later.counts, &more.counts);
            prop_assert_eq!(later.count, more.count);
        }
    }
}

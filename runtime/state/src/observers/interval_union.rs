//! The union of time intervals, which come nearly in order: how long at least one of some tasks ran.

use std::collections::VecDeque;

/// The most disjoint intervals that are known exactly (I12). Of earlier ones only the sum is known.
const INTERVALS_MAX: usize = 1024;

/// A union of intervals.
#[derive(Default, Debug)]
pub(super) struct IntervalUnion {
    /// Disjoint intervals, in order.
    recent: VecDeque<(u64, u64)>,
    /// The sum of the earlier intervals, and the end of the last of them.
    settled_ns: u64,
    settled_until: u64,
    /// The length of late intervals before that end. Some of it may not be in the sum.
    late_ns: u64,
}

impl IntervalUnion {
    /// Adds an interval.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        let late = self.settled_until.min(end);
        self.late_ns += late.saturating_sub(start);
        let (mut start, mut end) = (start.max(self.settled_until), end);
        if start >= end {
            return;
        }
        // Spans come soon after their tasks, so what a new one touches is near the back.
        let mut at = self.recent.len();
        while at > 0 && self.recent[at - 1].1 >= start {
            let (from, to) = self.recent[at - 1];
            if from <= end {
                (start, end) = (start.min(from), end.max(to));
                self.recent.remove(at - 1);
            }
            at -= 1;
        }
        self.recent.insert(at, (start, end));
        if self.recent.len() > INTERVALS_MAX
            && let Some((from, to)) = self.recent.pop_front()
        {
            self.settled_ns += to - from;
            self.settled_until = to;
        }
    }

    /// Returns the length of the union.
    pub(super) fn sum_ns(&self) -> u64 {
        let recent = self.recent.iter().map(|(start, end)| end - start);
        self.settled_ns + recent.sum::<u64>()
    }

    /// Returns by how much the length may be too small.
    pub(super) fn short_ns(&self) -> u64 {
        self.late_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn union(spans: &[(u64, u64)]) -> u64 {
        let mut covered = vec![false; 400];
        for (start, end) in spans {
            covered[*start as usize..*end as usize].fill(true);
        }
        covered.iter().filter(|covered| **covered).count() as u64
    }

    proptest! {
        #[test]
        fn length_is_that_of_the_union(spans in prop::collection::vec((0..300_u64, 0..60_u64), 0..60)) {
            let spans: Vec<_> = spans.into_iter().map(|(start, len)| (start, start + len)).collect();
            let mut intervals = IntervalUnion::default();
            spans.iter().for_each(|(start, end)| intervals.add(*start, *end));
            prop_assert_eq!(intervals.sum_ns(), union(&spans));
            prop_assert_eq!(intervals.short_ns(), 0);
            let apart = intervals.recent.iter().zip(intervals.recent.iter().skip(1));
            prop_assert!(apart.into_iter().all(|(before, after)| before.1 < after.0));
        }
    }

    #[test]
    fn late_interval_is_reported_as_possibly_missing_i12() {
        let mut intervals = IntervalUnion::default();
        let many = 3 * INTERVALS_MAX as u64;
        (0..many).for_each(|place| intervals.add(10 * place, 10 * place + 4));
        assert_eq!((intervals.sum_ns(), intervals.short_ns()), (4 * many, 0));
        assert!(intervals.recent.len() <= INTERVALS_MAX);
        // A task of another queue ran all the while.
        intervals.add(0, 10 * many);
        let (sum, short) = (intervals.sum_ns(), intervals.short_ns());
        assert!(sum < 10 * many && sum + short >= 10 * many, "{sum} {short}");
    }
}

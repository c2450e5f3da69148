//! The union of time intervals: when at least one of some tasks ran.
//!
//! "Busy" has this one meaning in the summary, the picture and the report of the demo, always as a share of the time
//! from the timeline's first start to its last end.

/// Returns the union as disjoint intervals in order, for intervals `(start, end)` in any order. Intervals that touch
/// are one.
pub(super) fn union(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    intervals
}

/// Returns the length of the union.
pub(super) fn union_ns(intervals: Vec<(u64, u64)>) -> u64 {
    let union = union(intervals);
    union.iter().map(|(start, end)| end - start).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn union_covers_what_the_intervals_cover(
            intervals in prop::collection::vec((0..200_u64, 0..40_u64), 0..40)
        ) {
            let intervals: Vec<_> = intervals.into_iter().map(|(start, len)| (start, start + len)).collect();
            let covered = |at: &u64| intervals.iter().any(|(start, end)| (*start..*end).contains(at));
            let expected = (0..240).filter(covered).count() as u64;
            prop_assert_eq!(union_ns(intervals.clone()), expected);
            let union = union(intervals);
            prop_assert!(union.is_sorted_by(|before, after| before.1 < after.0));
        }
    }
}

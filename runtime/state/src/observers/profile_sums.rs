//! The sums of one profile: its size does not depend on how long it runs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{ClockSource, FailureRef, KernelProfile, Profile, ProfileDuration};

/// The most names of one profile (I12). The tasks of further names are counted together.
const NAMES_MAX: usize = 4096;

/// The name of the tasks of further names.
const OTHERS: &str = "(others)";

/// The sums of the tasks of one token that have completed.
#[derive(Default, Debug)]
pub(super) struct ProfileSums {
    /// The sums of each name, in order of appearance, and those of all tasks but their times.
    profile: Profile,
    /// The index among these sums by name.
    by_name: HashMap<Arc<str>, usize>,
    intervals: IntervalUnion,
    /// The start of the first task with times, and the end of the last.
    first_to_last_ns: Option<(u64, u64)>,
}

impl ProfileSums {
    /// Records that the task that was added last failed while it ran.
    #[cold]
    pub(super) fn fail(&mut self, failure: &FailureRef) {
        self.profile.failed += 1;
        let first = &mut self.profile.failure;
        first.get_or_insert_with(|| failure.clone());
    }

    /// Adds a completed task. `span` is its start and end in nanoseconds of the device's clock, if these are known.
    pub(super) fn add(&mut self, name: &Arc<str>, span: Option<(u64, u64)>) {
        self.profile.tasks += 1;
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => self.place(name),
        };
        let sums = &mut self.profile.kernels[index];
        sums.tasks += 1;
        let Some((start, end)) = span else {
            self.profile.untimed += 1;
            return;
        };
        let took = Duration::from_nanos(end.saturating_sub(start));
        sums.min = match sums.timed {
            0 => took,
            _ => sums.min.min(took),
        };
        sums.max = sums.max.max(took);
        sums.total += took;
        sums.timed += 1;
        let (first, last) = self.first_to_last_ns.unwrap_or((start, end));
        self.first_to_last_ns = Some((first.min(start), last.max(end)));
        self.intervals.add(start, end);
    }

    /// Returns the index of the sums of a name that is not known yet.
    #[cold]
    fn place(&mut self, name: &Arc<str>) -> usize {
        let index = self.profile.kernels.len();
        if index > NAMES_MAX {
            return NAMES_MAX;
        }
        let mut sums = KernelProfile::default();
        if index < NAMES_MAX {
            sums.name = name.clone();
            self.by_name.insert(name.clone(), index);
        } else {
            sums.name = OTHERS.into();
        }
        self.profile.kernels.push(sums);
        index
    }

    /// Returns the profile of these tasks. `clock` timed them, and `calls` is the time between the calls that started
    /// and ended the profile.
    pub(super) fn profile(self, clock: ClockSource, calls: Duration, is_cut: bool) -> Profile {
        let of = |ns| ProfileDuration {
            duration: Duration::from_nanos(ns),
            clock,
        };
        let mut profile = self.profile;
        profile.kernels.sort_by(|one, other| {
            let longest_first = other.total.cmp(&one.total);
            longest_first.then_with(|| one.name.cmp(&other.name))
        });
        let (first, last) = self.first_to_last_ns.unwrap_or_default();
        profile.elapsed = of(last.saturating_sub(first));
        profile.busy = of(self.intervals.sum_ns());
        profile.busy_short = Duration::from_nanos(self.intervals.short_ns());
        profile.calls.duration = calls;
        profile.is_cut = is_cut;
        profile
    }
}

// The union of time intervals, which come nearly in order: how long at least one of some tasks ran.

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
mod interval_union_tests {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(tasks: &[(&str, Option<(u64, u64)>)]) -> Profile {
        let mut sums = ProfileSums::default();
        for (name, span) in tasks {
            sums.add(&Arc::from(*name), *span);
        }
        sums.profile(ClockSource::Virtual, Duration::ZERO, false)
    }

    #[test]
    fn sums_are_by_name_and_untimed_tasks_are_counted() {
        let profile = sums(&[
            ("a", Some((100, 110))),
            ("b", Some((105, 155))),
            ("a", Some((200, 230))),
            ("a", None),
        ]);
        let a = profile.kernel("a").unwrap();
        assert_eq!((a.tasks, a.timed), (3, 2));
        assert_eq!(
            [a.total, a.min, a.max, a.mean()].map(|time| time.as_nanos()),
            [40, 10, 30, 20]
        );
        assert_eq!((profile.tasks, profile.untimed), (4, 1));
        assert_eq!(profile.elapsed.duration.as_nanos(), 130);
        assert_eq!(profile.busy.duration.as_nanos(), 55 + 30);
        assert_eq!(&*profile.kernels[0].name, "b", "the longest first");
        let text = profile.to_string();
        assert!(
            text.contains("1 of them have no times") && text.contains("virtual time"),
            "{text}"
        );
    }

    #[test]
    fn names_are_bounded_and_every_task_is_counted_i12() {
        let mut sums = ProfileSums::default();
        let names = NAMES_MAX as u64 + 100;
        for name in (0..names).chain(0..names) {
            sums.add(&Arc::from(name.to_string()), Some((name, name + 1)));
        }
        let profile = sums.profile(ClockSource::HOST, Duration::ZERO, false);
        assert_eq!(profile.kernels.len(), NAMES_MAX + 1);
        assert_eq!(profile.kernel(OTHERS).map(|others| others.tasks), Some(200));
        assert_eq!(
            profile
                .kernels
                .iter()
                .map(|kernel| kernel.tasks)
                .sum::<u64>(),
            2 * names
        );
    }

    #[test]
    fn profile_without_tasks_has_no_time() {
        let profile = sums(&[]);
        assert_eq!(
            (profile.tasks, profile.elapsed.duration),
            (0, Duration::ZERO)
        );
    }
}

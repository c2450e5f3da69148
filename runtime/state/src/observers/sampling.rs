//! Sampling: which tasks are followed for latencies, and the waiting times that the device thread measures itself.

use std::sync::Arc;

use millstream_protocol::metrics::Latencies;
use millstream_sync::timeline::Timeline;

use super::meter::Meter;

/// The admission time of a task that is not followed.
pub const NOT_FOLLOWED: u64 = 0;

/// The admission time of a task that passes through: it is issued when it is admitted.
pub const PASSING: u64 = u64::MAX;

/// A sample of one task in `every`.
pub(super) struct Sampling {
    until_next: u64,
    /// What the device thread measures: all but `runs_ns` and `value_waits_ns`, which the meter has.
    latencies: Latencies,
}

impl Sampling {
    /// Creates a sampling of one task in `every`, or none if `every` is 0.
    pub(super) fn new(every: u64) -> Option<Box<Self>> {
        let mut latencies = Latencies::default();
        latencies.every = every;
        let sampling = Self {
            until_next: 1,
            latencies,
        };
        (every > 0).then(|| Box::new(sampling))
    }

    /// Returns `true` if the next task is part of the sample.
    pub(super) fn is_next(&mut self) -> bool {
        self.until_next -= 1;
        let is_next = self.until_next == 0;
        if is_next {
            self.until_next = self.latencies.every;
        }
        is_next
    }

    /// Returns `true` if a task that was admitted at `admitted_ns` is followed. A task that passes through is counted
    /// here; a held one was counted at its admission.
    #[inline]
    pub(super) fn follows(&mut self, does_work: bool, admitted_ns: u64) -> bool {
        match admitted_ns {
            NOT_FOLLOWED => false,
            PASSING => does_work && self.is_next(),
            _ => true,
        }
    }

    /// Follows a task that was admitted at `admitted_ns` until its last cursor is published.
    pub(super) fn follow(
        &mut self,
        meter: &Meter,
        timeline: &Arc<Timeline>,
        last: u64,
        admitted_ns: u64,
    ) {
        let now_ns = meter.now_ns();
        let queued_ns = match admitted_ns {
            PASSING => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        self.latencies.queued_ns.record(queued_ns);
        if !meter.follow(timeline, last, now_ns) {
            self.latencies.missed += 1;
        }
    }

    /// Records how long a slice waited between the drop of its last handle and its last use.
    pub(super) fn slice_waited(&mut self, waited_ns: u64) {
        self.latencies.slice_waits_ns.record(waited_ns);
    }

    pub(super) fn latencies(&self, meter: &Meter) -> Latencies {
        let mut latencies = self.latencies.clone();
        latencies.runs_ns = meter.runs_ns();
        latencies.value_waits_ns = meter.value_waits_ns();
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_in_n_is_followed_beginning_with_the_first() {
        assert!(Sampling::new(0).is_none());
        let mut sampling = Sampling::new(3).unwrap();
        let followed: Vec<_> = (0..7).map(|_| sampling.follows(true, PASSING)).collect();
        assert_eq!(followed, [true, false, false, true, false, false, true]);
        assert!(!sampling.follows(true, NOT_FOLLOWED) && sampling.follows(true, 5));
        assert!(!sampling.follows(false, PASSING), "a point is no work");
    }
}

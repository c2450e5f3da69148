//! Which tasks are followed for latencies, and how long those waited that the device's thread knows by itself.

use std::sync::Arc;

use millstream_protocol::metrics::{Histogram, Latencies};
use millstream_sync::timeline::Timeline;

use super::meter::Meter;

/// When a task was admitted: this one is not followed.
pub(crate) const NOT_FOLLOWED: u64 = 0;

/// When a task was admitted: just now, for it goes straight through.
pub(crate) const PASSING: u64 = u64::MAX;

/// One task of so many.
pub(super) struct Sampling {
    every: u64,
    until_next: u64,
    missed: u64,
    queued_ns: Histogram,
    slice_waits_ns: Histogram,
}

impl Sampling {
    /// Follows one task of `every`; none, if that is 0.
    pub(super) fn new(every: u64) -> Option<Box<Self>> {
        let sampling = || Self {
            every,
            until_next: 1,
            missed: 0,
            queued_ns: Histogram::new(),
            slice_waits_ns: Histogram::new(),
        };
        (every > 0).then(|| Box::new(sampling()))
    }

    /// Is it the turn of the next task?
    pub(super) fn is_next(&mut self) -> bool {
        self.until_next -= 1;
        let is_next = self.until_next == 0;
        if is_next {
            self.until_next = self.every;
        }
        is_next
    }

    /// Is a task followed that was admitted then? One that goes straight through counts only now.
    #[inline]
    pub(super) fn follows(&mut self, does_work: bool, admitted_ns: u64) -> bool {
        match admitted_ns {
            NOT_FOLLOWED => false,
            PASSING => does_work && self.is_next(),
            _ => true,
        }
    }

    /// Follows a task that was admitted then to the end of its last cursor.
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
        self.queued_ns.record(queued_ns);
        if !meter.follow(timeline, last, now_ns) {
            self.missed += 1;
        }
    }

    /// A slice was free so long after its last handle had gone.
    pub(super) fn slice_waited(&mut self, waited_ns: u64) {
        self.slice_waits_ns.record(waited_ns);
    }

    pub(super) fn latencies(&self, meter: &Meter) -> Latencies {
        let mut latencies = Latencies::default();
        latencies.every = self.every;
        latencies.missed = self.missed;
        latencies.queued_ns = self.queued_ns.clone();
        latencies.runs_ns = meter.runs_ns();
        latencies.slice_waits_ns = self.slice_waits_ns.clone();
        latencies.value_waits_ns = meter.value_waits_ns();
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_of_so_many_is_followed_and_the_first_is() {
        assert!(Sampling::new(0).is_none());
        let mut sampling = Sampling::new(3).unwrap();
        let followed: Vec<_> = (0..7).map(|_| sampling.follows(true, PASSING)).collect();
        assert_eq!(followed, [true, false, false, true, false, false, true]);
        assert!(!sampling.follows(true, NOT_FOLLOWED) && sampling.follows(true, 5));
        assert!(!sampling.follows(false, PASSING), "a point is no task");
    }
}

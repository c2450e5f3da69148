//! Sampling: which tasks are followed for latencies, and the waiting times that the device thread measures itself.

use std::sync::Arc;

use millstream_protocol::{Op, metrics::Latencies};
use millstream_sync::timeline::Timeline;

use super::{Observers, does_work};

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
    fn is_next(&mut self) -> bool {
        self.until_next -= 1;
        let is_next = self.until_next == 0;
        if is_next {
            self.until_next = self.latencies.every;
        }
        is_next
    }
}

impl Observers {
    /// Returns the time if the next task, which will be held, is sampled; else [`NOT_FOLLOWED`].
    #[inline]
    pub fn admitted_ns(&mut self, op: &Op) -> u64 {
        let sampling = self.sampling.as_mut().filter(|_| does_work(op));
        match sampling.is_some_and(|sampling| sampling.is_next()) {
            true => self.meter.now_ns(),
            false => NOT_FOLLOWED,
        }
    }

    /// Returns `true` if a task that was admitted at `admitted_ns` and is about to be issued is followed. A task that
    /// passes through is counted here; a held one was counted at its admission.
    #[inline]
    pub fn is_followed(&mut self, op: &Op, admitted_ns: u64) -> bool {
        let sampling = self.sampling.as_mut();
        sampling.is_some_and(|sampling| match admitted_ns {
            NOT_FOLLOWED => false,
            PASSING => does_work(op) && sampling.is_next(),
            _ => true,
        })
    }

    /// Follows a task that was admitted at `admitted_ns` until `timeline` publishes its last cursor.
    pub fn follow(&mut self, timeline: &Arc<Timeline>, last: u64, admitted_ns: u64) {
        let Some(sampling) = &mut self.sampling else {
            return;
        };
        let now_ns = self.meter.now_ns();
        let queued_ns = match admitted_ns {
            PASSING => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        sampling.latencies.queued_ns.record(queued_ns);
        if !self.meter.follow(timeline, last, now_ns) {
            sampling.latencies.missed += 1;
        }
    }

    /// Records that a slice is free whose last handle was dropped at `since_ns`, if it was timed.
    pub fn slice_waited(&mut self, since_ns: u64) {
        if let Some(sampling) = &mut self.sampling
            && since_ns != NOT_FOLLOWED
        {
            let waited_ns = self.meter.now_ns().saturating_sub(since_ns);
            sampling.latencies.slice_waits_ns.record(waited_ns);
        }
    }

    /// Returns the sampled latencies, if any are sampled.
    pub fn latencies(&self) -> Option<Latencies> {
        let mut latencies = self.sampling.as_ref()?.latencies.clone();
        latencies.runs_ns = self.meter.runs_ns();
        latencies.value_waits_ns = self.meter.value_waits_ns();
        Some(latencies)
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::Settings;

    use super::*;

    #[test]
    fn one_task_in_n_is_followed_beginning_with_the_first() {
        assert!(Sampling::new(0).is_none());
        let settings = Settings {
            sample_latencies: 3,
            ..Settings::default()
        };
        let mut observers = Observers::new(&settings, 1);
        let followed: Vec<_> = (0..7)
            .map(|_| observers.is_followed(&Op::Copy, PASSING))
            .collect();
        assert_eq!(followed, [true, false, false, true, false, false, true]);
        assert!(!observers.is_followed(&Op::Copy, NOT_FOLLOWED));
        assert!(observers.is_followed(&Op::Copy, 5));
        assert!(
            !observers.is_followed(&Op::Mark, PASSING),
            "a point is no work"
        );
    }
}

//! When a wait is reported.

use std::time::{Duration, Instant};

/// The shortest wait that is reported: twice no time would be no time, and each turn a report.
const AFTER_MIN: Duration = Duration::from_millis(1);

/// A wait is reported after some time, and again each time it has doubled.
#[derive(Default)]
pub(crate) struct Patience {
    since: Option<Instant>,
    reports: u32,
}

impl Patience {
    /// Returns the number of reports of the wait.
    pub(crate) fn reports(&self) -> u32 {
        self.reports
    }

    /// Returns the time of the wait if a report is due. `waits` is whether anything waits, without progress.
    pub(crate) fn turn(&mut self, waits: bool, now: Instant, after: Duration) -> Option<Duration> {
        if !waits {
            *self = Self::default();
            return None;
        }
        let waited = now.duration_since(*self.since.get_or_insert(now));
        let after = after.max(AFTER_MIN);
        let due = waited >= after.saturating_mul(2_u32.saturating_pow(self.reports));
        due.then(|| {
            self.reports += 1;
            waited
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_no_time_is_not_reported_in_each_turn() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        let reports = (0..1_000)
            .filter(|at| {
                let now = start + Duration::from_micros(50) * *at;
                patience.turn(true, now, Duration::ZERO).is_some()
            })
            .count();
        assert_eq!(reports, 6);
    }

    #[test]
    fn a_wait_is_reported_each_time_it_has_doubled() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut reports = Vec::new();
        for at in 0..50 {
            let waited = patience.turn(true, start + second * at, second * 10);
            reports.extend(waited.map(|waited| waited.as_secs()));
        }
        assert_eq!(reports, [10, 20, 40]);
        assert_eq!(patience.turn(false, start + second * 50, second), None);
        assert_eq!(patience.turn(true, start + second * 51, second), None);
        let waited = patience.turn(true, start + second * 52, second);
        assert_eq!(waited, Some(second));
    }
}

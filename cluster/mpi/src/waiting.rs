//! What this rank waits for, as the application sees it.

use std::fmt;
use std::time::{Duration, Instant};

/// A call of this rank that waits, or the making of a group: see [`World::waiting`](crate::World::waiting).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// What was called, and where.
    pub call: String,
    /// Whether the data of the call is ready on this rank.
    pub is_ready: bool,
    /// The ranks that have not joined the call: they have not made it, or its data is not ready there, or they do not run.
    /// Counted in the group; of a group that is being made, in the world. Empty if all have joined it, or if this is not
    /// known.
    pub missing: Vec<usize>,
}

/// The number of ranks that a text lists.
const LISTED: usize = 8;

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            is_ready,
            missing,
        } = self;
        write!(f, "{call} waits")?;
        if !is_ready {
            f.write_str(": its data is not ready on this rank")?;
        }
        let and = if *is_ready { ":" } else { ", and" };
        let listed: Vec<_> = missing
            .iter()
            .take(LISTED)
            .map(ToString::to_string)
            .collect();
        let listed = listed.join(", ");
        let more = match missing.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match missing.len() {
            0 => return Ok(()),
            1 => write!(f, "{and} rank {listed} has"),
            _ => write!(f, "{and} the ranks {listed}{more} have"),
        }?;
        f.write_str(" not joined it (not called, or its data is not ready there)")
    }
}

// When a wait is reported.

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
mod patience_tests {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_ranks_that_are_missing() {
        let mut waiting = Waiting {
            call: "`all_gather` of 4 f32 each at a.rs:1:2".to_owned(),
            is_ready: true,
            missing: Vec::new(),
        };
        assert_eq!(
            waiting.to_string(),
            "`all_gather` of 4 f32 each at a.rs:1:2 waits"
        );
        waiting.missing = vec![3];
        assert_eq!(
            waiting.to_string(),
            "`all_gather` of 4 f32 each at a.rs:1:2 waits: rank 3 has not joined it (not called, or its data is not ready there)"
        );
        waiting.missing = (1..12).collect();
        waiting.is_ready = false;
        assert_eq!(
            waiting.to_string(),
            "`all_gather` of 4 f32 each at a.rs:1:2 waits: its data is not ready on this rank, and the ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more have not joined it (not called, or its data is not ready there)"
        );
    }
}

//! The time per run, and the number of runs that fill a sample.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// The number of runs is extrapolated from a trial that takes at least this part (one quarter) of the wanted time.
const TRIAL_PART: u32 = 4;

/// Returns the nanoseconds since `begun` per run, for `count` runs.
pub fn ns_each(begun: Instant, count: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / count.max(1) as f64
}

/// Times `count` runs of `work`, and returns the nanoseconds per run.
///
/// `work` receives the index of the run. `done` waits for work that the runs have submitted; its time counts.
///
/// # Errors
///
/// The first error of `work` or `done`.
pub fn time_each<E>(
    count: usize,
    work: impl FnMut(usize) -> Result<(), E>,
    done: impl FnOnce() -> Result<(), E>,
) -> Result<f64, E> {
    let begun = Instant::now();
    (0..count).try_for_each(work)?;
    done()?;
    Ok(ns_each(begun, count))
}

/// Returns the number of runs, within `counts`, that together take the time `sample`.
///
/// `work(count)` does `count` runs. The calls also serve as a warm-up.
///
/// # Errors
///
/// The first error of `work`.
pub fn runs_to_fill<E>(
    sample: Duration,
    counts: RangeInclusive<u64>,
    mut work: impl FnMut(u64) -> Result<(), E>,
) -> Result<u64, E> {
    fill(sample, counts, |count| {
        let begun = Instant::now();
        work(count).map(|()| begun.elapsed())
    })
}

/// The search of [`runs_to_fill`]. `took(count)` does `count` runs and returns their time.
fn fill<E>(
    sample: Duration,
    counts: RangeInclusive<u64>,
    mut took: impl FnMut(u64) -> Result<Duration, E>,
) -> Result<u64, E> {
    let (least, most) = counts.into_inner();
    let mut count = least.max(1);
    loop {
        // The faster of two trials, so that one stall of the machine does not end the search too early.
        let spent = took(count)?.min(took(count)?);
        if spent >= sample / TRIAL_PART || count >= most {
            return Ok(runs_in(sample, count, spent).clamp(least, most));
        }
        count = count.saturating_mul(2).min(most);
    }
}

/// Returns the number of runs that take `sample`, if `count` runs take `spent`. If `spent` is zero, returns
/// `u64::MAX`, or 0 if `sample` is zero as well.
fn runs_in(sample: Duration, count: u64, spent: Duration) -> u64 {
    (count as f64 * sample.as_secs_f64() / spent.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn done_is_called_after_all_runs() {
        let order = RefCell::new(Vec::new());
        let run = |index| {
            order.borrow_mut().push(index);
            Ok::<_, Infallible>(())
        };
        let wait = || {
            order.borrow_mut().push(99);
            Ok(())
        };
        let ns = time_each(4, run, wait).unwrap();
        assert!(ns >= 0.0, "{ns}");
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 99]);
    }

    #[test]
    fn runs_in_a_sample_are_extrapolated() {
        assert_eq!(runs_in(MS(20), 5, MS(10)), 10);
        assert_eq!(runs_in(MS(20), 5, Duration::ZERO), u64::MAX);
        assert_eq!(runs_in(Duration::ZERO, 5, Duration::ZERO), 0);
    }

    #[test]
    fn search_doubles_the_runs_until_a_trial_is_long_enough() {
        let mut tried = Vec::new();
        let runs = fill(MS(20), 1..=1000, |count| {
            tried.push(count);
            Ok::<_, Infallible>(MS(count))
        });
        assert_eq!((runs, tried), (Ok(20), vec![1, 1, 2, 2, 4, 4, 8, 8]));
    }

    #[test]
    fn single_stall_does_not_end_the_search() {
        let mut calls = 0;
        let runs = fill(MS(20), 1..=1000, |count| {
            calls += 1;
            Ok::<_, Infallible>(MS(if calls == 1 { 500 } else { count }))
        });
        assert_eq!(runs, Ok(20));
    }

    #[test]
    fn number_of_runs_stays_within_its_bounds() {
        let nothing = |_| Ok::<_, Infallible>(Duration::ZERO);
        let of = |sample, counts| fill(sample, counts, nothing).unwrap();
        assert_eq!(of(Duration::ZERO, 3..=10), 3);
        assert_eq!(of(MS(1000), 1..=10), 10);
    }

    #[test]
    fn error_ends_the_search() {
        let end = runs_to_fill(MS(1000), 1..=10, Err);
        assert_eq!(end, Err(1));
    }
}
